#include <cmath>
#include <numbers>
#include <type_traits>

#include "engine/ops/elementwise/slopes.h"
#include "engine/ops/rules/pointwise.h"

namespace lockstep::ops {

namespace {

Value pow_slope(const Value& x, const Value& y) {
  // 0 times an infinite power is no slope. Where 1 / x is finite, x^(y - 1) stays: y has a derivative beside it.
  const Value infinite = bitwise_not(is_finite(full_like(x, 1) / x));
  const Value flat = bitwise_and(equal(y, full_like(y, 0)), infinite);
  const Value exponent = select(flat, full_like(y, 1), y - full_like(y, 1));
  return y * pow(x, exponent);
}

Tangent pow_base(const JvpContext& context, const Value& dx) {
  const Value &x = context.inputs[0], &y = context.inputs[1];
  const DType dtype = x.dtype();
  if (!is_narrow_float(dtype)) return dx * pow_slope(x, y);
  return dx * convert(pow_slope(convert(x, DType::float32), convert(y, DType::float32)), dtype);
}

Tangent pow_exponent(const JvpContext& context, const Value& dy) {
  const Value& x = context.inputs[0];
  const Value safe = select(equal(x, full_like(x, 0)), full_like(x, 1), x);
  return dy * (log(safe) * context.outputs[0]);
}

/// exp(x) - 1, accurate near 0 in both parts.
template <class T>
T less_one(T x) {
  if constexpr (std::is_same_v<T, double>) {
    return std::expm1(x);
  } else {
    const double half = std::sin(x.imag() / 2);
    return {std::expm1(x.real()) * std::cos(x.imag()) - 2 * half * half, std::exp(x.real()) * std::sin(x.imag())};
  }
}

/// log(1 + x), accurate near 0 in both parts.
template <class T>
T of_one_more(T x) {
  if constexpr (std::is_same_v<T, double>) {
    return std::log1p(x);
  } else {
    const double a = x.real(), b = x.imag();
    const double magnitude = std::abs(x) < 0.5 ? std::log1p(a * (a + 2) + b * b) / 2 : std::log(std::abs(1.0 + x));
    return {magnitude, std::atan2(b, 1 + a)};
  }
}

/// A base of 0 has no logarithm to take the power by.
template <class T>
T base_to_power(T x, T y) {
  if constexpr (std::is_same_v<T, Complex>) {
    if (y == 0.0) return 1;
    if (x == 0.0 && y.imag() == 0 && y.real() > 0) return 0;
  }
  return std::pow(x, y);
}

}  // namespace

const Primitive& primitives::exp() {
  static const Primitive op = pointwise::of_inexact(
      "exp", exp, [](auto x) { return std::exp(x); },
      [](const Value&, const Value& y, const Value& dx) { return dx * y; },
      samples::both(samples::unary(-3, 3, samples::all_floats), samples::unary(-1, 1, samples::complexes)),
      loops::with(pointwise_traits, loops::same<loops::floating>));
  return op;
}

const Primitive& primitives::exp2() {
  static const Primitive op = pointwise::of_floats(
      "exp2", exp2, [](double x) { return std::exp2(x); },
      [](const Value&, const Value& y, const Value& dx) { return dx * (y * std::numbers::ln2); },
      samples::unary(-3, 3, samples::all_floats), loops::with(pointwise_traits, loops::same<loops::floating>));
  return op;
}

const Primitive& primitives::expm1() {
  static const Primitive op = pointwise::of_inexact(
      "expm1", expm1, [](auto x) { return less_one(x); },
      [](const Value& x, const Value&, const Value& dx) { return dx * ops::exp(x); },
      samples::both(samples::inexact(-2, 2), samples::inexact(-1e-4, 1e-4)),
      loops::with(pointwise_traits, loops::same<loops::floating>));
  return op;
}

const Primitive& primitives::log() {
  static const Primitive op = pointwise::of_inexact(
      "log", log, [](auto x) { return std::log(x); },
      [](const Value& x, const Value&, const Value& dx) { return dx / x; },
      samples::both(samples::unary(0.1, 4, samples::all_floats), samples::unary(0.5, 2, samples::complexes)),
      loops::with(pointwise_traits, loops::same<loops::floating>));
  return op;
}

const Primitive& primitives::log1p() {
  static const Primitive op = pointwise::of_inexact(
      "log1p", log1p, [](auto x) { return of_one_more(x); },
      [](const Value& x, const Value&, const Value& dx) { return dx / (x + 1); },
      samples::both(samples::inexact(-0.8, 3), samples::inexact(-1e-4, 1e-4)),
      loops::with(pointwise_traits, loops::same<loops::floating>));
  return op;
}

const Primitive& primitives::log2() {
  static const Primitive op = pointwise::of_floats(
      "log2", log2, [](double x) { return std::log2(x); },
      [](const Value& x, const Value&, const Value& dx) { return dx / (x * std::numbers::ln2); },
      samples::unary(0.1, 4, samples::all_floats));
  return op;
}

const Primitive& primitives::logistic() {
  static const Primitive op = pointwise::of_inexact(
      "logistic", logistic, [](auto x) { return 1.0 / (1.0 + std::exp(-x)); },
      [](const Value& x, const Value& y, const Value& dx) {
        return dx * (is_complex(x.dtype()) ? y * (1.0 - y) : slopes::logistic(x));
      },
      samples::both(samples::unary(-6, 6), samples::unary(-2, 2, samples::complexes)),
      loops::with(pointwise_traits, loops::same<loops::floating>));
  return op;
}

const Primitive& primitives::pow() {
  static const Primitive op{
      .name = "pow",
      .infer = infer::same_shape(infer::inexact, 2),
      .derivative = derivative::per_operand({pow_base, pow_exponent}),
      .batch = batch::pointwise(pow),
      .reference = reference::binary<double, Complex>([](auto x, auto y) { return base_to_power(x, y); }),
      .samples = samples::both(samples::elementwise({{0.2, 3}, {-2, 3}}),
                               samples::elementwise({{0.2, 2}, {-1, 1}}, samples::complexes)),
      .error_samples = samples::elementwise_errors(2, DType::float32, DType::int32),
      .traits = pointwise_traits};
  return op;
}

}  // namespace lockstep::ops
