#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/ops.h>
#include <lockstep/out_of_line.h>

namespace lockstep {

// One rule holds for all that reads or writes at indices: take, take_along_axis, take_rows, index, at(x, i).get,
// embedding, put_along_axis, at(x, i).set and the other writes. Of a dimension of n elements an index in [-n, -1]
// counts from the end; what then is outside [0, n) reads a fill value (NaN for floats) and writes nothing, and
// derivatives follow: the element read has none, the update not written has none. So it is in JAX, whose x[i] alone
// clips reads instead: that is at(x, i).get(IndexMode::clip). What is known when the call is made (an integer that is
// no array) throws ValueError. Slices with a start that is an array (dynamic_slice, ...) have their extent in any case:
// a negative start counts from the end, too, and one that leaves no room is moved to the last place that does. XLA's
// own gather and scatter, below, take indices as they are, without counting from the end, and so do segment ids; class
// labels are no indices (softmax_cross_entropy, one_hot).

/// What an index outside its dimension means.
///  - fill, the rule above: reads give a fill value (NaN, or the least integer, the largest unsigned one, true, the key of
///    words 0xffffffff), writes do nothing;
///  - clip: the nearest one inside; for take a negative one is 0, as in numpy;
///  - wrap: modulo the extent (take alone);
///  - promise_in_bounds: there is none (where there is one after all, it is clipped); negative ones as in clip.
enum class IndexMode : std::uint8_t { clip, fill, wrap, promise_in_bounds };

namespace detail {
LOCKSTEP_API extern const std::optional<Operand> no_fill;  ///< Nothing.
}  // namespace detail

// ---- XLA's gather and scatter ----------------------------------------------------------------------------------------

/// Which dimensions of operand, index vectors and result correspond, as jax.lax.GatherDimensionNumbers. Index vectors
/// lie along the last dimension of the indices; dimensions of the result that offset_dims does not name run through
/// them.
struct GatherDims {
  Axes offset_dims;           ///< Of the result: those that run through a window.
  Axes collapsed_slice_dims;  ///< Of the operand: windows of extent 1, left out of the result.
  Axes start_index_map;       ///< Of the operand: which one each element of an index vector counts.
  /// Of the operand: matched with those of the indices, one window a pair.
  detail::OutOfLine<Axes> operand_batching_dims = {};
  detail::OutOfLine<Axes> start_indices_batching_dims = {};  ///< Their partners among the dimensions of the indices.
};
/// As jax.lax.ScatterDimensionNumbers.
struct ScatterDims {
  Axes update_window_dims;            ///< Of the updates: those that run through a window.
  Axes inserted_window_dims;          ///< Of the operand: windows of extent 1, which the updates lack.
  Axes scatter_dims_to_operand_dims;  ///< Of the operand: which one each element of an index vector counts.
  detail::OutOfLine<Axes> operand_batching_dims = {};          ///< Of the operand: matched with those of the indices.
  detail::OutOfLine<Axes> scatter_indices_batching_dims = {};  ///< Their partners among the dimensions of the indices.
};

/// Windows of extents `slice_sizes` that begin at the index vectors. `fill` is what mode fill reads outside; without
/// one NaN, the least integer, the largest unsigned one, or true. Throws ShapeError or DtypeError where dimension
/// numbers, shapes and dtypes do not fit, ValueError for mode wrap.
LOCKSTEP_API Array gather(const ArrayOperand& operand, const ArrayOperand& indices, const GatherDims& dims,
                          const Axes& slice_sizes, IndexMode mode = IndexMode::fill,
                          const std::optional<Operand>& fill = detail::no_fill);
/// The operand with updates written at the index vectors. Updates for one element apply in the row-major order of their
/// index vectors, here and in the four below; this one keeps the last. Errors as of gather.
LOCKSTEP_API Array scatter(const ArrayOperand& operand, const ArrayOperand& indices, const ArrayOperand& updates,
                           const ScatterDims& dims, IndexMode mode = IndexMode::fill);
/// Updates added to what is there and to each other.
LOCKSTEP_API Array scatter_add(const ArrayOperand& operand, const ArrayOperand& indices, const ArrayOperand& updates,
                               const ScatterDims& dims, IndexMode mode = IndexMode::fill);
/// What is there times the updates.
LOCKSTEP_API Array scatter_mul(const ArrayOperand& operand, const ArrayOperand& indices, const ArrayOperand& updates,
                               const ScatterDims& dims, IndexMode mode = IndexMode::fill);
/// The least of what is there and the updates; NaN propagates, ties share the derivative.
LOCKSTEP_API Array scatter_min(const ArrayOperand& operand, const ArrayOperand& indices, const ArrayOperand& updates,
                               const ScatterDims& dims, IndexMode mode = IndexMode::fill);
/// The largest, likewise.
LOCKSTEP_API Array scatter_max(const ArrayOperand& operand, const ArrayOperand& indices, const ArrayOperand& updates,
                               const ScatterDims& dims, IndexMode mode = IndexMode::fill);

// ---- along an axis ---------------------------------------------------------------------------------------------------

/// numpy.take: x's elements at the indices along an axis, whose dimension the indices' own replace; without an axis, of
/// x flattened. Throws DtypeError for indices that are no integers. jax.numpy.take.
LOCKSTEP_API Array take(const ArrayOperand& x, const ArrayOperand& indices,
                        const std::optional<std::int64_t>& axis = std::nullopt, IndexMode mode = IndexMode::fill,
                        const std::optional<Operand>& fill = detail::no_fill);
/// As take_along_axis of ops.h, with a mode; negative indices count from the end but in promise_in_bounds. Throws
/// ValueError for wrap, DtypeError for indices that are no integers.
LOCKSTEP_API Array take_along_axis(const ArrayOperand& x, const ArrayOperand& indices, std::int64_t axis,
                                   IndexMode mode, const std::optional<Operand>& fill = detail::no_fill);
/// x with `values` (broadcast) written at the indices along an axis; shapes of x and indices are equal but for it.
/// Negative indices count from the end, those outside write nothing.
LOCKSTEP_API Array put_along_axis(const ArrayOperand& x, const ArrayOperand& indices, const Operand& values,
                                  std::int64_t axis);

// Slices whose start is an array, an integer scalar (else DtypeError or ShapeError): a negative one counts from the
// end, and it is clamped so that the slice fits.

/// `size` elements from `start` on along an axis. Throws ShapeError for a size above the extent.
LOCKSTEP_API Array dynamic_slice_in_dim(const ArrayOperand& x, const ArrayOperand& start, std::int64_t size,
                                        std::int64_t axis = 0);
/// The slice of extent 1 at `index`; without `keep`, without that dimension. (jax.lax.dynamic_index_in_dim)
LOCKSTEP_API Array dynamic_index_in_dim(const ArrayOperand& x, const ArrayOperand& index, std::int64_t axis = 0,
                                        bool keep = true);
/// x with `update` (converted to its dtype) written from `start` on, one integer scalar for each dimension. Throws
/// ShapeError where update has not the rank of x, does not fit into it or is a scalar, DtypeError for floats into
/// integers, complex numbers into floats and numbers into bool.
LOCKSTEP_API Array dynamic_update_slice(const ArrayOperand& x, const Operand& update, const ArrayOperands& start);
/// The same with a start along one axis, the others starting at 0.
LOCKSTEP_API Array dynamic_update_slice_in_dim(const ArrayOperand& x, const Operand& update, const ArrayOperand& start,
                                               std::int64_t axis);
/// A slice of extent 1 written at `index` along an axis; `update` may lack the axis.
LOCKSTEP_API Array dynamic_update_index_in_dim(const ArrayOperand& x, const ArrayOperand& update,
                                               const ArrayOperand& index, std::int64_t axis);

// ---- numpy's indexing ------------------------------------------------------------------------------------------------

/// start:stop:step. Negative bounds count from the end, all are clipped to the extent, as in Python.
struct Slice {
  std::optional<std::int64_t> start = {};
  std::optional<std::int64_t> stop = {};
  std::int64_t step = 1;
};
struct NewAxis {};                   ///< A new dimension of extent 1.
struct Ellipsis {};                  ///< All dimensions that no other index names; at most one.
inline constexpr NewAxis newaxis;    ///< As numpy.newaxis.
inline constexpr Ellipsis ellipsis;  ///< As `...` in Python.

/// One index of a dimension: an integer (the dimension is dropped), a Slice, newaxis, ellipsis or an Array of integers.
/// Negative numbers count from the end.
class LOCKSTEP_API Index {
 public:
  Index(const Index& other);
  Index(Index&& other) noexcept;
  Index& operator=(const Index& other);
  Index& operator=(Index&& other) noexcept;
  ~Index();
  template <class T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) Index(T value)  // NOLINT: implicit by design
      : Index(static_cast<std::int64_t>(value), Integer()) {}
  Index(const Slice& slice);    // NOLINT: implicit by design
  Index(NewAxis axis);          // NOLINT: implicit by design
  Index(Ellipsis all);          // NOLINT: implicit by design
  Index(const Array& indices);  // NOLINT: implicit by design

  std::variant<std::int64_t, Slice, NewAxis, Ellipsis, Array> value() const;

 private:
  enum class Kind : std::uint8_t { integer, slice, newaxis, ellipsis, array };
  struct Integer {};
  Index(std::int64_t value, Integer integer);

  Kind kind_;
  std::int64_t integer_ = 0;
  Slice slice_;
  Array array_;
};

/// x[indices...], numpy's basic and advanced indexing: index(x, {0, Slice{1, 3}, ellipsis}). Arrays broadcast together;
/// the dimensions they make stand where the arrays stood, or first where a slice stands between them. Array indices
/// outside read NaN (IndexMode::fill); an integer outside throws ValueError. A mask of bool throws DtypeError: no shape
/// may depend on data, so write where(mask, a, b).
LOCKSTEP_API Array index(const ArrayOperand& x, const std::vector<Index>& indices);

/// What x.at[indices] is in JAX: a place of x to read or to write. Each write gives a new array of x's shape and dtype.
class LOCKSTEP_API Place {
 public:
  Place(Array x, std::vector<Index> indices);
  Place(const Array& x, std::initializer_list<Index> indices);
  Place(const Place& other);
  Place(Place&& other) noexcept;
  Place& operator=(const Place& other);
  Place& operator=(Place&& other) noexcept;
  ~Place();

  /// As index(), with a mode for array indices.
  Array get(IndexMode mode = IndexMode::fill, const std::optional<Operand>& fill = detail::no_fill) const;
  /// `values` broadcast to the shape of get(). Where indices name an element twice, the last value is written; the
  /// other writes apply them all. Array indices outside write nothing, or as `mode` says. Throws ShapeError where
  /// values do not broadcast, DtypeError where the dtype has no such arithmetic.
  Array set(const Operand& values, IndexMode mode = IndexMode::fill) const;
  Array add(const Operand& values, IndexMode mode = IndexMode::fill) const;       ///< x[indices] + values.
  Array subtract(const Operand& values, IndexMode mode = IndexMode::fill) const;  ///< x[indices] - values.
  Array multiply(const Operand& values, IndexMode mode = IndexMode::fill) const;  ///< x[indices] times values.
  /// By the product of an element's values; integers towards 0.
  Array divide(const Operand& values, IndexMode mode = IndexMode::fill) const;
  Array min(const Operand& values, IndexMode mode = IndexMode::fill) const;  ///< The least; NaN propagates.
  Array max(const Operand& values, IndexMode mode = IndexMode::fill) const;  ///< The largest; NaN propagates.

 private:
  Array x_;
  std::vector<Index> indices_;
};

/// at(x, 0, Slice{1, 3}).set(v)
template <class... Indices>
Place at(const ArrayOperand& x, const Indices&... indices) {
  return Place(x, std::initializer_list<Index>{Index(indices)...});
}

// ---- segments --------------------------------------------------------------------------------------------------------

// Row s of the result, [num_segments, ...] of the dtype of x, joins the rows of x whose segment id is s; ids outside
// [0, num_segments) join nothing, and a negative one does not count from the end. All throw ShapeError where the ids
// are not one per row, DtypeError where they are no integers, ValueError for a negative num_segments. (jax.ops)

/// 0 for a segment without rows.
LOCKSTEP_API Array segment_sum(const ArrayOperand& x, const ArrayOperand& segment_ids, std::int64_t num_segments);
/// 1 for a segment without rows.
LOCKSTEP_API Array segment_prod(const ArrayOperand& x, const ArrayOperand& segment_ids, std::int64_t num_segments);
/// -inf, or the least value of the dtype, for one; NaN propagates.
LOCKSTEP_API Array segment_max(const ArrayOperand& x, const ArrayOperand& segment_ids, std::int64_t num_segments);
/// inf, or the largest value, for one; NaN propagates.
LOCKSTEP_API Array segment_min(const ArrayOperand& x, const ArrayOperand& segment_ids, std::int64_t num_segments);

}  // namespace lockstep
