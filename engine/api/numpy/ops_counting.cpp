#include <cmath>

#include <fmt/format.h>

#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/indexing.h>
#include <lockstep/reductions.h>

#include "engine/api/indexing/index_values.h"
#include "engine/api/numpy/axes.h"
#include "engine/api/numpy/operands.h"
#include "engine/api/transforms/bind.h"
#include "engine/ops/primitives.h"

namespace lockstep {

namespace {

void expect_size(std::string_view function, std::int64_t size) {
  if (size >= 0) return;
  throw ValueError(fmt::format("{}: size is {}; expected 0 or more", function, size));
}

Array flat(const Array& x) { return reshape(x, {x.size()}); }

Array nonzero_mask(const Array& x) { return x.dtype() == DType::bool_ ? x : not_equal(x, zeros_like(x)); }

/// Weights added up by int32 index; those at an index outside [0, length) must be 0.
Array add_up(const Array& indices, const Array& weights, std::int64_t length) {
  if (length == 0 || indices.size() == 0) return zeros({length}, weights.dtype());
  return api::bind_one(ops::primitives::scatter_add_rows(), {indices, weights}, {{"rows", length}});
}

Array weights_of(std::string_view function, const Array& x, const std::optional<Array>& weights, DType count) {
  if (!weights) return ones({x.size()}, count);
  if (weights->shape() != x.shape()) {
    throw ShapeError(fmt::format("{}: x is {}, weights are {}; expected one shape", function, to_string(x.shape()),
                                 to_string(weights->shape())));
  }
  return flat(weights->dtype() == DType::bool_ ? convert(*weights, int32) : *weights);
}

/// Places of the first `size` true elements of a vector; `fill` for what is missing.
Array first_places(const Array& mask, std::int64_t size, const Operand& fill) {
  const std::int64_t n = mask.dim(0);
  if (n == 0) return full({size}, fill, int32);
  const Array wanted = add(arange(size), 1);
  const Array places = searchsorted(cumsum(convert(mask, int32)), wanted);
  return where(less(places, n), places, fill);
}

}  // namespace

Array bincount(const ArrayOperand& x, std::int64_t length, const std::optional<Array>& weights) {
  expect_size("bincount", length);
  api::expect_integers("bincount", x, "what is counted");
  if (x.ndim() != 1) {
    throw ShapeError(fmt::format("bincount: x is {}; give a vector, of all elements ravel(x) (vmap counts row by row)",
                                 to_string(x.type())));
  }
  const Array indices = api::in_at_least_32_bits(flat(x));
  const Array counted = weights_of("bincount", x, weights, int32);
  const Array held = where(less(indices, length), counted, zeros_like(counted));
  return add_up(convert(minimum(maximum(indices, 0), std::max<std::int64_t>(length - 1, 0)), int32), held, length);
}

Array histogram(const ArrayOperand& x, const ArrayOperand& edges, const std::optional<Array>& weights) {
  if (edges.ndim() != 1 || edges.dim(0) < 2) {
    throw ShapeError(fmt::format("histogram: edges have shape {}; expected at least 2 of them in one dimension",
                                 to_string(edges.shape())));
  }
  const std::int64_t bins = edges.dim(0) - 1;
  const DType dtype = api::inexact(api::common_dtype({x, edges}));
  const DType added = weights ? api::inexact(api::common_dtype({x, edges, *weights})) : dtype;
  const Array value = convert(flat(x), dtype), borders = convert(edges, dtype);
  const Array first = squeeze(slice_in_dim(borders, 0, 1, 0), {0});
  const Array last = squeeze(slice_in_dim(borders, bins, bins + 1, 0), {0});
  const Array inside = logical_and(greater_equal(value, first), less_equal(value, last));
  const Array bin = minimum(sub(searchsorted(borders, value, Side::right), 1), bins - 1);
  const Array counted = convert(weights_of("histogram", x, weights, dtype), added);
  return add_up(maximum(bin, 0), where(inside, counted, zeros_like(counted)), bins);
}

const std::optional<std::pair<double, double>> detail::no_range;

std::pair<Array, Array> histogram(const ArrayOperand& x, std::int64_t bins,
                                  const std::optional<std::pair<double, double>>& given,
                                  const std::optional<Array>& weights) {
  std::optional<std::pair<double, double>> range = given;
  if (bins < 1) throw ValueError(fmt::format("histogram: {} bins; expected at least 1", bins));
  if (range && !(std::isfinite(range->first) && std::isfinite(range->second) && range->first <= range->second)) {
    throw ValueError(fmt::format("histogram: the range is from {} to {}; expected finite numbers, the smaller first",
                                 range->first, range->second));
  }
  if (!range && x.size() == 0) range = {0, 1};
  const bool is_weighted = weights && !is_complex(weights->dtype());
  const DType dtype = api::inexact(is_weighted ? api::common_dtype({x, *weights}) : x.dtype());
  Array low, high;
  if (range) {
    low = full({}, range->first, dtype);
    high = full({}, range->second, dtype);
  } else {
    low = convert(min(x), dtype);
    high = convert(max(x), dtype);
  }
  const Array point = equal(low, high);  // As numpy, half a unit to either side.
  low = where(point, sub(low, 0.5), low);
  high = where(point, add(high, 0.5), high);
  // A narrow dtype does not even count the bins.
  const DType wide = api::widened(dtype);
  const Array share = div(arange(bins + 1, wide), static_cast<double>(bins));
  const Array edges = convert(add(mul(low, sub(1, share)), mul(high, share)), dtype);
  return {histogram(x, edges, weights), edges};
}

Array flatnonzero(const ArrayOperand& x, std::int64_t size, std::int64_t fill) {
  expect_size("flatnonzero", size);
  return first_places(nonzero_mask(flat(x)), size, fill);
}

std::vector<Array> nonzero(const ArrayOperand& x, std::int64_t size, std::int64_t fill) {
  expect_size("nonzero", size);
  if (x.ndim() == 0) {
    throw ShapeError("nonzero: a scalar has no index; expected rank 1 or more; reshape it to [1]");
  }
  const Array places = first_places(nonzero_mask(flat(x)), size, -1);
  std::vector<Array> indices;
  std::int64_t inner = x.size();
  for (const std::int64_t extent : x.shape()) {
    inner = extent == 0 ? 0 : inner / extent;
    const Array index = inner == 0 ? places : rem(div(places, inner), extent);
    indices.push_back(where(less(places, 0), fill, index));
  }
  return indices;
}

Array argwhere(const ArrayOperand& x, std::int64_t size, std::int64_t fill) {
  return stack(nonzero(x, size, fill), -1);
}

Unique unique(const ArrayOperand& x, std::int64_t size, const std::optional<Array>& fill) {
  expect_size("unique", size);
  const Array values = flat(x);
  const std::int64_t n = values.dim(0);
  if (n == 0) {
    throw ShapeError(fmt::format("unique: {} has no elements; expected at least one", to_string(x.shape())));
  }
  const std::vector<Array> pair = {values, arange(n)};
  const std::vector<Array> sorted = sort(pair, 0, 1);
  const Array &ordered = sorted[0], &origin = sorted[1];
  const Array next = slice_in_dim(ordered, 1, n, 0), before = slice_in_dim(ordered, 0, n - 1, 0);
  // All NaN are one value.
  const Array changes = logical_and(not_equal(next, before), logical_not(logical_and(isnan(next), isnan(before))));
  const Array starts_run = concatenate({full({1}, true, DType::bool_), changes}, 0);
  const Array run = sub(cumsum(starts_run), 1);
  const Array start = first_places(starts_run, size, n);
  const Array missing = equal(start, n);
  const Array from = where(missing, 0, start);
  const Array held = less(run, size);
  Unique result;
  result.values = where(
      missing, fill ? convert(*fill, x.dtype()) : take(ordered, zeros({}, int32), 0, IndexMode::promise_in_bounds),
      take(ordered, from, 0, IndexMode::promise_in_bounds));
  result.indices = take(origin, from, 0, IndexMode::promise_in_bounds);
  result.inverse = reshape(take(run, argsort(origin), 0, IndexMode::promise_in_bounds), x.shape().to_vector());
  result.counts = add_up(minimum(run, std::max<std::int64_t>(size - 1, 0)), convert(held, int32), size);
  return result;
}

Array isin(const ArrayOperand& x, const ArrayOperand& values) {
  const std::int64_t n = values.size();
  return any(equal(expand_dims(x, -1), reshape(values, {n})), Axes{-1});
}

}  // namespace lockstep
