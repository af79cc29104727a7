#include <lockstep/backend/special_functions.h>

#include "engine/ops/elementwise/slopes.h"
#include "engine/ops/rules/define.h"

namespace lockstep::ops {

namespace {

Value hyp2f1_of(const Value& a, const Value& b, const Value& c, const Value& x) {
  return apply_one(primitives::hyp2f1(), {a, b, c, x});
}

void hyp2f1_reference(const ir::ReferenceContext& context) {
  const auto element = [&](std::size_t operand, std::int64_t i) {
    return reference::load<double>(context.inputs[operand], i);
  };
  for (std::int64_t i = 0; i < context.outputs[0].type.size(); ++i) {
    reference::store(context.outputs[0], i,
                     backend::special::hyp2f1(element(0, i), element(1, i), element(2, i), element(3, i)));
  }
}

}  // namespace

const Primitive& primitives::hyp1f1() {
  static const Primitive op{
      .name = "hyp1f1",
      .infer = infer::same_shape(infer::floating, 3),
      .derivative = derivative::per_operand({derivative::refused("hyp1f1", "a"), derivative::refused("hyp1f1", "b"),
                                             [](const JvpContext& context, const Value& dx) -> Tangent {
                                               const Value &a = context.inputs[0], &b = context.inputs[1];
                                               return dx * (a / b * ops::hyp1f1(a + 1, b + 1, context.inputs[2]));
                                             }}),
      .batch = batch::pointwise(hyp1f1),
      .reference = reference::ternary<double>(backend::special::hyp1f1),
      .samples = samples::both(samples::elementwise({{0.3, 3}, {0.5, 4}, {-3, 3}}, samples::all_floats),
                               samples::elementwise({{-2.9, -2.1}, {1.2, 2}, {4, 9}})),
      .error_samples = samples::elementwise_errors(3, DType::float32, DType::int32),
      .traits = pointwise_traits};
  return op;
}

const Primitive& primitives::hyp2f1() {
  static const Primitive op{
      .name = "hyp2f1",
      .infer = infer::same_shape(infer::floating, 4),
      .derivative = derivative::per_operand(
          {derivative::refused("hyp2f1", "a"), derivative::refused("hyp2f1", "b"), derivative::refused("hyp2f1", "c"),
           [](const JvpContext& context, const Value& dx) -> Tangent {
             const Value &a = context.inputs[0], &b = context.inputs[1], &c = context.inputs[2];
             return dx * (a * b / c * hyp2f1_of(a + 1, b + 1, c + 1, context.inputs[3]));
           }}),
      .batch = batch::pointwise(hyp2f1),
      .reference = hyp2f1_reference,
      .samples = samples::both(samples::elementwise({{0.3, 3}, {0.3, 3}, {0.5, 5}, {-0.7, 0.8}}, samples::all_floats),
                               samples::elementwise({{0.3, 2}, {-2.9, -2.1}, {4, 5}, {-3, -1.2}})),
      .error_samples = samples::elementwise_errors(4, DType::float32, DType::int32),
      .traits = pointwise_traits};
  return op;
}

}  // namespace lockstep::ops
