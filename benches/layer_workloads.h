#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "workloads.h"

namespace lockstep::benches {

// Small models made of one layer, or of two that go together, with a mean and a head: whether a step of each is as fast as
// those of the models that programs are tuned by.

const std::vector<std::string_view>& layer_workload_names();
/// Empty for another name.
std::optional<Workload> find_layer_workload(std::string_view name);

}  // namespace lockstep::benches
