#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/ops.h>

// jax.numpy's functions that make, join, cut and rearrange arrays. Axes may be negative. All throw ShapeError where
// shapes or axes do not fit, ValueError for counts and names out of range.
namespace lockstep {

using Arrays = std::vector<Array>;

// ---- ranges and grids ------------------------------------------------------------------------------------------------

namespace detail {
LOCKSTEP_API extern const std::optional<DType> no_dtype;  ///< Nothing.
/// Of integers: computed exactly where the dtype is an integer one, else in float64.
LOCKSTEP_API Array arange(std::int64_t start, std::int64_t stop, std::int64_t step, const std::optional<DType>& dtype);
/// In float64, rounded to the dtype. Throws ValueError for numbers that are not finite.
LOCKSTEP_API Array arange_real(double start, double stop, double step, const std::optional<DType>& dtype);
}  // namespace detail
/// start, start + step, ... below stop (above it for a negative step): int32 from integers alone, else float32. Throws
/// ValueError for step 0.
template <class Start, class Stop, class Step = int>
requires(std::is_arithmetic_v<Start>&& std::is_arithmetic_v<Stop>&& std::is_arithmetic_v<Step>) Array
    arange(Start start, Stop stop, Step step = 1, const std::optional<DType>& dtype = detail::no_dtype) {
  if constexpr (std::is_integral_v<Start> && std::is_integral_v<Stop> && std::is_integral_v<Step>) {
    return detail::arange(start, stop, step, dtype);
  } else {
    return detail::arange_real(start, stop, step, dtype);
  }
}
/// `num` evenly spaced numbers from start to stop, stop the last one with `endpoint`. Throws ValueError for a negative
/// num, DtypeError for a dtype that is no float.
LOCKSTEP_API Array linspace(double start, double stop, std::int64_t num = 50, bool endpoint = true,
                            DType dtype = float32);
/// base to the power of linspace.
LOCKSTEP_API Array logspace(double start, double stop, std::int64_t num = 50, bool endpoint = true, double base = 10,
                            DType dtype = float32);
/// The coordinates of a grid, one array per vector: numpy's "xy" (the first two swapped) or "ij" indexing.
LOCKSTEP_API Arrays meshgrid(const ArrayOperands& vectors, std::string_view indexing = "xy");
// numpy's windows of n samples, symmetric, for Fourier transforms. One sample is 1; they are computed in float64 and
// rounded to `dtype`. All throw ValueError for a negative n.
/// A triangle, 0 at both ends: 1 - |2 k / (n - 1) - 1|.
LOCKSTEP_API Array bartlett(std::int64_t n, DType dtype = float32);
/// 0.42 - 0.5 cos(2 pi k / (n - 1)) + 0.08 cos(4 pi k / (n - 1)) at sample k. Blackman and Tukey 1958.
LOCKSTEP_API Array blackman(std::int64_t n, DType dtype = float32);
LOCKSTEP_API Array hamming(std::int64_t n, DType dtype = float32);  ///< 0.54 - 0.46 cos(2 pi k / (n - 1)).
LOCKSTEP_API Array hanning(std::int64_t n, DType dtype = float32);  ///< 0.5 - 0.5 cos(2 pi k / (n - 1)).
/// Ones where column <= row + k, else zeros.
LOCKSTEP_API Array tri(std::int64_t rows, std::int64_t columns, std::int64_t k = 0, DType dtype = float32);
/// Rows and columns of the elements on and below the k-th diagonal (0: the main one, above 0: right of it), int32, in
/// row-major order; a square of `rows` unless columns are given.
LOCKSTEP_API std::pair<Array, Array> tril_indices(std::int64_t rows, std::int64_t k = 0,
                                                  const std::optional<std::int64_t>& columns = std::nullopt);
/// On and above it.
LOCKSTEP_API std::pair<Array, Array> triu_indices(std::int64_t rows, std::int64_t k = 0,
                                                  const std::optional<std::int64_t>& columns = std::nullopt);

// ---- shapes ----------------------------------------------------------------------------------------------------------

/// All dimensions merged.
LOCKSTEP_API Array ravel(const ArrayOperand& x);
/// Dimensions of extent 1 dropped.
LOCKSTEP_API Array squeeze(const ArrayOperand& x);
/// Dimensions of extent 1 put at those places of the result. Throws ShapeError for a place named twice.
LOCKSTEP_API Array expand_dims(const ArrayOperand& x, const Axes& axes);
/// Axis from[i] moved to the place to[i] of the result; the others keep their order. Throws ShapeError unless there are
/// as many places as axes, no axis and no place named twice.
LOCKSTEP_API Array moveaxis(const ArrayOperand& x, const Axes& from, const Axes& to);
/// The axis moved before the one at `start`.
LOCKSTEP_API Array rollaxis(const ArrayOperand& x, std::int64_t axis, std::int64_t start = 0);
LOCKSTEP_API Array atleast_1d(const ArrayOperand& x);  ///< A scalar as [1], all else as it is.
LOCKSTEP_API Array atleast_2d(const ArrayOperand& x);  ///< A vector [n] as [1, n], a scalar as [1, 1].
/// A matrix [m, n] as [m, n, 1], a vector [n] as [1, n, 1], a scalar as [1, 1, 1].
LOCKSTEP_API Array atleast_3d(const ArrayOperand& x);
/// All in the one shape that they broadcast to, each of its own dtype.
LOCKSTEP_API Arrays broadcast_arrays(const ArrayOperands& arrays);

// ---- rearranging -----------------------------------------------------------------------------------------------------

/// Elements reversed along axes, all without any.
LOCKSTEP_API Array flip(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt);
LOCKSTEP_API Array fliplr(const ArrayOperand& x);  ///< Reversed along axis 1; needs rank 2 or more.
LOCKSTEP_API Array flipud(const ArrayOperand& x);  ///< Reversed along axis 0; needs rank 1 or more.
/// Elements moved on by `shift` along an axis, the last ones to the front; without an axis, of x flattened.
LOCKSTEP_API Array roll(const ArrayOperand& x, std::int64_t shift,
                        const std::optional<std::int64_t>& axis = std::nullopt);
/// Along several axes, one shift each.
LOCKSTEP_API Array roll(const ArrayOperand& x, const Axes& shifts, const Axes& axes);
/// Rotated by k quarter turns from the first axis towards the second.
LOCKSTEP_API Array rot90(const ArrayOperand& x, std::int64_t k = 1,
                         std::pair<std::int64_t, std::int64_t> axes = {0, 1});
/// x repeated as a block, once per count and dimension (counts are for the last dimensions).
LOCKSTEP_API Array tile(const ArrayOperand& x, const Axes& counts);
/// Each element repeated along an axis; without an axis, of x flattened.
LOCKSTEP_API Array repeat(const ArrayOperand& x, std::int64_t count,
                          const std::optional<std::int64_t>& axis = std::nullopt);
/// Element i repeated counts[i] times, cut or continued with the last element to `total_repeat_length`, which is needed
/// since no shape may depend on data. Counts below 0 are 0; throws DtypeError for counts that are no integers or bool.
LOCKSTEP_API Array repeat(const ArrayOperand& x, const ArrayOperand& counts, std::int64_t total_repeat_length,
                          const std::optional<std::int64_t>& axis = std::nullopt);

/// Which elements of x `pad` puts at the ends.
enum class PadMode : std::uint8_t { edge, reflect, symmetric, wrap };
/// numpy.pad with elements of x: edge repeats the last one, reflect mirrors without it, symmetric with it, wrap
/// continues at the other end; (low, high) per dimension. For constants there is pad(x, value, low, high). Throws
/// ShapeError where an empty dimension is to be padded (reflect: one of extent 1 is as edge).
LOCKSTEP_API Array pad(const ArrayOperand& x, const std::vector<std::pair<std::int64_t, std::int64_t>>& widths,
                       PadMode mode);
/// jax.lax.pad: `interior` elements between neighbours; negative low or high crops.
LOCKSTEP_API Array pad(const ArrayOperand& x, const Operand& value, const Axes& low, const Axes& high,
                       const Axes& interior);

// ---- cutting and joining ---------------------------------------------------------------------------------------------

/// Cut before each of the positions, which count from the end where negative and are clipped to the extent.
LOCKSTEP_API Arrays split_at(const ArrayOperand& x, const Axes& positions, std::int64_t axis);
/// The slices of an axis, without it.
LOCKSTEP_API Arrays unstack(const ArrayOperand& x, std::int64_t axis = 0);
/// As even as it goes: the first pieces are one longer.
LOCKSTEP_API Arrays array_split(const ArrayOperand& x, std::int64_t parts, std::int64_t axis = 0);
/// That many equal parts along axis 1 (axis 0 of a vector).
LOCKSTEP_API Arrays hsplit(const ArrayOperand& x, std::int64_t parts);
LOCKSTEP_API Arrays vsplit(const ArrayOperand& x, std::int64_t parts);  ///< Along axis 0, of rank 2 or more.
LOCKSTEP_API Arrays dsplit(const ArrayOperand& x, std::int64_t parts);  ///< Along axis 2, of rank 3 or more.
/// Joined along axis 1, vectors and scalars along axis 0.
LOCKSTEP_API Array hstack(const ArrayOperands& arrays);
LOCKSTEP_API Array vstack(const ArrayOperands& arrays);  ///< Joined along axis 0, each vector as a row.
LOCKSTEP_API Array dstack(const ArrayOperands& arrays);  ///< Joined along axis 2, all as of atleast_3d.
/// Joined along axis 1, each vector as a column.
LOCKSTEP_API Array column_stack(const ArrayOperands& arrays);
/// Joined along an axis; without one, both flattened.
LOCKSTEP_API Array append(const ArrayOperand& x, const ArrayOperand& values,
                          const std::optional<std::int64_t>& axis = std::nullopt);

// ---- choosing --------------------------------------------------------------------------------------------------------

/// The choice of the first condition that holds, else `fallback`. Throws ValueError where there are not as many choices
/// as conditions, or none.
LOCKSTEP_API Array select(std::span<const Array> conditions, std::span<const Array> choices,
                          const Operand& fallback = 0);
/// The same of lists that are written out.
LOCKSTEP_API Array select(std::initializer_list<Array> conditions, std::initializer_list<Array> choices,
                          const Operand& fallback = 0);
/// Element by element the array that `which` numbers (clipped, or modulo their count).
LOCKSTEP_API Array choose(const ArrayOperand& which, std::span<const Array> choices, bool wrap = false);
/// The same of a list that is written out.
LOCKSTEP_API Array choose(const Array& which, std::initializer_list<Array> choices, bool wrap = false);
using Branch = std::function<Array(const Array&)>;  ///< One of the functions of piecewise.
/// functions[i](x) where conditions[i] is the last that holds, 0 or the last function where none does. All functions
/// are computed everywhere. Throws ValueError where there is neither one function per condition nor one more.
LOCKSTEP_API Array piecewise(const ArrayOperand& x, std::span<const Array> conditions,
                             std::span<const Branch> functions);
/// The same of lists that are written out.
LOCKSTEP_API Array piecewise(const Array& x, std::initializer_list<Array> conditions,
                             std::initializer_list<Branch> functions);

// ---- sampled functions -----------------------------------------------------------------------------------------------

/// Linear interpolation of the samples (xp ascending, fp) at x; beyond the ends `left` and `right`, else the end
/// samples.
LOCKSTEP_API Array interp(const ArrayOperand& x, const ArrayOperand& xp, const ArrayOperand& fp,
                          const std::optional<double>& left = std::nullopt,
                          const std::optional<double>& right = std::nullopt);
/// The integral by the trapezoid rule along an axis, for samples `dx` apart; 0 of fewer than two. Integers become
/// float32.
LOCKSTEP_API Array trapezoid(const ArrayOperand& y, double dx = 1, std::int64_t axis = -1);
/// Samples at the places x, a vector along the axis or an array of the rank of y.
LOCKSTEP_API Array trapezoid(const ArrayOperand& y, const ArrayOperand& x, std::int64_t axis = -1);

}  // namespace lockstep
