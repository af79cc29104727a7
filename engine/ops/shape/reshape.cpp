#include "engine/ops/rules/define.h"

namespace lockstep::ops {

namespace {

std::vector<ArrayType> reshape_infer(const ir::InferContext& context) {
  infer::expect_operands(context, 1);
  const Shape shape = infer::shape_attr(context, "shape");
  if (shape.size() != context.inputs[0].size()) {
    infer::shape_error(context, std::to_string(context.inputs[0].size()) + " elements, as the operand has",
                       "give a shape of " + std::to_string(context.inputs[0].size()) + " elements");
  }
  return {{context.inputs[0].dtype, shape, {}}};
}

std::vector<ir::Sample> reshape_samples() {
  std::vector<ir::Sample> result;
  for (const DType dtype : {DType::float64, DType::float32, DType::bfloat16, DType::int32, DType::bool_, DType::key}) {
    const auto add = [&](const Shape& from, const Dims& to) {
      result.push_back({{samples::input(dtype, from, {0, 2})}, {{"shape", to}}, {}});
    };
    add(Shape{2, 3}, {3, 2});
    add(Shape{6}, {2, 1, 3});
    add(Shape{}, {1, 1});
    add(Shape{1}, {});
    add(Shape{0, 3}, {2, 0});
  }
  return result;
}

}  // namespace

const Primitive& primitives::reshape() {
  static const Primitive op{
      .name = "reshape",
      .infer = reshape_infer,
      .derivative =
          derivative::linear_in_one(0, [](const TransposeContext& context,
                                          const Value& ct) { return ops::reshape(ct, context.input_types[0].shape); }),
      .batch = batch::leading(reshape,
                              [](const ir::BatchContext& context) -> Attrs {
                                return {{"shape", batch::prepended(context.size, context.attrs.get<Dims>("shape"))}};
                              }),
      .reference = reference::copies(),
      .samples = reshape_samples,
      .error_samples = samples::errors(
          {{{{DType::float32, Shape{2, 3}, {}}}, {{"shape", Dims{4}}}, "expected 6 elements", {}},
           {{{DType::float32, Shape{2, 3}, {}}}, {{"shape", Dims{-1, 3}}}, "extents of 0 or more", {}}}),
      .traits = {.moves = ir::Moves::in_place},
      .compose = [](const Attrs& outer, const Attrs&) { return outer; }};
  return op;
}

}  // namespace lockstep::ops
