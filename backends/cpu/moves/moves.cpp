#include "backends/cpu/moves/moves.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <type_traits>

#include "backends/cpu/element_types.h"
#include "backends/cpu/loop_nest.h"

namespace lockstep::backend::cpu {

namespace {

using Nest = LoopNest<2>;  // target, source
using Steps = std::array<std::int64_t, 2>;

template <class T>
void copy_row(T* to, const T* from, std::int64_t n, const Steps& steps) {
  if (steps[0] == 1 && steps[1] == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(T));
  } else if (steps[0] == 1 && steps[1] == 0) {
    std::fill_n(to, n, *from);
  } else {
    for (std::int64_t i = 0; i < n; ++i) to[i * steps[0]] = from[i * steps[1]];
  }
}

/// A matrix whose rows are dense in the target and whose columns are dense in the source.
struct Transposed {
  std::int64_t rows, columns;
  std::int64_t target_step;  ///< From row to row.
  std::int64_t source_step;  ///< From column to column.
};

/// Square by square, so that both sides' cache lines are used whole.
template <class T>
void copy_transposed(T* to, const T* from, const Transposed& matrix) {
  constexpr std::int64_t side = 16;
  for (std::int64_t row = 0; row < matrix.rows; row += side) {
    const std::int64_t last_row = std::min(row + side, matrix.rows);
    for (std::int64_t column = 0; column < matrix.columns; column += side) {
      const std::int64_t last_column = std::min(column + side, matrix.columns);
      for (std::int64_t i = row; i < last_row; ++i) {
        for (std::int64_t j = column; j < last_column; ++j) {
          to[i * matrix.target_step + j] = from[i + j * matrix.source_step];
        }
      }
    }
  }
}

/// The dimension along which the source is dense where it is not along the innermost one; -1 where there is none.
int transposed_dimension(const Nest& nest) {
  const auto inner = static_cast<std::size_t>(nest.rank - 1);
  if (nest.strides[0][inner] != 1 || nest.strides[1][inner] == 1 || nest.strides[1][inner] == 0) return -1;
  for (int d = 0; d < nest.rank - 1; ++d) {
    if (nest.strides[1][static_cast<std::size_t>(d)] == 1) return d;
  }
  return -1;
}

template <class T>
void copy_along(const Nest& nest, T* to, const T* from) {
  const int across = transposed_dimension(nest);
  if (across < 0) {
    nest.for_each_row([&](const Steps& offsets, std::int64_t n, const Steps& steps) {
      copy_row(to + offsets[0], from + offsets[1], n, steps);
    });
    return;
  }
  const auto rows = static_cast<std::size_t>(across);
  const auto columns = static_cast<std::size_t>(nest.rank - 1);
  const Transposed matrix{nest.extents[rows], nest.extents[columns], nest.strides[0][rows], nest.strides[1][columns]};
  Nest matrices = nest;
  matrices.extents[rows] = matrices.extents[columns] = 1;
  matrices.for_each_row([&](const Steps& offsets, std::int64_t /*n*/, const Steps& /*steps*/) {
    copy_transposed(to + offsets[0], from + offsets[1], matrix);
  });
}

}  // namespace

void copy_elements(const ArrayView& target, const ArrayView& source, void* first, const Strides& strides) {
  if (target.shape.size() == 0) return;
  const Nest nest(target.shape, {target.strides.data(), strides.data()});
  with_moved(source.dtype,
             [&]<class T>() { copy_along(nest, static_cast<T*>(target.data), static_cast<const T*>(first)); });
}

void fill_elements(const ArrayView& target, const void* element) {
  with_moved(target.dtype, [&]<class T>() {
    std::fill_n(static_cast<T*>(target.data), target.shape.size(), *static_cast<const T*>(element));
  });
}

void* element_at(const ArrayView& view, std::span<const std::int64_t> index) {
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < index.size(); ++d) offset += index[d] * view.strides[d];
  return static_cast<std::byte*>(view.data) + offset * static_cast<std::int64_t>(size_of(view.dtype));
}

std::int64_t integer_at(const ArrayView& view, std::int64_t i) {
  return with_integer(view.dtype, [&]<class T>() {
    const T element = static_cast<const T*>(view.data)[i];
    if constexpr (std::is_same_v<T, std::uint64_t>) {
      return static_cast<std::int64_t>(std::min(element, static_cast<T>(std::numeric_limits<std::int64_t>::max())));
    } else {
      return static_cast<std::int64_t>(element);
    }
  });
}

Index clamped_start(std::span<const ArrayView> indices, const Shape& shape, const Shape& sizes) {
  Index start{};
  for (std::size_t d = 0; d < indices.size(); ++d) {
    const auto at = static_cast<int>(d);
    start[d] = std::clamp<std::int64_t>(integer_at(indices[d], 0), 0, shape[at] - sizes[at]);
  }
  return start;
}

}  // namespace lockstep::backend::cpu
