#pragma once

#include <cstddef>
#include <functional>

#include "engine/ir/primitive.h"

// Arithmetic operations of ops for which the default, one for each element of a pointwise result and else none, is wrong.
// Operations on complex numbers count as one.
namespace lockstep::ops::flops {

/// `each` for each element of an operand.
ir::Flops per_element(std::size_t operand, double each = 1);
/// `each` for each element of result 0.
ir::Flops per_result(double each);
/// `rule(rows, columns)` for each matrix of a batch, operand 0.
ir::Flops per_matrix(std::function<double(double rows, double columns)> rule);

}  // namespace lockstep::ops::flops
