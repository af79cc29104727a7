#pragma once

#include <filesystem>

#include "workloads.h"

namespace lockstep::benches {

/// The model that random_models.py has written as JSON: layers one after the other, in file order, then a dense "head".
///
///     {"rows": 8, "input": [32, 32, 3], "adamw": false, "layers": [{"filters": 24, "kernel": 3, "stride": 1,
///      "groups": 1, "dilation": 1, "norm": "batch", "activation": "relu"}, {"units": 64, "norm": "", ...}]}
///
/// Throws std::filesystem::filesystem_error or nlohmann's errors where the file is not such a one.
Workload read_drawn_model(const std::string& name, const std::filesystem::path& file);

}  // namespace lockstep::benches
