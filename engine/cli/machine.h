#pragma once

#include <map>
#include <string>

namespace lockstep::cli {

/// What bits depend on beside the program and its arguments: versions, processor model, cache sizes, environment
/// variables that change kernels' results.
std::map<std::string, std::string> machine_description();

}  // namespace lockstep::cli
