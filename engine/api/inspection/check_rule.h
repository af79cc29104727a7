#pragma once

#include <span>
#include <string_view>

#include <lockstep/array.h>

#include "engine/ir/function.h"

namespace lockstep::api {

/// Compares the derivative in the first inputs of a function with differences, at a drawn point: in reverse mode, or
/// forward; of complex numbers along complex directions, whose product with a cotangent counts by its real part. The last
/// inputs are `closed`, what the function and its rules closed over: concrete arrays have their values, traced ones are
/// drawn, each once however often it stands there. Functions under a mesh, and those with narrower floats than float32,
/// pass unseen. Throws
/// DerivativeError naming `op` with both numbers.
void check_rule(std::string_view op, const ir::FunctionPtr& function, std::span<const Array> closed, bool forward);

}  // namespace lockstep::api
