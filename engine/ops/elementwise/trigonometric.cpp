#include <cmath>

#include "engine/ops/elementwise/slopes.h"
#include "engine/ops/rules/pointwise.h"

namespace lockstep::ops {

namespace {

/// Rounded once, and with a slope other than 0 at the ends, where it meets an infinity.
Value one_minus_square(const Value& x) {
  return is_complex(x.dtype()) ? (1.0 - x) * (x + 1) : fma(-x, x, full_like(x, 1));
}

/// part / (x^2 + y^2), both divided by the larger one first: squares may leave the range where the quotient does not. The
/// divisor is a constant to derivatives: the quotient does not depend on it.
Value over_square(const Value& part, const Value& y, const Value& x) {
  const DType dtype = x.dtype();
  if (is_narrow_float(dtype)) {
    const auto wide = [](const Value& v) { return convert(v, DType::float32); };
    return convert(over_square(wide(part), wide(y), wide(x)), dtype);
  }
  const Value larger = maximum(abs(x), abs(y));
  const Value ordinary = bitwise_and(is_finite(larger), greater(larger, full_like(larger, 0)));
  const Value scale = stop_gradient(select(ordinary, larger, full_like(larger, 1)));
  const Value a = x / scale, b = y / scale;
  return part / scale / (a * a + b * b) / scale;
}

Tangent atan2_y(const JvpContext& context, const Value& dy) {
  const Value &y = context.inputs[0], &x = context.inputs[1];
  return dy * over_square(x, y, x);
}

Tangent atan2_x(const JvpContext& context, const Value& dx) {
  const Value &y = context.inputs[0], &x = context.inputs[1];
  return dx * over_square(-y, y, x);
}

}  // namespace

const Primitive& primitives::sin() {
  static const Primitive op = pointwise::of_inexact(
      "sin", sin, [](auto x) { return std::sin(x); },
      [](const Value& x, const Value&, const Value& dx) { return dx * ops::cos(x); }, samples::inexact(-4, 4));
  return op;
}

const Primitive& primitives::cos() {
  static const Primitive op = pointwise::of_inexact(
      "cos", cos, [](auto x) { return std::cos(x); },
      [](const Value& x, const Value&, const Value& dx) { return dx * -ops::sin(x); }, samples::inexact(-4, 4));
  return op;
}

const Primitive& primitives::tan() {
  static const Primitive op = pointwise::of_inexact(
      "tan", tan, [](auto x) { return std::tan(x); },
      [](const Value&, const Value& y, const Value& dx) { return dx * (y * y + 1); }, samples::inexact(-1.3, 1.3));
  return op;
}

const Primitive& primitives::asin() {
  static const Primitive op = pointwise::of_inexact(
      "asin", asin, [](auto x) { return std::asin(x); },
      [](const Value& x, const Value&, const Value& dx) { return dx * ops::rsqrt(one_minus_square(x)); },
      samples::inexact(-0.9, 0.9));
  return op;
}

const Primitive& primitives::acos() {
  static const Primitive op = pointwise::of_inexact(
      "acos", acos, [](auto x) { return std::acos(x); },
      [](const Value& x, const Value&, const Value& dx) { return dx * -ops::rsqrt(one_minus_square(x)); },
      samples::inexact(-0.9, 0.9));
  return op;
}

const Primitive& primitives::atan() {
  static const Primitive op = pointwise::of_inexact(
      "atan", atan, [](auto x) { return std::atan(x); },
      [](const Value& x, const Value&, const Value& dx) {
        return is_complex(x.dtype()) ? dx / (x * x + 1) : dx * slopes::atan(x);
      },
      samples::both(samples::unary(-4, 4, samples::all_floats), samples::unary(-0.7, 0.7, samples::complexes)));
  return op;
}

const Primitive& primitives::atan2() {
  static const Primitive op{.name = "atan2",
                            .infer = infer::same_shape(infer::floating, 2),
                            .derivative = derivative::per_operand({atan2_y, atan2_x}),
                            .batch = batch::pointwise(atan2),
                            .reference = reference::binary<double>([](double y, double x) { return std::atan2(y, x); }),
                            .samples = samples::elementwise({{-2, 2}, {0.2, 2}}, samples::all_floats),
                            .error_samples = samples::elementwise_errors(2, DType::float32, DType::int32),
                            .traits = pointwise_traits};
  return op;
}

}  // namespace lockstep::ops
