#include <cmath>

#include "engine/ops/rules/define.h"

namespace lockstep::ops {

const Primitive& primitives::sin() {
  static const Primitive op{
      .name = "sin",
      .infer = infer::same_shape(infer::inexact),
      .derivative = derivative::unary([](const Value& x, const Value&, const Value& dx) { return dx * ops::cos(x); }),
      .batch = batch::pointwise(sin),
      .reference = reference::unary<double, Complex>([](auto x) { return std::sin(x); }),
      .samples = samples::unary(-4, 4),
      .error_samples = samples::elementwise_errors(1, DType::float32, DType::int32),
      .traits = pointwise_traits};
  return op;
}

const Primitive& primitives::cos() {
  static const Primitive op{
      .name = "cos",
      .infer = infer::same_shape(infer::inexact),
      .derivative = derivative::unary([](const Value& x, const Value&, const Value& dx) { return dx * -ops::sin(x); }),
      .batch = batch::pointwise(cos),
      .reference = reference::unary<double, Complex>([](auto x) { return std::cos(x); }),
      .samples = samples::unary(-4, 4),
      .error_samples = samples::elementwise_errors(1, DType::float32, DType::int32),
      .traits = pointwise_traits};
  return op;
}

const Primitive& primitives::tanh() {
  static const Primitive op{
      .name = "tanh",
      .infer = infer::same_shape(infer::inexact),
      .derivative = derivative::unary([](const Value&, const Value& y, const Value& dx) { return dx * (1.0 - y * y); }),
      .batch = batch::pointwise(tanh),
      .reference = reference::unary<double, Complex>([](auto x) { return std::tanh(x); }),
      .samples = samples::unary(-3, 3, samples::all_floats),
      .error_samples = samples::elementwise_errors(1, DType::float32, DType::int32),
      .traits = pointwise_traits};
  return op;
}

}  // namespace lockstep::ops
