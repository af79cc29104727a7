#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "engine/ops/cumulative/cumulative.h"

namespace lockstep::ops {

namespace {

/// Integers wrap.
struct Sum {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_same_v<T, std::int64_t>) {
      return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
    } else {
      return a + b;
    }
  }
};

struct Product {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_same_v<T, std::int64_t>) {
      return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
    } else {
      return a * b;
    }
  }
};

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

/// dy[i] = exp(y[i-1] - y[i]) dy[i-1] + exp(x[i] - y[i]) dx[i]; no exponent is positive. In float64: rounded to fewer
/// digits, the factors' errors would multiply up along the way.
std::vector<Tangent> cumlogsumexp_jvp(const JvpContext& context) {
  const Direction direction(context.attrs);
  if (context.inputs[0].type().size() == 0) return {std::nullopt};
  const DType dtype = context.inputs[0].dtype();
  const Value x = convert(context.inputs[0], DType::float64);
  const Value y =
      dtype == DType::float64 ? context.outputs[0] : apply_one(primitives::cumlogsumexp(), {x}, context.attrs);
  const double infinity = std::numeric_limits<double>::infinity();
  const Value lowest = full_like(y, -infinity);
  const Value top = select(is_finite(y), y, full_like(y, 0));
  const auto share = [&](const Value& part) {
    const Value whole = equal(part, y);  // Infinite ones too: less themselves they would be NaN.
    const Value weight = exp(select(whole, full_like(y, 0), part - top));
    return select(equal(part, lowest), full_like(y, 0), weight);
  };
  const Value before = previous(y, -infinity, direction.axis, direction.reverse);
  const Value dx = convert(*context.tangents[0], DType::float64);
  return {convert(linear_recurrence(share(before), share(x) * dx, context.attrs), dtype)};
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
      .traits = {}};
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
                            .traits = {}};
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
      .traits = {}};
  return op;
}

}  // namespace lockstep::ops
