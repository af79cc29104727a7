#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/grids.h>

#include "engine/api/indexing/index_values.h"
#include "engine/api/numpy/operands.h"
#include "engine/core/lists.h"

namespace lockstep {

namespace {

/// Indices clipped or wrapped, int64.
Array brought_inside(const Array& indices, std::int64_t extent, IndexMode mode) {
  // What int64 does not hold keeps its dtype until it is inside.
  const Array wide = indices.dtype() == uint64 ? indices : convert(indices, int64);
  const Array inside = mode == IndexMode::wrap ? remainder(wide, extent) : api::clip_integers(wide, 0, extent - 1);
  return convert(inside, int64);
}

/// Whether an integer dtype holds that number, which is not negative.
bool can_hold(DType dtype, std::int64_t number) {
  const int bits = static_cast<int>(size_of(dtype)) * 8 - (is_signed_integer(dtype) ? 1 : 0);
  return bits >= 63 || number < (std::int64_t{1} << bits);
}

/// The dtype of an index into these extents: the one given, where it holds all of them.
DType held_by(DType dtype, const Shape& extents) {
  std::int64_t last = 0;
  for (const std::int64_t extent : extents) last = std::max(last, extent - 1);
  return can_hold(dtype, last) ? dtype : can_hold(int32, last) ? int32 : int64;
}

/// Vectors, each along a dimension of its own.
Arrays opened(std::string_view op, std::span<const Array> vectors) {
  Arrays grid;
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    if (vectors[i].ndim() != 1) {
      throw ShapeError(fmt::format("{}: {} given; expected a vector", op, to_string(vectors[i].shape())));
    }
    Axes shape(vectors.size(), 1);
    shape[i] = vectors[i].size();
    grid.push_back(reshape(vectors[i], shape));
  }
  return grid;
}

Arrays points_of(const std::vector<GridRange>& ranges) {
  Arrays vectors;
  for (const GridRange& range : ranges) vectors.push_back(range.points());
  return vectors;
}

struct Joined {
  Array array;
  std::int64_t depth;  ///< How many lists it was in.
};

Joined joined_blocks(const Blocks& blocks) {
  if (!blocks.is_list()) return {blocks.array(), 0};
  if (blocks.blocks().empty()) throw ValueError("join_blocks: a list is empty; expected at least one array in each");
  Arrays arrays;
  std::int64_t depth = -1, rank = 0;
  for (const Blocks& item : blocks.blocks()) {
    const Joined inner = joined_blocks(item);
    if (depth >= 0 && inner.depth != depth) {
      throw ValueError(
          fmt::format("join_blocks: lists are nested {} and {} deep; expected one depth; write {{x}} for a list "
                      "of one array",
                      depth, inner.depth));
    }
    depth = inner.depth;
    rank = std::max<std::int64_t>(rank, inner.array.ndim());
    arrays.push_back(inner.array);
  }
  rank = std::max(rank, depth + 1);
  for (Array& array : arrays) {
    Shape shape = array.shape();
    while (shape.rank() < rank) shape = shape.insert(0, 1);
    array = reshape(array, shape.to_vector());
  }
  return {concatenate(arrays, -(depth + 1)), depth + 1};
}

}  // namespace

Array indices(const Axes& extents, DType dtype) {
  const Shape shape(extents);
  if (extents.empty()) return zeros({0}, dtype);
  Arrays all;
  for (int d = 0; d < shape.rank(); ++d) all.push_back(iota(shape, d, dtype));
  return stack(all, 0);
}

Arrays sparse_indices(const Axes& extents, DType dtype) {
  Arrays vectors;
  for (const std::int64_t extent : Shape(extents)) vectors.push_back(arange(extent, dtype));
  return opened("sparse_indices", vectors);
}

Array mgrid(const std::vector<GridRange>& ranges) {
  if (ranges.empty()) throw ValueError("mgrid: there is no range; give one for each dimension");
  return stack(broadcast_arrays(opened("mgrid", points_of(ranges))), 0);
}

Arrays ogrid(const std::vector<GridRange>& ranges) { return opened("ogrid", points_of(ranges)); }

Arrays ix_(const ArrayOperands& vectors) {
  for (const Array& vector : vectors) {
    if (vector.dtype() == bool_) api::expect_indices("ix_", vector);
  }
  return opened("ix_", vectors);
}

Arrays unravel_index(const ArrayOperand& flat, const Axes& extents) {
  api::expect_integers("unravel_index", flat, "indices");
  const Shape shape(extents);
  const std::int64_t size = shape.size();
  const Array given = can_hold(int32, size)    ? api::in_at_least_32_bits(flat)
                      : flat.dtype() == uint64 ? Array(flat)
                                               : convert(flat, int64);
  const Array inside = api::clip_integers(given, -size, size - 1);
  const std::vector<std::int64_t> strides = row_major_strides(shape);
  Arrays places;
  for (int d = 0; d < shape.rank(); ++d) {
    const std::int64_t stride = std::max<std::int64_t>(nth(strides, d), 1);
    const std::int64_t extent = std::max<std::int64_t>(shape[d], 1);
    places.push_back(convert(remainder(floor_divide(inside, stride), extent), held_by(flat.dtype(), shape)));
  }
  return places;
}

Array ravel_multi_index(const ArrayOperands& multi, const Axes& extents, IndexMode mode) {
  if (multi.size() != extents.size()) {
    throw ShapeError(fmt::format("ravel_multi_index: {} arrays of indices for {} extents; give one for each",
                                 multi.size(), extents.size()));
  }
  if (mode != IndexMode::clip && mode != IndexMode::wrap) {
    throw ValueError("ravel_multi_index: an index outside is clipped or wrapped; expected IndexMode::clip or wrap");
  }
  const Shape shape(extents);
  const std::vector<std::int64_t> strides = row_major_strides(shape);
  for (const Array& indices : multi) api::expect_integers("ravel_multi_index", indices, "indices");
  const DType dtype = multi.empty() ? int32 : api::common_dtype(std::span<const Array>(multi));
  if (!can_hold(dtype, std::max<std::int64_t>(shape.size() - 1, 0))) {
    throw DtypeError(fmt::format(
        "ravel_multi_index: {} elements of {} have indices up to {}, which {} does not hold; convert the indices to {}",
        shape.size(), to_string(shape), shape.size() - 1, name(dtype),
        name(can_hold(int32, shape.size() - 1) ? int32 : int64)));
  }
  Array flat = zeros({}, int64);
  for (std::size_t d = 0; d < multi.size(); ++d) {
    flat = flat + strides[d] * brought_inside(multi[d], std::max<std::int64_t>(extents[d], 1), mode);
  }
  return convert(flat, dtype);
}

Arrays diag_indices(std::int64_t n, std::int64_t dimensions) {
  if (dimensions < 0) {
    throw ValueError(fmt::format("diag_indices: dimensions must not be negative, got {}", dimensions));
  }
  return Arrays(static_cast<std::size_t>(dimensions), arange(n));
}

Array fill_diagonal(const ArrayOperand& x, const Operand& values) {
  const Shape& shape = x.shape();
  const bool equal_extents = std::all_of(shape.begin(), shape.end(), [&](std::int64_t n) { return n == shape[0]; });
  if (shape.rank() < 2 || (shape.rank() > 2 && !equal_extents)) {
    throw ShapeError(fmt::format("fill_diagonal: {} given; expected a matrix, or equal extents of more dimensions",
                                 to_string(shape)));
  }
  Array held = ones(shape, bool_);
  for (int d = 1; d < shape.rank(); ++d) held = logical_and(held, equal(iota(shape, d), iota(shape, 0)));
  if (values.is_scalar()) return where(held, full_like(x, values), x);
  Array by_row = convert(values.array(), x.dtype());
  if (by_row.ndim() == 1) {
    const std::int64_t length = std::min(shape[0], shape[1]);
    if (by_row.size() != length) {
      throw ShapeError(fmt::format("fill_diagonal: {} values for a diagonal of {} elements; give one for each",
                                   by_row.size(), length));
    }
    by_row = pad(by_row, 0, {0}, {shape[0] - length});
    Axes column = repeated(shape.rank(), 1);
    column[0] = shape[0];
    by_row = reshape(by_row, column);
  }
  return where(held, broadcast_to(by_row, shape), x);
}

Array join_blocks(const Blocks& blocks) { return joined_blocks(blocks).array; }

Array block_diag(const ArrayOperands& arrays) {
  if (arrays.empty()) return zeros({1, 0});
  std::int64_t columns = 0, before = 0;
  for (const Array& array : arrays) {
    if (array.ndim() > 2) {
      throw ShapeError(
          fmt::format("block_diag: {} given; expected matrices, vectors or scalars", to_string(array.shape())));
    }
    columns += atleast_2d(array).dim(1);
  }
  Arrays rows;
  for (const Array& array : arrays) {
    const Array matrix = atleast_2d(array);
    rows.push_back(pad(matrix, 0, {0, before}, {0, columns - before - matrix.dim(1)}));
    before += matrix.dim(1);
  }
  return concatenate(rows, 0);
}

Array toeplitz(const ArrayOperand& column, const ArrayOperand& row) {
  if (column.ndim() != 1 || row.ndim() != 1) {
    throw ShapeError(fmt::format("toeplitz: column {} and row {} given; expected vectors", to_string(column.shape()),
                                 to_string(row.shape())));
  }
  const std::int64_t m = column.size(), n = row.size();
  if (m == 0 || n == 0) return zeros({m, n}, promote(column.dtype(), row.dtype()));
  const Array diagonals = concatenate({flip(column), slice_in_dim(row, 1, n, 0)}, 0);
  const Array place = expand_dims(arange(n), 0) - expand_dims(arange(m), 1) + (m - 1);
  return take(diagonals, place, 0, IndexMode::promise_in_bounds);
}

Array toeplitz(const ArrayOperand& column) { return toeplitz(column, conj(column)); }

}  // namespace lockstep
