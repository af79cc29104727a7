#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/ops.h>

// Along axes: reductions of chosen elements, statistics, accumulation, order, counting, as in jax.numpy. Negative axes
// count from the end; an axis out of range is a ShapeError. No function has a result whose shape depends on data: those
// that would take `size`.
namespace lockstep {

// ---- reductions of the elements where a mask holds: the mask is broadcast to x ---------------------------------------
/// Wraps a mask, so that it is no axes: sum(x, Where(mask)).
struct Where {
  explicit Where(Array held) : mask(std::move(held)) {}
  Array mask;
};
LOCKSTEP_API Array sum(const ArrayOperand& x, const Where& where, const OptionalAxes& axes = std::nullopt,
                       bool keep = false);
LOCKSTEP_API Array prod(const ArrayOperand& x, const Where& where, const OptionalAxes& axes = std::nullopt,
                        bool keep = false);
/// Of no element, `initial`; it takes part beside those there are.
LOCKSTEP_API Array max(const ArrayOperand& x, const Where& where, const Operand& initial,
                       const OptionalAxes& axes = std::nullopt, bool keep = false);
LOCKSTEP_API Array min(const ArrayOperand& x, const Where& where, const Operand& initial,
                       const OptionalAxes& axes = std::nullopt, bool keep = false);
/// NaN where no element is held, as in `var`.
LOCKSTEP_API Array mean(const ArrayOperand& x, const Where& where, const OptionalAxes& axes = std::nullopt,
                        bool keep = false);
LOCKSTEP_API Array var(const ArrayOperand& x, const Where& where, const OptionalAxes& axes = std::nullopt,
                       bool keep = false);
LOCKSTEP_API Array all(const ArrayOperand& x, const Where& where, const OptionalAxes& axes = std::nullopt,
                       bool keep = false);
LOCKSTEP_API Array any(const ArrayOperand& x, const Where& where, const OptionalAxes& axes = std::nullopt,
                       bool keep = false);
/// -inf where no element is held.
LOCKSTEP_API Array logsumexp(const ArrayOperand& x, const Where& where, const OptionalAxes& axes = std::nullopt,
                             bool keep = false);
/// log(sum(weights exp(x))): weights of one shape with x; NaN where the sum is negative.
LOCKSTEP_API Array logsumexp(const ArrayOperand& x, const ArrayOperand& weights,
                             const OptionalAxes& axes = std::nullopt, bool keep = false);
LOCKSTEP_API Array logmeanexp(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, bool keep = false);
/// Sum, product or exclusive or of bits; bool or integers.
LOCKSTEP_API Array reduce_and(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, bool keep = false);
LOCKSTEP_API Array reduce_or(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, bool keep = false);
LOCKSTEP_API Array reduce_xor(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, bool keep = false);

// ---- statistics ------------------------------------------------------------------------------------------------------
/// The variance divided by n - ddof, and its root (of equal elements with derivative 0): numpy's var and std, a taken name.
LOCKSTEP_API Array variance(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, double ddof = 0,
                            bool keep = false);
LOCKSTEP_API Array stddev(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, double ddof = 0,
                          bool keep = false);
LOCKSTEP_API Array ptp(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, bool keep = false);
LOCKSTEP_API Array average(const ArrayOperand& x, const ArrayOperand& weights, const OptionalAxes& axes = std::nullopt);
LOCKSTEP_API Array count_nonzero(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, bool keep = false);
/// The same of what is not NaN. nanmean, nanvar, nanmax and nanmin give NaN where nothing else is there, nansum 0.
LOCKSTEP_API Array nansum(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, bool keep = false);
LOCKSTEP_API Array nanprod(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, bool keep = false);
LOCKSTEP_API Array nanmean(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, bool keep = false);
LOCKSTEP_API Array nanvar(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, bool keep = false);
LOCKSTEP_API Array nanstd(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, bool keep = false);
LOCKSTEP_API Array nanmax(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, bool keep = false);
LOCKSTEP_API Array nanmin(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, bool keep = false);
/// -1 where all are NaN.
LOCKSTEP_API Array nanargmax(const ArrayOperand& x, std::int64_t axis);
LOCKSTEP_API Array nanargmin(const ArrayOperand& x, std::int64_t axis);
/// How a quantile that falls between two elements is made of them; `nearest` is the lower one from the middle.
enum class Quantile : std::uint8_t { linear, lower, higher, nearest, midpoint };
/// `q` in [0, 1], any shape: its dimensions come first in the result. No axis: of all elements. NaN where an element is.
LOCKSTEP_API Array quantile(const ArrayOperand& x, const Operand& q, std::optional<std::int64_t> axis = std::nullopt,
                            Quantile method = Quantile::linear);
LOCKSTEP_API Array percentile(const ArrayOperand& x, const Operand& q, std::optional<std::int64_t> axis = std::nullopt,
                              Quantile method = Quantile::linear);
LOCKSTEP_API Array median(const ArrayOperand& x, std::optional<std::int64_t> axis = std::nullopt);
LOCKSTEP_API Array nanmedian(const ArrayOperand& x, std::optional<std::int64_t> axis = std::nullopt);
/// Covariances of the rows, divided by n - ddof; and the correlation coefficients. Of a vector one number.
LOCKSTEP_API Array cov(const ArrayOperand& rows, double ddof = 1);
LOCKSTEP_API Array corrcoef(const ArrayOperand& rows);

// ---- accumulation ----------------------------------------------------------------------------------------------------
/// Element i is the sum of elements up to i, with `reverse` of those from i on. Bool counts as int32.
LOCKSTEP_API Array cumsum(const ArrayOperand& x, std::int64_t axis = 0, bool reverse = false);
LOCKSTEP_API Array cumprod(const ArrayOperand& x, std::int64_t axis = 0, bool reverse = false);
LOCKSTEP_API Array cummax(const ArrayOperand& x, std::int64_t axis = 0, bool reverse = false);
LOCKSTEP_API Array cummin(const ArrayOperand& x, std::int64_t axis = 0, bool reverse = false);
LOCKSTEP_API Array cumlogsumexp(const ArrayOperand& x, std::int64_t axis = 0, bool reverse = false);
LOCKSTEP_API Array nancumsum(const ArrayOperand& x, std::int64_t axis = 0);
LOCKSTEP_API Array nancumprod(const ArrayOperand& x, std::int64_t axis = 0);
/// y[i] = a[i] y[i-1] + b[i] from y = 0 on, with `reverse` y[i] = a[i] y[i+1] + b[i]. Integers wrap; bool counts as int32.
LOCKSTEP_API Array linear_recurrence(const ArrayOperand& a, const ArrayOperand& b, std::int64_t axis = 0,
                                     bool reverse = false);
/// Differences of neighbours, n times.
LOCKSTEP_API Array diff(const ArrayOperand& x, std::int64_t n = 1, std::int64_t axis = -1);
LOCKSTEP_API Array ediff1d(const ArrayOperand& x);
/// Slopes by central differences, one-sided at the ends, of points `spacing` apart. At least 2 points.
LOCKSTEP_API Array gradient(const ArrayOperand& x, std::int64_t axis = -1, double spacing = 1);

// ---- order -----------------------------------------------------------------------------------------------------------
/// Ascending and stable, NaN last; descending is the reverse order, NaN first, and stable too.
LOCKSTEP_API Array sort(const ArrayOperand& x, std::int64_t axis = -1, bool descending = false);
/// int32 positions of the sorted elements.
LOCKSTEP_API Array argsort(const ArrayOperand& x, std::int64_t axis = -1, bool descending = false);
/// All operands permuted as the first num_keys of them are sorted: jax.lax.sort, with one key jax.lax.sort_key_val.
LOCKSTEP_API std::vector<Array> sort(std::span<const Array> operands, std::int64_t axis = -1,
                                     std::int64_t num_keys = 1);
inline std::vector<Array> sort(std::initializer_list<Array> operands, std::int64_t axis = -1,
                               std::int64_t num_keys = 1) {
  return sort(std::span(operands.begin(), operands.size()), axis, num_keys);
}
/// Positions that sort by the last key first, as numpy.lexsort.
LOCKSTEP_API Array lexsort(std::span<const Array> keys, std::int64_t axis = -1);
inline Array lexsort(std::initializer_list<Array> keys, std::int64_t axis = -1) {
  return lexsort(std::span(keys.begin(), keys.size()), axis);
}
enum class Side : std::uint8_t { left, right };
/// Where each value would be inserted in an ascending array [n]: before equal elements, or behind them. int32.
LOCKSTEP_API Array searchsorted(const ArrayOperand& sorted, const ArrayOperand& values, Side side = Side::left);
/// The bin of each value; `bins` ascend or descend. With `right` a bin contains its right edge, not its left one.
LOCKSTEP_API Array digitize(const ArrayOperand& x, const ArrayOperand& bins, bool right = false);

// ---- counting and sets -----------------------------------------------------------------------------------------------
/// How often each of 0, 1, ..., length - 1 is in x; negative elements count as 0, those of `length` or more not at all.
/// With weights, their sums.
LOCKSTEP_API Array bincount(const ArrayOperand& x, std::int64_t length,
                            const std::optional<Array>& weights = std::nullopt);
/// Counts in bins of equal width and the bins + 1 edges. The last bin holds its right edge. No range: x's own.
LOCKSTEP_API std::pair<Array, Array> histogram(const ArrayOperand& x, std::int64_t bins = 10,
                                               std::optional<std::pair<double, double>> range = std::nullopt,
                                               const std::optional<Array>& weights = std::nullopt);
/// Counts between given ascending edges.
LOCKSTEP_API Array histogram(const ArrayOperand& x, const ArrayOperand& edges,
                             const std::optional<Array>& weights = std::nullopt);
/// Indices of the first `size` elements that are not 0, one int32 array a dimension; what is missing is `fill`.
LOCKSTEP_API std::vector<Array> nonzero(const ArrayOperand& x, std::int64_t size, std::int64_t fill = 0);
LOCKSTEP_API Array flatnonzero(const ArrayOperand& x, std::int64_t size, std::int64_t fill = 0);
LOCKSTEP_API Array argwhere(const ArrayOperand& x, std::int64_t size, std::int64_t fill = 0);
/// The first `size` distinct elements, ascending; what is missing is `fill`, or else the least element.
struct Unique {
  Array values;
  Array indices;  ///< Of each one's first occurrence in the flattened array.
  Array inverse;  ///< For each element of x, its place in `values`.
  Array counts;
};
LOCKSTEP_API Unique unique(const ArrayOperand& x, std::int64_t size, const std::optional<Array>& fill = std::nullopt);
/// Whether each element is among `values`.
LOCKSTEP_API Array isin(const ArrayOperand& x, const ArrayOperand& values);

}  // namespace lockstep
