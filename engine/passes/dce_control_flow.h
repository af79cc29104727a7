#pragma once

#include <vector>

#include "engine/ir/function.h"

namespace lockstep::passes {

/// A scan, while_loop or cond without the results that nobody uses, the carries that no result needs, and the operands its
/// sub-functions then do not need. `live` is per var. Whether the equation is one of them: else it stays as it is.
bool drop_dead_parts(ir::Equation& equation, const std::vector<bool>& live);

}  // namespace lockstep::passes
