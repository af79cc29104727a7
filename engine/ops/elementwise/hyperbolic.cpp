#include <cmath>

#include "engine/ops/elementwise/slopes.h"
#include "engine/ops/rules/pointwise.h"

namespace lockstep::ops {

const Primitive& primitives::sinh() {
  static const Primitive op = pointwise::of_inexact(
      "sinh", sinh, [](auto x) { return std::sinh(x); },
      [](const Value& x, const Value&, const Value& dx) { return dx * ops::cosh(x); }, samples::inexact(-3, 3));
  return op;
}

const Primitive& primitives::cosh() {
  static const Primitive op = pointwise::of_inexact(
      "cosh", cosh, [](auto x) { return std::cosh(x); },
      [](const Value& x, const Value&, const Value& dx) { return dx * ops::sinh(x); }, samples::inexact(-3, 3));
  return op;
}

const Primitive& primitives::tanh() {
  static const Primitive op = pointwise::of_inexact(
      "tanh", tanh, [](auto x) { return std::tanh(x); },
      [](const Value& x, const Value& y, const Value& dx) {
        return dx * (is_complex(x.dtype()) ? 1.0 - y * y : slopes::tanh(x, y));
      },
      samples::both(samples::unary(-3, 3, samples::all_floats), samples::unary(-1, 1, samples::complexes)),
      loops::with(pointwise_traits, loops::same<loops::floating>));
  return op;
}

const Primitive& primitives::asinh() {
  static const Primitive op = pointwise::of_inexact(
      "asinh", asinh, [](auto x) { return std::asinh(x); },
      [](const Value& x, const Value&, const Value& dx) {
        return dx * (is_complex(x.dtype()) ? ops::rsqrt(x * x + 1) : slopes::asinh(x));
      },
      samples::both(samples::unary(-4, 4), samples::unary(-0.7, 0.7, samples::complexes)));
  return op;
}

const Primitive& primitives::acosh() {
  static const Primitive op = pointwise::of_inexact(
      "acosh", acosh, [](auto x) { return std::acosh(x); },
      [](const Value& x, const Value&, const Value& dx) {
        // One root of the product would leave the principal branch.
        return dx * (ops::rsqrt(x + full_like(x, -1)) * ops::rsqrt(x + 1));
      },
      samples::inexact(1.2, 4));
  return op;
}

const Primitive& primitives::atanh() {
  static const Primitive op = pointwise::of_inexact(
      "atanh", atanh, [](auto x) { return std::atanh(x); },
      [](const Value& x, const Value&, const Value& dx) {
        // A slope other than 0 at the ends, where it meets an infinity.
        return dx / (is_complex(x.dtype()) ? (1.0 - x) * (x + 1) : ops::fma(-x, x, full_like(x, 1)));
      },
      samples::inexact(-0.7, 0.7));
  return op;
}

}  // namespace lockstep::ops
