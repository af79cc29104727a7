#pragma once

#include <string_view>

#include "engine/ir/function.h"

namespace lockstep::api {

/// Compares the derivative in the first `arguments` inputs of a function with differences, at a drawn point: in reverse
/// mode, or forward. Functions under a mesh, and those with other floats than float32 and float64, pass unseen. Throws
/// DerivativeError naming `op` with both numbers.
void check_rule(std::string_view op, const ir::FunctionPtr& function, std::size_t arguments, bool forward);

}  // namespace lockstep::api
