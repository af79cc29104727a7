#pragma once

#include <vector>

#include "engine/compile/executable.h"
#include "engine/ir/eval.h"

namespace lockstep::runtime {

/// Runs an executable. Arguments are moved in; a donated one whose buffer has no other owner may become a result.
/// Throws ValueError where count or types differ from the function's, and whatever a kernel throws.
std::vector<ir::HostArray> run(const compile::Executable& executable, std::vector<ir::HostArray> arguments,
                               const std::vector<bool>& donated = {});

}  // namespace lockstep::runtime
