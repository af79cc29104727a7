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
  /// Of bool: where another dtype is given, the reduction throws DtypeError.
  explicit Where(Array held) : mask(std::move(held)) {}
  Array mask;
};
/// 0 of no element. What is not held is never looked at, NaN neither; dtypes are those of the reductions of ops.h.
LOCKSTEP_API Array sum(const ArrayOperand& x, const Where& where, const OptionalAxes& axes = std::nullopt,
                       bool keep = false);
/// 1 of no element.
LOCKSTEP_API Array prod(const ArrayOperand& x, const Where& where, const OptionalAxes& axes = std::nullopt,
                        bool keep = false);
/// The largest of `initial` and the elements held, in x's dtype, which `initial` is converted to; NaN where one of them
/// is. Throws ShapeError for an initial value that is no scalar.
LOCKSTEP_API Array max(const ArrayOperand& x, const Where& where, const Operand& initial,
                       const OptionalAxes& axes = std::nullopt, bool keep = false);
/// The same for the least one.
LOCKSTEP_API Array min(const ArrayOperand& x, const Where& where, const Operand& initial,
                       const OptionalAxes& axes = std::nullopt, bool keep = false);
/// NaN where no element is held, as in `var`.
LOCKSTEP_API Array mean(const ArrayOperand& x, const Where& where, const OptionalAxes& axes = std::nullopt,
                        bool keep = false);
/// Divided by the number of elements held; real, of complex x too.
LOCKSTEP_API Array var(const ArrayOperand& x, const Where& where, const OptionalAxes& axes = std::nullopt,
                       bool keep = false);
/// bool; true of no element.
LOCKSTEP_API Array all(const ArrayOperand& x, const Where& where, const OptionalAxes& axes = std::nullopt,
                       bool keep = false);
/// bool; false of no element.
LOCKSTEP_API Array any(const ArrayOperand& x, const Where& where, const OptionalAxes& axes = std::nullopt,
                       bool keep = false);
/// -inf where no element is held.
LOCKSTEP_API Array logsumexp(const ArrayOperand& x, const Where& where, const OptionalAxes& axes = std::nullopt,
                             bool keep = false);
/// log(sum(weights exp(x))): weights of one shape with x; NaN where the sum is negative.
LOCKSTEP_API Array logsumexp(const ArrayOperand& x, const ArrayOperand& weights,
                             const OptionalAxes& axes = std::nullopt, bool keep = false);
/// log(mean(exp(x))) without overflow, in at least float32; NaN of no element. (jax.nn.logmeanexp)
LOCKSTEP_API Array logmeanexp(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, bool keep = false);
// Bits of integers, or bool; floats throw DtypeError.
/// Bits set in all elements; all ones of no element.
LOCKSTEP_API Array reduce_and(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, bool keep = false);
/// Bits set in any element; none of no element.
LOCKSTEP_API Array reduce_or(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, bool keep = false);
/// Bits set in an odd number of elements; none of no element.
LOCKSTEP_API Array reduce_xor(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, bool keep = false);

// ---- statistics ------------------------------------------------------------------------------------------------------
/// The variance, sum(|x - mean|^2) / (n - ddof), numpy's var with ddof: NaN unless n is above ddof. Real, in two
/// passes, at least float32 inside.
LOCKSTEP_API Array variance(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, double ddof = 0,
                            bool keep = false);
/// Its root, also where squares would overflow or vanish; of equal elements with derivative 0.
LOCKSTEP_API Array stddev(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, double ddof = 0,
                          bool keep = false);
/// max(x) - min(x), in the dtype of x; NaN where an element is. Throws ShapeError of no elements.
LOCKSTEP_API Array ptp(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, bool keep = false);
/// sum(weights x) / sum(weights): weights of the shape of x, or, along one axis, one for each of its elements (else
/// ShapeError). Weights that add up to 0 give NaN or an infinity. (jax.numpy.average)
LOCKSTEP_API Array average(const ArrayOperand& x, const ArrayOperand& weights, const OptionalAxes& axes = std::nullopt);
/// int32; NaN is not zero.
LOCKSTEP_API Array count_nonzero(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, bool keep = false);
// The same of what is not NaN.
/// 0 where all are NaN.
LOCKSTEP_API Array nansum(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, bool keep = false);
/// 1 where all are NaN.
LOCKSTEP_API Array nanprod(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, bool keep = false);
/// NaN where all are, as in all below.
LOCKSTEP_API Array nanmean(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, bool keep = false);
/// Divided by the number of elements that are not NaN.
LOCKSTEP_API Array nanvar(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, bool keep = false);
/// The root of nanvar.
LOCKSTEP_API Array nanstd(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, bool keep = false);
/// The largest number; integers and bool as `max`.
LOCKSTEP_API Array nanmax(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, bool keep = false);
/// The least one.
LOCKSTEP_API Array nanmin(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, bool keep = false);
/// The position of the largest number along the axis, int32; -1 where all are NaN.
LOCKSTEP_API Array nanargmax(const ArrayOperand& x, std::int64_t axis);
LOCKSTEP_API Array nanargmin(const ArrayOperand& x, std::int64_t axis);  ///< int32; -1 likewise.
/// How a quantile that falls between two elements is made of them; `nearest` is the lower one from the middle.
enum class Quantile : std::uint8_t { linear, lower, higher, nearest, midpoint };
/// `q` in [0, 1], any shape: its dimensions come first in the result. No axis: of all elements. NaN where an element
/// is, and for a q that is not in [0, 1]; a number outside throws ValueError.
LOCKSTEP_API Array quantile(const ArrayOperand& x, const Operand& q, std::optional<std::int64_t> axis = std::nullopt,
                            Quantile method = Quantile::linear);
/// quantile of q / 100, q in [0, 100]; what is outside likewise.
LOCKSTEP_API Array percentile(const ArrayOperand& x, const Operand& q, std::optional<std::int64_t> axis = std::nullopt,
                              Quantile method = Quantile::linear);
/// The middle element, or the mean of the two middle ones; NaN where an element is. Without an element: ShapeError.
LOCKSTEP_API Array median(const ArrayOperand& x, std::optional<std::int64_t> axis = std::nullopt);
/// Of the elements that are not NaN; NaN where all are.
LOCKSTEP_API Array nanmedian(const ArrayOperand& x, std::optional<std::int64_t> axis = std::nullopt);
/// quantile of the elements that are not NaN; NaN where all are. What is outside likewise.
LOCKSTEP_API Array nanquantile(const ArrayOperand& x, const Operand& q, std::optional<std::int64_t> axis = std::nullopt,
                               Quantile method = Quantile::linear);
/// nanquantile of q / 100.
LOCKSTEP_API Array nanpercentile(const ArrayOperand& x, const Operand& q,
                                 std::optional<std::int64_t> axis = std::nullopt, Quantile method = Quantile::linear);
/// Covariances of the rows [variables, observations], divided by n - ddof: [variables, variables], of a vector one
/// number. Throws ShapeError above rank 2.
LOCKSTEP_API Array cov(const ArrayOperand& rows, double ddof = 1);
/// The correlation coefficients of the rows, [variables, variables]; NaN beside a row of equal elements.
LOCKSTEP_API Array corrcoef(const ArrayOperand& rows);

// ---- accumulation ----------------------------------------------------------------------------------------------------
/// Element i is the sum of elements up to i, with `reverse` of those from i on, here and below. Bool counts as int32;
/// narrow integers keep their dtype and wrap.
LOCKSTEP_API Array cumsum(const ArrayOperand& x, std::int64_t axis = 0, bool reverse = false);
/// Products likewise.
LOCKSTEP_API Array cumprod(const ArrayOperand& x, std::int64_t axis = 0, bool reverse = false);
/// The largest so far: NaN from the first one on; the first of equal ones has the derivative.
LOCKSTEP_API Array cummax(const ArrayOperand& x, std::int64_t axis = 0, bool reverse = false);
/// The least so far, likewise.
LOCKSTEP_API Array cummin(const ArrayOperand& x, std::int64_t axis = 0, bool reverse = false);
/// log(sum(exp)) of the elements so far, without overflow; integers become float32.
LOCKSTEP_API Array cumlogsumexp(const ArrayOperand& x, std::int64_t axis = 0, bool reverse = false);
LOCKSTEP_API Array nancumsum(const ArrayOperand& x, std::int64_t axis = 0);   ///< cumsum with 0 for NaN.
LOCKSTEP_API Array nancumprod(const ArrayOperand& x, std::int64_t axis = 0);  ///< cumprod with 1 for NaN.
/// y[i] = a[i] y[i-1] + b[i] from y = 0 on, with `reverse` y[i] = a[i] y[i+1] + b[i]. Integers wrap; bool counts as
/// int32.
LOCKSTEP_API Array linear_recurrence(const ArrayOperand& a, const ArrayOperand& b, std::int64_t axis = 0,
                                     bool reverse = false);
/// Differences of neighbours, n times, each time one element less; of bool whether they differ. Throws ValueError for a
/// negative n.
LOCKSTEP_API Array diff(const ArrayOperand& x, std::int64_t n = 1, std::int64_t axis = -1);
LOCKSTEP_API Array ediff1d(const ArrayOperand& x);  ///< Differences of neighbours of x flattened.
/// Slopes by central differences, one-sided at the ends, of points `spacing` apart. Fewer than 2 points throw
/// ShapeError.
LOCKSTEP_API Array gradient(const ArrayOperand& x, std::int64_t axis = -1, double spacing = 1);

// ---- order -----------------------------------------------------------------------------------------------------------
/// Ascending and stable, NaN last; descending is the reverse order, NaN first, and stable too.
LOCKSTEP_API Array sort(const ArrayOperand& x, std::int64_t axis = -1, bool descending = false);
/// int32 positions of the sorted elements.
LOCKSTEP_API Array argsort(const ArrayOperand& x, std::int64_t axis = -1, bool descending = false);
/// All operands permuted as the first num_keys of them are sorted: jax.lax.sort, with one key jax.lax.sort_key_val.
LOCKSTEP_API std::vector<Array> sort(std::span<const Array> operands, std::int64_t axis = -1,
                                     std::int64_t num_keys = 1);
/// The same of a list that is written out.
LOCKSTEP_API std::vector<Array> sort(std::initializer_list<Array> operands, std::int64_t axis = -1,
                                     std::int64_t num_keys = 1);
/// Positions that sort by the last key first, as numpy.lexsort.
LOCKSTEP_API Array lexsort(std::span<const Array> keys, std::int64_t axis = -1);
/// The same of a list that is written out.
LOCKSTEP_API Array lexsort(std::initializer_list<Array> keys, std::int64_t axis = -1);
enum class Side : std::uint8_t { left, right };  ///< Before or behind elements equal to the value.
/// Where each value would be inserted in an ascending array [n]: before equal elements, or behind them. int32.
LOCKSTEP_API Array searchsorted(const ArrayOperand& sorted, const ArrayOperand& values, Side side = Side::left);
/// The bin of each value, int32: the number of edges at or below it (above it, where `bins` descend), 0 to their count.
/// With `right` a bin contains its right edge, not its left one.
LOCKSTEP_API Array digitize(const ArrayOperand& x, const ArrayOperand& bins, bool right = false);

// ---- counting and sets -----------------------------------------------------------------------------------------------
/// How often each of 0, 1, ..., length - 1 is in x, a vector (else ShapeError); negative elements count as 0, those
/// of `length` or more not at all. With weights, their sums.
LOCKSTEP_API Array bincount(const ArrayOperand& x, std::int64_t length,
                            const std::optional<Array>& weights = std::nullopt);
namespace detail {
LOCKSTEP_API extern const std::optional<std::pair<double, double>> no_range;  ///< Nothing.
}  // namespace detail
/// Counts in bins of equal width and the bins + 1 edges. The last bin holds its right edge. No range: x's own. With
/// weights their sums, all in the float dtype that x and the weights promote to. Throws ValueError for a range that is
/// not finite or ends before it begins.
LOCKSTEP_API std::pair<Array, Array> histogram(const ArrayOperand& x, std::int64_t bins = 10,
                                               const std::optional<std::pair<double, double>>& range = detail::no_range,
                                               const std::optional<Array>& weights = std::nullopt);
/// Counts between given ascending edges, or sums of weights, in the float dtype that all of them promote to.
LOCKSTEP_API Array histogram(const ArrayOperand& x, const ArrayOperand& edges,
                             const std::optional<Array>& weights = std::nullopt);
/// Indices of the first `size` elements that are not 0, one int32 array a dimension; what is missing is `fill`.
LOCKSTEP_API std::vector<Array> nonzero(const ArrayOperand& x, std::int64_t size, std::int64_t fill = 0);
/// The same as places in x flattened, int32[size].
LOCKSTEP_API Array flatnonzero(const ArrayOperand& x, std::int64_t size, std::int64_t fill = 0);
/// The same, one row of indices an element: int32[size, rank].
LOCKSTEP_API Array argwhere(const ArrayOperand& x, std::int64_t size, std::int64_t fill = 0);
/// The first `size` distinct elements, ascending; what is missing is `fill`, or else the least element.
struct Unique {
  Array values;
  Array indices;  ///< Of each one's first occurrence in the flattened array.
  Array inverse;  ///< For each element of x, its place in `values`.
  Array counts;   ///< int32; 0 for what is missing.
};
/// Of x flattened; all NaN are one value, the last. Throws ShapeError for an x without elements, ValueError for a
/// negative size.
LOCKSTEP_API Unique unique(const ArrayOperand& x, std::int64_t size, const std::optional<Array>& fill = std::nullopt);
/// Whether each element is among `values`.
LOCKSTEP_API Array isin(const ArrayOperand& x, const ArrayOperand& values);

}  // namespace lockstep
