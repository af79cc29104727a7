#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "engine/ops/cumulative/cumulative.h"
#include "engine/ops/rules/layout.h"

namespace lockstep::ops {

namespace {

double log_add_exp(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return a + b;
  const double top = std::max(a, b);
  return std::isinf(top) ? top : top + std::log1p(std::exp(std::min(a, b) - top));
}

/// y[i] = y[i-1] x[i], differentiated: right where factors are zero, and no division.
std::vector<Tangent> cumprod_jvp(const JvpContext& context) {
  const Direction direction(context.attrs);
  const Value& x = context.inputs[0];
  if (x.type().size() == 0) return {std::nullopt};
  const Value before = previous(context.outputs[0], 1, direction.axis, direction.reverse);
  return {linear_recurrence(x, before * *context.tangents[0], context.attrs)};
}

/// dy[i] = (r[i] s[i-1] dy[i-1] + e[i] dx[i]) / s[i], where s[i] = r[i] s[i-1] + e[i] is the sum of exp(x[j] - m[i]) up to
/// i, m the largest so far, r[i] = exp(m[i-1] - m[i]) and e[i] = exp(x[i] - m[i]). Not by exp(x - y), whose exponent has
/// y's rounding. In float64: rounded to fewer digits, the factors' errors would multiply up along the way.
std::vector<Tangent> cumlogsumexp_jvp(const JvpContext& context) {
  const Direction direction(context.attrs);
  if (context.inputs[0].type().size() == 0) return {std::nullopt};
  const DType dtype = context.inputs[0].dtype();
  const double infinity = std::numeric_limits<double>::infinity();
  const Value x = convert(context.inputs[0], DType::float64);
  const Value top = stop_gradient(apply_one(primitives::cummax(), {x}, context.attrs));
  const Value zero = full_like(top, 0), lowest = full_like(top, -infinity);
  const Value finite_top = select(is_finite(top), top, zero);
  // exp(part - top): infinite ones less themselves would be NaN.
  const auto scaled = [&](const Value& part) {
    const Value as_top = select(equal(part, full_like(top, infinity)), zero, lowest);
    const Value at_infinity = select(equal(abs(top), full_like(top, infinity)), as_top, part - finite_top);
    return exp(at_infinity);
  };
  const Value ratio = scaled(previous(top, -infinity, direction.axis, direction.reverse));
  const Value own = scaled(x);
  const Value total = linear_recurrence(ratio, own, context.attrs);
  const Value whole = select(equal(total, zero), full_like(total, 1), total);
  const Value before = previous(total, 0, direction.axis, direction.reverse);
  const Value dx = convert(*context.tangents[0], DType::float64);
  return {convert(linear_recurrence(ratio * before / whole, own / whole * dx, context.attrs), dtype)};
}

}  // namespace

const Primitive& primitives::cumsum() {
  static const Primitive op{
      .name = "cumsum",
      .infer = cumulative_infer(infer::numeric),
      .derivative = derivative::linear_in_one(
          0, [](const TransposeContext& context,
                const Value& ct) { return apply_one(primitives::cumsum(), {ct}, Direction(context.attrs).against()); }),
      .batch = batch::along(cumsum, "axis"),
      .reference = accumulates<double, std::int64_t, std::uint64_t, Complex>(Sum{}),
      .flops = flops::per_element(0),
      .samples =
          [] {
            return cumulative_samples({DType::float64, DType::float32, DType::bfloat16, DType::float16,
                                       DType::complex128, DType::complex64, DType::int32, DType::int8, DType::uint8},
                                      -2, 3);
          },
      .error_samples = cumulative_errors(DType::bool_),
      .traits = {},
      .layout = layout::along("axis")};
  return op;
}

const Primitive& primitives::cumprod() {
  static const Primitive op{.name = "cumprod",
                            .infer = cumulative_infer(infer::numeric),
                            .derivative = derivative::jvp(cumprod_jvp),
                            .batch = batch::along(cumprod, "axis"),
                            .reference = accumulates<double, std::int64_t, std::uint64_t, Complex>(Product{}),
                            .flops = flops::per_element(0),
                            .samples =
                                [] {
                                  return cumulative_samples(
                                      {DType::float64, DType::float32, DType::bfloat16, DType::complex128,
                                       DType::complex64, DType::int32, DType::int8, DType::uint8},
                                      -1.5, 2);
                                },
                            .error_samples = cumulative_errors(DType::bool_),
                            .traits = {},
                            .layout = layout::along("axis")};
  return op;
}

const Primitive& primitives::cumlogsumexp() {
  static const Primitive op{
      .name = "cumlogsumexp",
      .infer = cumulative_infer(infer::floating),
      .derivative = derivative::jvp(cumlogsumexp_jvp),
      .batch = batch::along(cumlogsumexp, "axis"),
      .reference = accumulates<double>(log_add_exp),
      .flops = flops::per_element(0),
      .samples =
          [] {
            return cumulative_samples({DType::float64, DType::float32, DType::bfloat16, DType::float16}, -3, 3);
          },
      .error_samples = cumulative_errors(DType::complex64),
      .traits = {},
      .layout = layout::along("axis")};
  return op;
}

}  // namespace lockstep::ops
