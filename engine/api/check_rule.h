#pragma once

#include <string_view>

#include "engine/ir/function.h"

namespace lockstep::api {

/// Compares the derivative in the first `arguments` inputs of a function with differences, at a drawn point: in reverse
/// mode, or forward; of complex numbers along complex directions, whose product with a cotangent counts by its real part.
/// Functions under a mesh, and those with narrower floats than float32, pass unseen. Throws
/// DerivativeError naming `op` with both numbers.
void check_rule(std::string_view op, const ir::FunctionPtr& function, std::size_t arguments, bool forward);

}  // namespace lockstep::api
