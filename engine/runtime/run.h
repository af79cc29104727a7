#pragma once

#include <cstdint>
#include <vector>

#include "engine/compile/executable.h"
#include "engine/compile/recorder.h"
#include "engine/ir/eval.h"

namespace lockstep::runtime {

/// What each device did in one run.
using Record = std::vector<compile::Recorder>;

/// Runs an executable. Arguments are moved in; a donated one whose buffer has no other owner may become a result.
/// `collectives` becomes the number of collectives computed, each as often as it was; `record`, where there is one, what
/// ran when. Throws ValueError where count or
/// types differ from the function's, and whatever a kernel throws.
std::vector<ir::HostArray> run(const compile::Executable& executable, std::vector<ir::HostArray> arguments,
                               const std::vector<bool>& donated = {}, std::int64_t* collectives = nullptr,
                               Record* record = nullptr);

}  // namespace lockstep::runtime
