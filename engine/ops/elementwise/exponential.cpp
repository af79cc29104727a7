#include <cmath>
#include <numbers>

#include "engine/ops/rules/define.h"

namespace lockstep::ops {

namespace {

/// Halley's iteration from Winitzki's approximation; the residual is taken on erfc, exact near +-1.
double inverse_erf(double x) {
  const double magnitude = std::abs(x);
  if (std::isnan(x) || magnitude > 1) return std::numeric_limits<double>::quiet_NaN();
  if (magnitude == 1) return std::copysign(std::numeric_limits<double>::infinity(), x);
  if (magnitude == 0) return x;
  const double a = 0.147;
  const double logarithm = std::log1p(-magnitude * magnitude);
  const double middle = 2 / (std::numbers::pi * a) + logarithm / 2;
  double y = std::sqrt(std::sqrt(middle * middle - logarithm / a) - middle);
  if (magnitude < 1e-3) y = magnitude * std::sqrt(std::numbers::pi) / 2;
  for (int step = 0; step < 4; ++step) {
    const double residual = magnitude < 0.5 ? std::erf(y) - magnitude : (1 - magnitude) - std::erfc(y);
    const double slope = 2 * std::numbers::inv_sqrtpi * std::exp(-y * y);
    const double newton = residual / slope;
    y -= newton / (1 + y * newton);
  }
  return std::copysign(y, x);
}

Tangent pow_base(const JvpContext& context, const Value& dx) {
  const Value &x = context.inputs[0], &y = context.inputs[1];
  const Value flat = equal(y, full_like(y, 0));
  const Value exponent = select(flat, full_like(y, 1), y - full_like(y, 1));
  return dx * select(flat, full_like(y, 0), y * pow(x, exponent));
}

Tangent pow_exponent(const JvpContext& context, const Value& dy) {
  const Value& x = context.inputs[0];
  const Value safe = select(equal(x, full_like(x, 0)), full_like(x, 1), x);
  return dy * (log(safe) * context.outputs[0]);
}

}  // namespace

const Primitive& primitives::exp() {
  static const Primitive op{
      .name = "exp",
      .infer = infer::same_shape(infer::inexact),
      .derivative = derivative::unary([](const Value&, const Value& y, const Value& dx) { return dx * y; }),
      .batch = batch::pointwise(exp),
      .reference = reference::unary<double, Complex>([](auto x) { return std::exp(x); }),
      .samples = samples::both(samples::unary(-3, 3, samples::all_floats), samples::unary(-1, 1, {DType::complex64})),
      .error_samples = samples::elementwise_errors(1, DType::float32, DType::int32),
      .traits = pointwise_traits};
  return op;
}

const Primitive& primitives::expm1() {
  static const Primitive op{
      .name = "expm1",
      .infer = infer::same_shape(infer::floating),
      .derivative = derivative::unary([](const Value&, const Value& y, const Value& dx) { return dx * (y + 1); }),
      .batch = batch::pointwise(expm1),
      .reference = reference::unary<double>([](double x) { return std::expm1(x); }),
      .samples = samples::both(samples::unary(-2, 2), samples::unary(-1e-4, 1e-4)),
      .error_samples = samples::elementwise_errors(1, DType::float32, DType::int32),
      .traits = pointwise_traits};
  return op;
}

const Primitive& primitives::log() {
  static const Primitive op{
      .name = "log",
      .infer = infer::same_shape(infer::inexact),
      .derivative = derivative::unary([](const Value& x, const Value&, const Value& dx) { return dx / x; }),
      .batch = batch::pointwise(log),
      .reference = reference::unary<double, Complex>([](auto x) { return std::log(x); }),
      .samples = samples::both(samples::unary(0.1, 4, samples::all_floats), samples::unary(0.5, 2, {DType::complex64})),
      .error_samples = samples::elementwise_errors(1, DType::float32, DType::int32),
      .traits = pointwise_traits};
  return op;
}

const Primitive& primitives::log1p() {
  static const Primitive op{
      .name = "log1p",
      .infer = infer::same_shape(infer::floating),
      .derivative = derivative::unary([](const Value& x, const Value&, const Value& dx) { return dx / (x + 1); }),
      .batch = batch::pointwise(log1p),
      .reference = reference::unary<double>([](double x) { return std::log1p(x); }),
      .samples = samples::both(samples::unary(-0.8, 3), samples::unary(-1e-4, 1e-4)),
      .error_samples = samples::elementwise_errors(1, DType::float32, DType::int32),
      .traits = pointwise_traits};
  return op;
}

const Primitive& primitives::log2() {
  static const Primitive op{.name = "log2",
                            .infer = infer::same_shape(infer::floating),
                            .derivative = derivative::unary([](const Value& x, const Value&, const Value& dx) {
                              return dx / (x * std::numbers::ln2);
                            }),
                            .batch = batch::pointwise(log2),
                            .reference = reference::unary<double>([](double x) { return std::log2(x); }),
                            .samples = samples::unary(0.1, 4, samples::all_floats),
                            .error_samples = samples::elementwise_errors(1, DType::float32, DType::int32),
                            .traits = pointwise_traits};
  return op;
}

const Primitive& primitives::logistic() {
  static const Primitive op{.name = "logistic",
                            .infer = infer::same_shape(infer::floating),
                            .derivative = derivative::unary(
                                [](const Value&, const Value& y, const Value& dx) { return dx * (y * (1.0 - y)); }),
                            .batch = batch::pointwise(logistic),
                            .reference = reference::unary<double>([](double x) { return 1 / (1 + std::exp(-x)); }),
                            .samples = samples::unary(-6, 6),
                            .error_samples = samples::elementwise_errors(1, DType::float32, DType::int32),
                            .traits = pointwise_traits};
  return op;
}

const Primitive& primitives::sqrt() {
  static const Primitive op{.name = "sqrt",
                            .infer = infer::same_shape(infer::inexact),
                            .derivative = derivative::unary([](const Value&, const Value& y, const Value& dx) {
                              return dx * (full_like(y, 0.5) / y);
                            }),
                            .batch = batch::pointwise(sqrt),
                            .reference = reference::unary<double, Complex>([](auto x) { return std::sqrt(x); }),
                            .samples = samples::unary(0.2, 4, samples::all_floats),
                            .error_samples = samples::elementwise_errors(1, DType::float32, DType::int32),
                            .traits = pointwise_traits};
  return op;
}

const Primitive& primitives::rsqrt() {
  static const Primitive op{.name = "rsqrt",
                            .infer = infer::same_shape(infer::floating),
                            .derivative = derivative::unary(
                                [](const Value& x, const Value& y, const Value& dx) { return dx * ((y / x) * -0.5); }),
                            .batch = batch::pointwise(rsqrt),
                            .reference = reference::unary<double>([](double x) { return 1 / std::sqrt(x); }),
                            .samples = samples::unary(0.2, 4),
                            .error_samples = samples::elementwise_errors(1, DType::float32, DType::int32),
                            .traits = pointwise_traits};
  return op;
}

const Primitive& primitives::pow() {
  static const Primitive op{.name = "pow",
                            .infer = infer::same_shape(infer::floating, 2),
                            .derivative = derivative::per_operand({pow_base, pow_exponent}),
                            .batch = batch::pointwise(pow),
                            .reference = reference::binary<double>([](double x, double y) { return std::pow(x, y); }),
                            .samples = samples::elementwise({{0.2, 3}, {-2, 3}}),
                            .error_samples = samples::elementwise_errors(2, DType::float32, DType::int32),
                            .traits = pointwise_traits};
  return op;
}

const Primitive& primitives::erf() {
  static const Primitive op{.name = "erf",
                            .infer = infer::same_shape(infer::floating),
                            .derivative = derivative::unary([](const Value& x, const Value&, const Value& dx) {
                              return dx * (ops::exp(-(x * x)) * (2 * std::numbers::inv_sqrtpi));
                            }),
                            .batch = batch::pointwise(erf),
                            .reference = reference::unary<double>([](double x) { return std::erf(x); }),
                            .samples = samples::unary(-3, 3),
                            .error_samples = samples::elementwise_errors(1, DType::float32, DType::int32),
                            .traits = pointwise_traits};
  return op;
}

const Primitive& primitives::erf_inv() {
  static const Primitive op{
      .name = "erf_inv",
      .infer = infer::same_shape(infer::floating),
      .derivative = derivative::unary([](const Value&, const Value& y, const Value& dx) {
        return dx * (ops::exp(y * y) * (0.5 / std::numbers::inv_sqrtpi));
      }),
      .batch = batch::pointwise(erf_inv),
      .reference = reference::unary<double>(inverse_erf),
      .samples = samples::both(samples::unary(-0.9, 0.9), samples::unary(0.999, 0.9999, {DType::float32})),
      .error_samples = samples::elementwise_errors(1, DType::float32, DType::int32),
      .traits = pointwise_traits};
  return op;
}

}  // namespace lockstep::ops
