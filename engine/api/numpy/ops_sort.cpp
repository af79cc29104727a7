#include <fmt/format.h>

#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/indexing.h>
#include <lockstep/reductions.h>

#include "engine/api/numpy/operands.h"
#include "engine/api/transforms/bind.h"
#include "engine/ops/primitives.h"

namespace lockstep {

namespace {

void expect_vector(std::string_view function, std::string_view what, const Array& x) {
  if (x.ndim() == 1) return;
  throw ShapeError(fmt::format("{}: {} has shape {}; expected one dimension; reshape it to [n]", function, what,
                               to_string(x.shape())));
}

/// Where a value stands behind an element, NaN being last.
Array stands_behind(const Array& element, const Array& value, Side side) {
  if (side == Side::left)
    return logical_or(less(element, value), logical_and(isnan(value), logical_not(isnan(element))));
  return logical_or(less_equal(element, value), isnan(value));
}

}  // namespace

std::vector<Array> sort(std::span<const Array> operands, std::int64_t axis, std::int64_t num_keys) {
  if (operands.empty()) throw ValueError("sort: no arrays; pass the keys and what is to be permuted with them");
  const std::int64_t dim = normalize_axis(axis, operands.front().ndim(), __func__);
  return api::bind(ops::primitives::sort(), operands, {{"axis", dim}, {"num_keys", num_keys}});
}

Array sort(const ArrayOperand& x, std::int64_t axis, bool descending) {
  // Sorted from its end, equal elements of the reversed result keep their order.
  if (descending) return reverse(sort(reverse(x, {axis}), axis), {axis});
  return std::move(sort(std::span(static_cast<const Array*>(&x), 1), axis, 1).front());
}

Array argsort(const ArrayOperand& x, std::int64_t axis, bool descending) {
  const std::int64_t dim = normalize_axis(axis, x.ndim(), "argsort");
  const Array places = iota(x.shape(), dim);
  const std::vector<Array> pair =
      descending ? std::vector<Array>{reverse(x, {dim}), reverse(places, {dim})} : std::vector<Array>{x, places};
  const Array order = sort(pair, dim, 1).back();
  return descending ? reverse(order, {dim}) : order;
}

Array lexsort(std::span<const Array> keys, std::int64_t axis) {
  if (keys.empty()) throw ValueError("lexsort: no keys; pass at least one");
  std::vector<Array> operands(keys.rbegin(), keys.rend());
  const std::int64_t dim = normalize_axis(axis, keys.front().ndim(), "lexsort");
  operands.push_back(iota(keys.front().shape(), dim));
  return sort(operands, dim, static_cast<std::int64_t>(keys.size())).back();
}

Array searchsorted(const ArrayOperand& sorted, const ArrayOperand& values, Side side) {
  expect_vector("searchsorted", "the sorted array", sorted);
  const DType dtype = api::common_dtype({sorted, values});
  const Array table = convert(sorted, dtype), wanted = convert(values, dtype);
  const std::int64_t n = sorted.dim(0);
  Array low = zeros(values.shape(), int32), high = full(values.shape(), n, int32);
  for (std::int64_t width = n; width > 0; width /= 2) {
    const Array middle = shift_right_logical(add(low, high), 1);
    const Array open = less(low, high);
    const Array behind = stands_behind(take(table, middle, 0, IndexMode::clip), wanted, side);
    low = where(logical_and(open, behind), add(middle, 1), low);
    high = where(logical_and(open, logical_not(behind)), middle, high);
  }
  return low;
}

Array digitize(const ArrayOperand& x, const ArrayOperand& bins, bool right) {
  expect_vector("digitize", "bins", bins);
  const Side side = right ? Side::left : Side::right;
  const std::int64_t n = bins.dim(0);
  if (n == 0) return zeros(x.shape(), int32);
  const Array up = searchsorted(bins, x, side);
  const Array down = sub(n, searchsorted(reverse(bins, {0}), x, side));
  const Array ascends = less_equal(slice_in_dim(bins, 0, 1, 0), slice_in_dim(bins, n - 1, n, 0));
  return where(squeeze(ascends, {0}), up, down);
}

std::vector<Array> sort(std::initializer_list<Array> operands, std::int64_t axis, std::int64_t num_keys) {
  return sort(std::span(operands.begin(), operands.size()), axis, num_keys);
}

Array lexsort(std::initializer_list<Array> keys, std::int64_t axis) {
  return lexsort(std::span(keys.begin(), keys.size()), axis);
}

}  // namespace lockstep
