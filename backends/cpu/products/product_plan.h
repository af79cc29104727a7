#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include <lockstep/backend/backend.h>

namespace lockstep::backend::cpu {

/// Several dimensions walked together: how many elements, and a step along them in both operands and in the result.
struct Axis {
  std::int64_t extent = 1;
  std::array<std::int64_t, 2> operand{};
  std::int64_t result = 0;
};

/// A row-major copy of an operand with its dimensions in another order: the extents and the operand's strides.
struct Copy {
  std::vector<std::int64_t> extents, strides;
};

/// A dot_general as a loop over products of matrices: result[rows, columns] = a[rows, depth] * b[depth, columns], where
/// every matrix has stride 1 along one dimension and the result along its columns. Operand 0 of the plan is a.
struct ProductPlan {
  std::vector<Axis> loops;  ///< Outermost first.
  Axis rows, columns, depth;
  std::array<Copy, 2> copies;  ///< Of operands that do not lie so; without extents where none is needed.
  bool swapped = false;        ///< a is the op's second operand: a result of one column is taken for one of one row.
  bool is_in_blocks = false;   ///< Each round of the loop is a product of its own.

  std::int64_t size() const { return rows.extent * columns.extent * depth.extent; }
  bool is_in_place() const { return copies[0].extents.empty() && copies[1].extents.empty(); }
  /// One product of operands as they lie.
  bool is_matrix() const { return loops.empty() && is_in_place(); }
};

/// Of an op whose operands and result have elements.
ProductPlan plan_product(const KernelRequest& request);

/// The plan as `dot_general` computes it. Where a is large and transposed, oneDNN adds up the depth of fewer rows in another
/// order; so that devices can share such a product, it is a loop over blocks of rows from the outset.
ProductPlan plan_in_blocks(const KernelRequest& request);

}  // namespace lockstep::backend::cpu
