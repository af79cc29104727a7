#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string_view>

#include <lockstep/profile.h>

namespace lockstep::benches {

// Optimizers alone, under plain jit, on weights whose gradients are given: adam10m, Adam on one vector of ten million, and
// <name>_weights, another on eight matrices of 1024 x 1024 with their biases.

bool is_optimizer_workload(std::string_view name);
/// Weights to start from and one gradient of each.
void write_optimizer_inputs(std::string_view name, const std::filesystem::path& folder);
/// Makes one update and reads the first parameter on the host.
std::function<double()> optimizer_step(std::string_view name, const std::filesystem::path& folder,
                                       std::shared_ptr<Profile> profile);

}  // namespace lockstep::benches
