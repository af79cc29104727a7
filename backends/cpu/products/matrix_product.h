#pragma once

// A dot_general as one product of batches of matrices.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <lockstep/backend/backend.h>

namespace lockstep::backend::cpu {

/// An operand as a batch of matrices: three dimensions over the operand's memory, or over a row-major copy of it in
/// scratch where its dimensions do not merge.
struct MatrixOperand {
  struct Dimension {
    std::int64_t extent = 1;
    std::int64_t stride = 0;
  };

  std::vector<Dimension> order;  ///< The operand's dimensions as the product wants them.
  std::array<std::int64_t, 3> sizes{};
  std::array<std::int64_t, 3> strides{};
  bool copied = false;
  std::size_t scratch_offset = 0;

  std::int64_t size() const { return sizes[0] * sizes[1] * sizes[2]; }
  /// The memory that the strides refer to. Copies the operand to its place in scratch where it is `copied`.
  void* matrices(const ArrayView& operand, void* scratch) const;
};

/// a as [batch, rows, contracted], b as [batch, contracted, columns].
struct MatrixProduct {
  MatrixOperand a, b;
  std::size_t scratch_bytes = 0;

  /// Pairs of contracted dimensions may be taken in any order: the one is chosen that copies least.
  static MatrixProduct of(const KernelRequest& request);

  std::int64_t copied() const { return (a.copied ? a.size() : 0) + (b.copied ? b.size() : 0); }
};

}  // namespace lockstep::backend::cpu
