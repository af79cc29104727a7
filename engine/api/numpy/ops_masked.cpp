#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/reductions.h>

#include "engine/api/numpy/axes.h"
#include "engine/api/numpy/operands.h"
#include "engine/ops/rules/infer.h"

namespace lockstep {

namespace {

/// The mask at x's shape.
Array held(std::string_view op, const Array& x, const Where& where) {
  if (where.mask.dtype() == DType::bool_) return api::broadcast(op, where.mask, x.shape());
  throw DtypeError(
      fmt::format("{}: the mask is {}; expected bool: write Where(mask != 0)", op, to_string(where.mask.type())));
}

/// The initial value in x's dtype, into which it may have to be cut.
Array first_value(std::string_view op, const Array& x, const Operand& initial) {
  if (initial.is_scalar()) return api::constant(op, initial, x.dtype(), Shape{});
  if (initial.array().ndim() == 0) return convert(initial.array(), x.dtype());
  throw ShapeError(fmt::format("{}: the initial value is {}; expected a scalar, the same for every result", op,
                               to_string(initial.array().type())));
}

/// How many elements are held, in x's dtype.
Array held_count(const Array& x, const Array& mask, const OptionalAxes& axes, bool keep) {
  return sum(convert(mask, x.dtype()), axes, keep);
}

/// From here on exp(x) is infinite.
double overflow_of(DType dtype) { return dtype == DType::float64 ? 709 : 88; }

Where numbers(const Array& x) { return Where(logical_not(isnan(x))); }

/// Where no number is there, NaN.
Array unless_all_nan(const Array& x, const Array& result, const OptionalAxes& axes, bool keep) {
  return is_float(x.dtype()) ? where(all(isnan(x), axes, keep), api::not_a_number, result) : result;
}

/// The first number that is as far out as any: where all others are NaN, the worst there is, too.
Array arg_of_numbers(const Array& x, std::int64_t axis, double worst,
                     Array (*arg)(const ArrayOperand&, std::int64_t, DType),
                     Array (*best)(const ArrayOperand&, const OptionalAxes&, bool)) {
  if (!is_float(x.dtype())) return arg(x, axis, int32);
  const Array missing = isnan(x);
  const Array numbers = where(missing, worst, x);
  const Array found = logical_and(equal(numbers, best(numbers, Axes{axis}, true)), logical_not(missing));
  return where(all(missing, Axes{axis}), -1, argmax(convert(found, DType::int8), axis, int32));
}

}  // namespace

Array sum(const ArrayOperand& x, const Where& where, const OptionalAxes& axes, bool keep) {
  return sum(lockstep::where(held("sum", x, where), x, zeros_like(x)), axes, keep);
}

Array prod(const ArrayOperand& x, const Where& where, const OptionalAxes& axes, bool keep) {
  return prod(lockstep::where(held("prod", x, where), x, ones_like(x)), axes, keep);
}

Array max(const ArrayOperand& x, const Where& where, const Operand& initial, const OptionalAxes& axes, bool keep) {
  const Array start = first_value("max", x, initial);
  return maximum(
      api::largest(lockstep::where(held("max", x, where), x, start), api::resolve_axes(axes, x.ndim(), "max"), keep),
      start);
}

Array min(const ArrayOperand& x, const Where& where, const Operand& initial, const OptionalAxes& axes, bool keep) {
  const Array start = first_value("min", x, initial);
  return minimum(
      api::smallest(lockstep::where(held("min", x, where), x, start), api::resolve_axes(axes, x.ndim(), "min"), keep),
      start);
}

Array mean(const ArrayOperand& x, const Where& where, const OptionalAxes& axes, bool keep) {
  const Array value = api::as_widened(x), mask = held("mean", x, where);
  const Array total = sum(lockstep::where(mask, value, zeros_like(value)), axes, keep);
  return convert(div(total, held_count(value, mask, axes, keep)), api::inexact(x.dtype()));
}

Array var(const ArrayOperand& x, const Where& where, const OptionalAxes& axes, bool keep) {
  const Array value = api::as_widened(x), mask = held("var", x, where);
  const Array count = held_count(value, mask, axes, true);
  // As api::centered.
  const auto held_only = [&](const Array& v) { return lockstep::where(mask, v, zeros_like(v)); };
  const double part = std::exp2(-std::ceil(std::log2(static_cast<double>(std::max<std::int64_t>(x.size(), 1)))));
  const Array first = stop_gradient(div(sum(held_only(mul(value, part)), axes, true), mul(count, part)));
  const Array away = held_only(sub(value, first));
  const Array centered = sub(away, div(sum(away, axes, true), count));
  const DType dtype = ops::infer::part_of(api::inexact(x.dtype()));
  return convert(mean(real(mul(centered, conj(centered))), Where(mask), axes, keep), dtype);
}

Array all(const ArrayOperand& x, const Where& where, const OptionalAxes& axes, bool keep) {
  return all(logical_or(x, logical_not(held("all", x, where))), axes, keep);
}

Array any(const ArrayOperand& x, const Where& where, const OptionalAxes& axes, bool keep) {
  return any(logical_and(x, held("any", x, where)), axes, keep);
}

Array logsumexp(const ArrayOperand& x, const Where& where, const OptionalAxes& axes, bool keep) {
  const Array value = convert(x, api::inexact(x.dtype()));
  return logsumexp(lockstep::where(held("logsumexp", x, where), value, -api::infinity), axes, keep);
}

Array logsumexp(const ArrayOperand& x, const ArrayOperand& weights, const OptionalAxes& axes, bool keep) {
  if (weights.shape() != x.shape()) {
    throw ShapeError(fmt::format("logsumexp: x is {}, weights are {}; expected one shape; broadcast_to the weights",
                                 to_string(x.shape()), to_string(weights.shape())));
  }
  const Axes dims = api::resolve_axes(axes, x.ndim(), "logsumexp");
  const DType dtype = api::inexact(x.dtype());
  const Array value = convert(x, api::widened(dtype));
  const Array counted = lockstep::where(equal(weights, 0), -api::infinity, value);
  const Array top = stop_gradient(api::largest(counted, dims, true));
  const Array shift = lockstep::where(is_finite(top), top, 0);
  // An element of weight 0 adds nothing, but to the derivative by its weight; unless its exponential is no number.
  const Array above = sub(value, shift);
  const Array dropped = logical_and(equal(weights, 0), logical_not(less(above, overflow_of(value.dtype()))));
  const Array exponential = exp(lockstep::where(dropped, -api::infinity, above));
  const Array total = log(sum(mul(exponential, convert(weights, promote(weights.dtype(), value.dtype()))), dims, true));
  const Array result = convert(add(total, shift), dtype);
  return keep ? result : squeeze(result, dims);
}

Array logmeanexp(const ArrayOperand& x, const OptionalAxes& axes, bool keep) {
  const Axes dims = api::resolve_axes(axes, x.ndim(), "logmeanexp");
  const auto count = static_cast<double>(api::count_along(x, dims));
  const DType dtype = api::inexact(x.dtype());
  const Array value = convert(x, api::widened(dtype));
  const Array top = stop_gradient(api::largest(value, dims, true));
  const Array less_top = sub(value, lockstep::where(is_finite(top), top, 0));
  // Where the mean is close to the largest one, how far it is from it.
  const Array below = div(sum(expm1(less_top), dims, true), count);
  const Array close = greater(below, -0.5);
  const Array near = add(log1p(lockstep::where(close, below, 0)), top);
  const Array far = sub(logsumexp(value, dims, true), std::log(count));
  const Array result = convert(lockstep::where(close, near, far), dtype);
  return keep ? result : squeeze(result, dims);
}

Array nansum(const ArrayOperand& x, const OptionalAxes& axes, bool keep) {
  return sum(x, numbers(x), api::resolve_axes(axes, x.ndim(), __func__), keep);
}
Array nanprod(const ArrayOperand& x, const OptionalAxes& axes, bool keep) {
  return prod(x, numbers(x), api::resolve_axes(axes, x.ndim(), __func__), keep);
}
Array nanmean(const ArrayOperand& x, const OptionalAxes& axes, bool keep) {
  return mean(x, numbers(x), api::resolve_axes(axes, x.ndim(), __func__), keep);
}
Array nanvar(const ArrayOperand& x, const OptionalAxes& axes, bool keep) {
  return var(x, numbers(x), api::resolve_axes(axes, x.ndim(), __func__), keep);
}
Array nanstd(const ArrayOperand& x, const OptionalAxes& axes, bool keep) {
  const Array deviation = api::deviation(nanvar(api::as_widened(x), api::resolve_axes(axes, x.ndim(), __func__), keep));
  return convert(deviation, ops::infer::part_of(api::inexact(x.dtype())));
}

Array nanmax(const ArrayOperand& x, const OptionalAxes& axes, bool keep) {
  const Axes dims = api::resolve_axes(axes, x.ndim(), __func__);
  api::expect_elements("nanmax", x, dims);
  if (!is_float(x.dtype())) return max(x, dims, keep);
  return unless_all_nan(x, max(where(isnan(x), -api::infinity, x), dims, keep), dims, keep);
}

Array nanmin(const ArrayOperand& x, const OptionalAxes& axes, bool keep) {
  const Axes dims = api::resolve_axes(axes, x.ndim(), __func__);
  api::expect_elements("nanmin", x, dims);
  if (!is_float(x.dtype())) return min(x, dims, keep);
  return unless_all_nan(x, min(where(isnan(x), api::infinity, x), dims, keep), dims, keep);
}

Array nanargmax(const ArrayOperand& x, std::int64_t axis) {
  return arg_of_numbers(x, normalize_axis(axis, x.ndim(), __func__), -api::infinity, argmax, max);
}
Array nanargmin(const ArrayOperand& x, std::int64_t axis) {
  return arg_of_numbers(x, normalize_axis(axis, x.ndim(), __func__), api::infinity, argmin, min);
}

}  // namespace lockstep
