#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <lockstep/backend/backend.h>
#include <lockstep/backend/element_loop.h>

#include "backends/jit/code.h"

namespace lockstep::backend::jit {

/// Operands and results of one loop.
constexpr std::size_t most_arrays = 48;

using Strides = std::array<std::int64_t, Shape::max_rank>;

/// The loops around the elements, adjacent dimensions merged wherever all arrays allow it; strides in bytes.
struct Nest {
  int rank = 1;
  Strides extents{1};
  std::array<Strides, most_arrays> strides{};

  explicit Nest(const Shape& shape, std::span<const Strides> arrays) : Nest(shape, arrays, shape.rank()) {}
  /// Dimensions before `inner` and those from there on stay apart; the latter must merge into one.
  Nest(const Shape& shape, std::span<const Strides> arrays, int inner) {
    int last = -1;
    bool is_inner = false;
    for (int d = 0; d < shape.rank(); ++d) {
      const auto from = static_cast<std::size_t>(d);
      if (shape[d] == 1) continue;
      bool merges = last >= 0 && (d < inner || is_inner);
      is_inner = d >= inner;
      for (std::size_t k = 0; merges && k < arrays.size(); ++k) {
        merges = strides[k][static_cast<std::size_t>(last)] == arrays[k][from] * shape[d];
      }
      if (!merges) ++last;
      const auto at = static_cast<std::size_t>(last);
      extents[at] = merges ? extents[at] * shape[d] : shape[d];
      for (std::size_t k = 0; k < arrays.size(); ++k) strides[k][at] = arrays[k][from];
    }
    rank = std::max(last + 1, 1);
  }
  std::size_t inner() const { return static_cast<std::size_t>(rank - 1); }
  std::int64_t rows() const { return rank > 1 ? extents[inner() - 1] : 1; }
  /// Of array k, from one row of a plane to the next.
  std::int64_t row_stride(std::size_t k) const { return rank > 1 ? strides[k][inner() - 1] : 0; }
  /// Rows of all planes: an array's last two dimensions here are a plane, the others count planes.
  std::int64_t all_rows() const {
    std::int64_t all = 1;
    for (std::size_t d = 0; d < inner(); ++d) all *= extents[d];
    return all;
  }
};

/// Where a loop's operands and results begin.
using Bases = std::array<std::byte*, most_arrays>;

inline Bases bases_of(const KernelArguments& arguments) {
  Bases bases;
  std::size_t k = 0;
  for (const auto* views : {&arguments.inputs, &arguments.outputs}) {
    for (const ArrayView& view : *views) bases[k++] = static_cast<std::byte*>(view.data);
  }
  return bases;
}

/// Calls visit(at, n) for `count` rows from `first` of all on, up to a plane's rows at a time: n rows where `at` points.
template <class Visit>
void for_each_run_of_rows(const Nest& nest, std::size_t arrays, const Bases& bases, std::int64_t first,
                          std::int64_t count, Visit visit) {
  if (first == 0 && nest.rank <= 2) return count > 0 ? visit(bases, count) : void();
  for (std::int64_t n = 0; count > 0; first += n, count -= n) {
    std::int64_t plane = first / nest.rows();
    const std::int64_t row = first % nest.rows();
    n = std::min(count, nest.rows() - row);
    Bases at = bases;
    const auto move = [&](std::size_t dim, std::int64_t index) {
      for (std::size_t k = 0; k < arrays; ++k) at[k] += nest.strides[k][dim] * index;
    };
    if (nest.rank > 1) move(nest.inner() - 1, row);
    for (int d = nest.rank - 3; d >= 0; --d) {
      const auto dim = static_cast<std::size_t>(d);
      move(dim, plane % nest.extents[dim]);
      plane /= nest.extents[dim];
    }
    visit(at, n);
  }
}

/// Strides of the loop's dimensions for an operand of this shape and strides (in elements).
template <class OperandStrides>
Strides loop_strides(const ElementLoop::Operand& operand, const Shape& shape, const OperandStrides& strides) {
  Strides result{};
  for (std::size_t d = 0; d < operand.dims.size(); ++d) {
    const bool moves = shape[static_cast<int>(d)] != 1;
    result[static_cast<std::size_t>(operand.dims[d])] =
        moves ? strides[d] * static_cast<std::int64_t>(size_of(operand.dtype)) : 0;
  }
  return result;
}

inline Strides row_major(const Shape& shape, DType dtype) {
  Strides result{};
  const std::vector<std::int64_t> strides = row_major_strides(shape);
  for (std::size_t d = 0; d < strides.size(); ++d) {
    result[d] = strides[d] * static_cast<std::int64_t>(size_of(dtype));
  }
  return result;
}

/// Of a loop's operands and results, all row-major; a sum moves along none of the dimensions.
inline std::vector<Strides> row_major_arrays(const ElementLoop& loop, const KernelRequest& request) {
  std::vector<Strides> strides;
  for (std::size_t k = 0; k < request.inputs.size(); ++k) {
    const Shape& shape = request.inputs[k].shape;
    strides.push_back(loop_strides(loop.operands()[k], shape, row_major_strides(shape)));
  }
  for (std::size_t r = 0; r < request.outputs.size(); ++r) {
    const ArrayType& type = request.outputs[r];
    strides.push_back(loop.results()[r].sum_over.empty() ? row_major(type.shape, type.dtype) : Strides{});
  }
  return strides;
}

/// Marks the operands of which a row has one element. All accesses, operands first.
inline std::vector<Access> mark_uniform(Loop& steps, const Nest& nest) {
  for (std::size_t k = 0; k < steps.operands.size(); ++k) {
    steps.operands[k].uniform = nest.strides[k][nest.inner()] == 0 && nest.extents[nest.inner()] > 1;
  }
  std::vector<Access> accesses = steps.operands;
  accesses.insert(accesses.end(), steps.results.begin(), steps.results.end());
  return accesses;
}

}  // namespace lockstep::backend::jit
