#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <lockstep/types.h>

namespace lockstep::backend::cpu {

/// The loop over all elements of N operands of one shape, adjacent dimensions merged wherever every operand allows it.
template <std::size_t N>
struct LoopNest {
  using Strides = std::array<std::int64_t, Shape::max_rank>;

  int rank = 0;
  std::array<std::int64_t, Shape::max_rank> extents{};
  std::array<Strides, N> strides{};

  LoopNest(const Shape& shape, const std::array<const std::int64_t*, N>& operand_strides) {
    for (int d = 0; d < shape.rank(); ++d) {
      if (shape[d] != 1) add_dimension(shape[d], operand_strides, d);
    }
    if (rank == 0) {
      rank = 1;
      extents[0] = 1;
    }
  }

  /// Of operand k, from one element of a row to the next.
  std::int64_t inner_step(std::size_t k) const { return strides[k][static_cast<std::size_t>(rank - 1)]; }

  /// Calls row(offsets, length, steps): one run along the innermost dimension, offsets and steps in elements.
  template <class Row>
  void for_each_row(Row&& row) const {
    const int inner = rank - 1;
    std::array<std::int64_t, N> offsets{};
    std::array<std::int64_t, N> steps;
    for (std::size_t k = 0; k < N; ++k) steps[k] = inner_step(k);
    if (rank == 1 && extents[0] > 0) {
      row(offsets, extents[0], steps);
      return;
    }
    std::array<std::int64_t, Shape::max_rank> index{};
    for (int d = 0; d < rank; ++d) {
      if (extents[static_cast<std::size_t>(d)] == 0) return;
    }
    while (true) {
      row(offsets, extents[static_cast<std::size_t>(inner)], steps);
      int d = inner - 1;
      for (; d >= 0; --d) {
        const auto at = static_cast<std::size_t>(d);
        for (std::size_t k = 0; k < N; ++k) offsets[k] += strides[k][at];
        if (++index[at] < extents[at]) break;
        for (std::size_t k = 0; k < N; ++k) offsets[k] -= strides[k][at] * extents[at];
        index[at] = 0;
      }
      if (d < 0) return;
    }
  }

 private:
  void add_dimension(std::int64_t extent, const std::array<const std::int64_t*, N>& operand_strides, int d) {
    bool merges = rank > 0;
    const auto last = static_cast<std::size_t>(rank - 1);
    for (std::size_t k = 0; merges && k < N; ++k) merges = strides[k][last] == operand_strides[k][d] * extent;
    if (!merges) ++rank;
    const auto at = static_cast<std::size_t>(rank - 1);
    extents[at] = merges ? extents[at] * extent : extent;
    for (std::size_t k = 0; k < N; ++k) strides[k][at] = operand_strides[k][d];
  }
};

}  // namespace lockstep::backend::cpu
