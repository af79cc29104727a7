
#include <fmt/format.h>

#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/indexing.h>
#include <lockstep/reductions.h>

#include "engine/api/numpy/axes.h"
#include "engine/api/numpy/operands.h"
#include "engine/api/numpy/weak_types.h"
#include "engine/api/transforms/bind.h"
#include "engine/core/lists.h"
#include "engine/ops/rules/infer.h"

namespace lockstep {

namespace {

using MaybeAxis = std::optional<std::int64_t>;

/// The axis in front; without one, all elements along one dimension.
Array in_front(std::string_view op, const Array& x, MaybeAxis axis) {
  const Array rows = axis ? moveaxis(x, normalize_axis(*axis, x.ndim(), op), 0) : reshape(x, {-1});
  if (rows.dim(0) > 0) return convert(rows, api::inexact(x.dtype()));
  throw ShapeError(
      fmt::format("{}: {} has no elements along the axis; expected at least one", op, to_string(x.shape())));
}

/// What lies between two elements, `share` of the way, rounded once to their dtype.
Array between(const Array& below, const Array& above, const Array& share, Quantile method) {
  const DType dtype = api::widened(below.dtype());
  if (dtype != below.dtype()) {
    return convert(between(convert(below, dtype), convert(above, dtype), share, method), below.dtype());
  }
  switch (method) {
    case Quantile::lower:
      return below;
    case Quantile::higher:
      return above;
    case Quantile::nearest:
      return where(less_equal(share, 0.5), below, above);
    case Quantile::midpoint:
      return add(mul(below, 0.5), mul(above, 0.5));  // halves first: a sum may overflow
    case Quantile::linear:
      break;
  }
  return add(mul(below, sub(1, share)), mul(above, share));
}

/// Rows of `sorted` at fractional places [Q...]: [Q..., rest...], none of them outside.
Array between_rows(const Array& sorted, const Array& places, Quantile method) {
  const Array low = floor(places), high = ceil(places);
  const Array below = take(sorted, convert(low, int32), 0, IndexMode::promise_in_bounds);
  const Array above = take(sorted, convert(high, int32), 0, IndexMode::promise_in_bounds);
  Shape shape = places.shape();
  for (int i = 1; i < sorted.ndim(); ++i) shape.append(1);
  const Array share = convert(reshape(sub(places, low), shape.to_vector()), api::widened(sorted.dtype()));
  return between(below, above, share, method);
}

/// Elements of `sorted` [n, rest...] at the parts [Q...] of the numbers in each column, NaN standing last: [Q...,
/// rest...].
Array between_numbers(const Array& sorted, const Array& parts, Quantile method) {
  const Array numbers = sum(convert(logical_not(isnan(sorted)), int32), Axes{0}, true);
  const Array last = convert(maximum(sub(numbers, 1), 0), parts.dtype());
  std::vector<std::int64_t> column(static_cast<std::size_t>(sorted.ndim()), 1);
  column[0] = parts.size();
  const Array places = mul(reshape(parts, column), last);
  const Array low = floor(places), high = ceil(places);
  const auto at = [&](const Array& place) {
    return take_along_axis(sorted, convert(place, int32), 0, IndexMode::promise_in_bounds);
  };
  const Array result = between(at(low), at(high), convert(sub(places, low), api::widened(sorted.dtype())), method);
  std::vector<std::int64_t> shape = parts.shape().to_vector();
  shape.insert(shape.end(), sorted.shape().begin() + 1, sorted.shape().end());
  return reshape(result, shape);
}

/// Throws ValueError for a number outside of [0, whole].
void check_level(std::string_view op, const Operand& q, double whole) {
  if (q.real() >= 0 && q.real() <= whole) return;
  throw ValueError(fmt::format("{}: q is {}; expected a number from 0 to {}", op, q.real(), whole));
}

/// `q` are as many parts as `whole` is. Places among many rows need more digits than a narrow dtype has.
Array quantile_of(std::string_view op, const Array& x, const Operand& q, double whole, MaybeAxis axis, Quantile method,
                  bool of_numbers = false) {
  const Array given = in_front(op, x, axis);
  const DType dtype = q.is_scalar() || api::is_weak(q.array())
                          ? given.dtype()
                          : api::inexact(promote(q.array().dtype(), given.dtype()));
  const Array rows = convert(given, dtype);
  constexpr std::int64_t many = std::int64_t{1} << 20;
  const Array level = api::aligned(op, {&q}, rows.dim(0) > many ? float64 : api::widened(dtype)).front();
  const Array part = whole == 1 ? level : div(level, whole);
  const auto at_parts = [&](const Array& parts) {
    if (of_numbers) return between_numbers(sort(rows, 0), parts, method);
    const Array places = mul(parts, static_cast<double>(rows.dim(0) - 1));
    return where(any(isnan(rows), Axes{0}), api::not_a_number, between_rows(sort(rows, 0), places, method));
  };
  if (q.is_scalar()) return at_parts(part);
  const Array inside = logical_and(greater_equal(part, 0), less_equal(part, 1));
  const Array result = at_parts(where(inside, part, 0));
  std::vector<std::int64_t> beside = inside.shape().to_vector();
  beside.resize(static_cast<std::size_t>(result.ndim()), 1);
  return where(reshape(inside, beside), result, api::not_a_number);
}

}  // namespace

Array variance(const ArrayOperand& x, const OptionalAxes& axes, double ddof, bool keep) {
  const Axes dims = api::resolve_axes(axes, x.ndim(), "variance");
  const double n = static_cast<double>(api::count_along(x, dims));
  if (ddof == 0) return var(x, dims, keep);
  const Array biased = var(convert(x, api::widened(x.dtype())), dims, keep);
  return convert(mul(biased, n > ddof ? n / (n - ddof) : api::not_a_number),
                 ops::infer::part_of(api::inexact(x.dtype())));
}

Array stddev(const ArrayOperand& x, const OptionalAxes& axes, double ddof, bool keep) {
  const Axes dims = api::resolve_axes(axes, x.ndim(), "stddev");
  const Array wide = convert(x, api::widened(x.dtype()));
  const Array scale = api::binade(abs(wide), dims);  // so that no square overflows or vanishes
  const Array deviation = mul(api::deviation(variance(div(wide, scale), dims, ddof, true)), scale);
  const Array result = convert(deviation, ops::infer::part_of(api::inexact(x.dtype())));
  return keep ? result : squeeze(result, dims);
}

Array ptp(const ArrayOperand& x, const OptionalAxes& axes, bool keep) {
  const Axes dims = api::resolve_axes(axes, x.ndim(), __func__);
  if (api::count_along(x, dims) == 0) {
    throw ShapeError(
        fmt::format("ptp: {} has no elements along the axes; expected at least one", to_string(x.shape())));
  }
  return sub(max(x, dims, keep), min(x, dims, keep));
}

Array average(const ArrayOperand& x, const ArrayOperand& weights, const OptionalAxes& axes) {
  const DType dtype = api::common_dtype({x, weights}), wide = api::widened(dtype);
  const Array value = convert(x, wide);
  Array weight = convert(weights, wide);
  if (weights.shape() != x.shape()) {
    // One weight for each element along the one axis.
    const bool fits = axes && axes->size() == 1 && weights.ndim() == 1;
    const std::int64_t dim = fits ? normalize_axis(axes->front(), x.ndim(), "average") : 0;
    if (!fits || weights.dim(0) != x.dim(static_cast<int>(dim))) {
      throw ShapeError(
          fmt::format("average: x is {}, weights are {}; expected one shape, or a weight for each element "
                      "along the one axis",
                      to_string(x.shape()), to_string(weights.shape())));
    }
    std::vector<std::int64_t> shape = repeated(x.ndim(), 1);
    nth(shape, dim) = weights.dim(0);
    weight = broadcast_to(reshape(weight, shape), x.shape());
  }
  const Array share = div(weight, api::binade(abs(weight), api::resolve_axes(axes, x.ndim(), "average")));
  return convert(div(sum(mul(value, share), axes), sum(share, axes)), api::inexact(dtype));
}

Array count_nonzero(const ArrayOperand& x, const OptionalAxes& axes, bool keep) {
  const Axes dims = api::resolve_axes(axes, x.ndim(), __func__);
  return sum(convert(not_equal(x, zeros_like(x)), int32), dims, keep);
}

Array quantile(const ArrayOperand& x, const Operand& q, MaybeAxis axis, Quantile method) {
  if (q.is_scalar()) check_level("quantile", q, 1);
  return quantile_of("quantile", x, q, 1, axis, method);
}

Array percentile(const ArrayOperand& x, const Operand& q, MaybeAxis axis, Quantile method) {
  if (!q.is_scalar()) return quantile_of("percentile", x, q, 100, axis, method);
  check_level("percentile", q, 100);
  return quantile_of("percentile", x, q.real() / 100, 1, axis, method);
}

Array nanquantile(const ArrayOperand& x, const Operand& q, MaybeAxis axis, Quantile method) {
  if (q.is_scalar()) check_level("nanquantile", q, 1);
  return quantile_of("nanquantile", x, q, 1, axis, method, true);
}

Array nanpercentile(const ArrayOperand& x, const Operand& q, MaybeAxis axis, Quantile method) {
  if (!q.is_scalar()) return quantile_of("nanpercentile", x, q, 100, axis, method, true);
  check_level("nanpercentile", q, 100);
  return quantile_of("nanpercentile", x, q.real() / 100, 1, axis, method, true);
}

Array median(const ArrayOperand& x, MaybeAxis axis) {
  return quantile_of("median", x, 0.5, 1, axis, Quantile::midpoint);
}

Array nanmedian(const ArrayOperand& x, MaybeAxis axis) {
  // NaN stands last, so the numbers' middle is found by their count.
  const Array rows = in_front("nanmedian", x, axis);
  const Array sorted = sort(rows, 0);
  const Array count = expand_dims(sum(convert(logical_not(isnan(rows)), int32), Axes{0}), 0);
  const Array last = maximum(sub(count, 1), 0);
  const Array low = shift_right_logical(last, 1);
  const Array high = sub(last, low);
  const Array below = take_along_axis(sorted, low, 0, IndexMode::promise_in_bounds);
  const Array above = take_along_axis(sorted, high, 0, IndexMode::promise_in_bounds);
  return squeeze(between(below, above, zeros({}, api::widened(sorted.dtype())), Quantile::midpoint), {0});
}

Array cov(const ArrayOperand& rows, double ddof) {
  if (rows.ndim() == 1) return reshape(cov(expand_dims(rows, 0), ddof), {});
  if (rows.ndim() != 2) {
    throw ShapeError(fmt::format("cov: {} given; expected [variables, observations]; reshape it to rank 2",
                                 to_string(rows.shape())));
  }
  const Array centered = api::centered(convert(rows, api::widened(rows.dtype())), Axes{1});
  const Array products = matmul(centered, transpose(conj(centered)));
  const double left = static_cast<double>(rows.dim(1)) - ddof;
  const Array shares = left > 0 ? div(products, left) : full_like(products, api::not_a_number);
  return convert(shares, api::inexact(rows.dtype()));
}

Array corrcoef(const ArrayOperand& rows) {
  if (rows.ndim() == 1) return reshape(corrcoef(expand_dims(rows, 0)), {});
  const Array wide = convert(rows, api::widened(rows.dtype()));
  const Array c = cov(div(wide, api::binade(abs(wide), {1})));
  const Array diagonal = real(sum(mul(c, eye(c.dim(0), c.dtype())), Axes{1}));
  const Array deviation = sqrt(diagonal);
  return convert(div(div(c, expand_dims(deviation, 1)), expand_dims(deviation, 0)), api::inexact(rows.dtype()));
}

}  // namespace lockstep
