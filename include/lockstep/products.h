#pragma once

#include <optional>
#include <string_view>
#include <utility>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/manipulation.h>
#include <lockstep/ops.h>

// Products whose result has a dtype of its own, and products of rows that belong to different matrices.
namespace lockstep {

// With a dtype for the result: operands of 16-bit floats are multiplied as they are and summed up in float32, all others
// are widened first, so that sums of int8 in int32 do not wrap; bool counts as 0 and 1. A narrower dtype is rounded to
// at the end. All throw DtypeError for an integer result of floats or a real one of complex numbers, and what the
// functions of the same names throw. (JAX's preferred_element_type)
/// lax.dot_general, likewise.
LOCKSTEP_API Array dot_general(const ArrayOperand& a, const ArrayOperand& b, const std::pair<Axes, Axes>& contract,
                               const std::pair<Axes, Axes>& batch, DType result);
LOCKSTEP_API Array matmul(const ArrayOperand& a, const ArrayOperand& b, DType result);  ///< numpy.matmul, likewise.
LOCKSTEP_API Array einsum(std::string_view equation, const ArrayOperands& operands, DType result);  ///< Likewise.

/// Rows x [m, k] in groups, one after the other, group i of group_sizes[i] rows, each row times the matrix of its group,
/// matrices [g, k, n]: [m, n], in the promoted dtype or in `result`. Rows behind the last group give 0, groups that
/// would reach beyond the rows end with them. The rows are multiplied in tiles of one group each, of at most 128 rows:
/// about m + 128 g rows in all, whatever the sizes. What a mixture of experts applies. Throws ShapeError where ranks or
/// extents do not fit, DtypeError for sizes that are no integers. (jax.lax.ragged_dot)
LOCKSTEP_API Array ragged_dot(const ArrayOperand& x, const ArrayOperand& matrices, const ArrayOperand& group_sizes,
                              const std::optional<DType>& result = detail::no_dtype);

}  // namespace lockstep
