#pragma once

#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/indexing.h>
#include <lockstep/manipulation.h>
#include <lockstep/ops.h>

// numpy's grids of indices and coordinates, flat indices, diagonals, and blocks of blocks.
namespace lockstep {

/// The indices of every element of an array of these extents: [rank, extents...], int32 unless another dtype is given.
/// Throws ShapeError for a negative extent.
LOCKSTEP_API Array indices(const Axes& extents, DType dtype = int32);
/// The same, one array a dimension, each of extent 1 but along its own: they broadcast to the grid.
LOCKSTEP_API Arrays sparse_indices(const Axes& extents, DType dtype = int32);

/// One dimension of a grid: what arange(start, stop, step) gives.
class LOCKSTEP_API GridRange {
 public:
  template <class Start, class Stop>
  GridRange(Start start, Stop stop) : points_(arange(start, stop)) {}
  template <class Start, class Stop, class Step>
  GridRange(Start start, Stop stop, Step step) : points_(arange(start, stop, step)) {}
  GridRange(Array points) : points_(std::move(points)) {}  // NOLINT: implicit by design

  const Array& points() const { return points_; }

 private:
  Array points_;
};
/// The coordinates of a grid, mgrid({{0, 5}, {0, 1, 0.25}}): [dimensions, points of each...], in the promoted dtype.
/// A range may be a vector, such as linspace gives. Throws ShapeError for an array that is no vector, ValueError without
/// a range.
LOCKSTEP_API Array mgrid(const std::vector<GridRange>& ranges);
/// The same, one array a dimension, which broadcast to the grid.
LOCKSTEP_API Arrays ogrid(const std::vector<GridRange>& ranges);
/// Vectors as one array a dimension, so that x[ix_(rows, columns)] takes a rectangle: index(x, {r[0], r[1]}). Throws
/// ShapeError for what is no vector, DtypeError for a mask.
LOCKSTEP_API Arrays ix_(const ArrayOperands& vectors);

/// Indices of each dimension of an array of these extents, from indices of its elements in row-major order: one array a
/// dimension. Negative ones count from the end, and those outside are clipped. Of their dtype, or of int32 (int64) where
/// that does not hold the extents. Throws DtypeError for what are no integers.
LOCKSTEP_API Arrays unravel_index(const ArrayOperand& flat, const Axes& extents);
/// The other way, in the dtype that the indices promote to. Those outside are clipped, or taken modulo the extent with
/// IndexMode::wrap. Throws ShapeError where there are not as many indices as extents, ValueError for other modes,
/// DtypeError for what are no integers and where the dtype does not hold the last element's index.
LOCKSTEP_API Array ravel_multi_index(const ArrayOperands& multi, const Axes& extents, IndexMode mode = IndexMode::clip);

/// 0, ..., n - 1, once for each dimension: the indices of a diagonal. Throws ValueError for dimensions below 0.
LOCKSTEP_API Arrays diag_indices(std::int64_t n, std::int64_t dimensions = 2);
/// x with `values`, a number or one for each element, on the diagonal of all its dimensions: of equal extents above rank
/// 2. Throws ShapeError otherwise, and below rank 2.
LOCKSTEP_API Array fill_diagonal(const ArrayOperand& x, const Operand& values);

/// An array, or a list of blocks.
class LOCKSTEP_API Blocks {
 public:
  Blocks(const Blocks& other);
  Blocks(Blocks&& other) noexcept;
  Blocks& operator=(const Blocks& other);
  Blocks& operator=(Blocks&& other) noexcept;
  ~Blocks();
  Blocks(Array array);                           // NOLINT: implicit by design
  Blocks(std::initializer_list<Blocks> blocks);  // NOLINT: implicit by design
  Blocks(std::vector<Blocks> blocks);            // NOLINT: implicit by design

  bool is_list() const { return is_list_; }
  const Array& array() const { return array_; }
  const std::vector<Blocks>& blocks() const { return blocks_; }

 private:
  Array array_;
  std::vector<Blocks> blocks_;
  bool is_list_ = false;
};
/// One array of blocks: innermost lists are joined along the last axis, those around them along the one before, and so on:
/// join_blocks({{a, b}, {c, d}}). Throws ValueError for lists that are empty or not nested alike. (jax.numpy.block)
LOCKSTEP_API Array join_blocks(const Blocks& blocks);
/// Matrices one behind the other along the diagonal, zeros elsewhere; vectors and scalars are rows. No array gives [1, 0].
/// Throws ShapeError above rank 2. (jax.scipy.linalg.block_diag)
LOCKSTEP_API Array block_diag(const ArrayOperands& arrays);
/// The matrix whose diagonals are constant: `column` is its first column, `row`, whose first element is not read, its first
/// row. Throws ShapeError for what is no vector. (jax.scipy.linalg.toeplitz)
LOCKSTEP_API Array toeplitz(const ArrayOperand& column, const ArrayOperand& row);
/// Hermitian, the conjugate of the column as row.
LOCKSTEP_API Array toeplitz(const ArrayOperand& column);

}  // namespace lockstep
