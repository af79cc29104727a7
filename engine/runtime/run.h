#pragma once

#include <cstdint>
#include <vector>

#include "engine/compile/executable.h"
#include "engine/ir/eval.h"

namespace lockstep::runtime {

/// Runs an executable. Arguments are moved in; a donated one whose buffer has no other owner may become a result.
/// `collectives` becomes the number of collectives computed, each as often as it was. Throws ValueError where count or
/// types differ from the function's, and whatever a kernel throws.
std::vector<ir::HostArray> run(const compile::Executable& executable, std::vector<ir::HostArray> arguments,
                               const std::vector<bool>& donated = {}, std::int64_t* collectives = nullptr);

}  // namespace lockstep::runtime
