#include <algorithm>

#include "engine/ops/rules/define.h"
#include "engine/ops/rules/layout.h"

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

/// The factors that both shapes are made of: dimensions that are equal, split or merged. Where neither extent divides the
/// other, all up to where they meet again are whole.
ir::Factors reshape_factors(const ir::LayoutContext& context) {
  ir::Factors factors;
  const std::array<Shape, 2> shapes = {context.inputs[0].shape, context.outputs[0].shape};
  std::array<ir::FactorDims, 2> dims = {ir::FactorDims(static_cast<std::size_t>(shapes[0].rank())),
                                        ir::FactorDims(static_cast<std::size_t>(shapes[1].rank()))};
  std::array<int, 2> at = {0, 0};
  std::array<std::int64_t, 2> left = {1, 1};
  const auto refill = [&](std::size_t side) {  // the next dimension that is not used up
    while (left[side] == 1 && at[side] < shapes[side].rank()) left[side] = shapes[side][at[side]++];
    return left[side] > 1;
  };
  const auto give = [&](std::size_t side, int factor) {
    dims[side][static_cast<std::size_t>(at[side]) - 1].push_back(factor);
  };
  if (shapes[0].size() == 0) {
    factors.operands = {layout::own_dims(factors, shapes[0], layout::Kind::whole)};
    factors.results = {layout::own_dims(factors, shapes[1], layout::Kind::whole)};
    return factors;
  }
  while (refill(0) && refill(1)) {
    const std::int64_t common = std::min(left[0], left[1]);
    if (std::max(left[0], left[1]) % common == 0) {
      const int factor = factors.add(common);
      for (const std::size_t side : {0, 1}) {
        give(side, factor);
        left[side] /= common;
      }
      continue;
    }
    while (left[0] != left[1]) {  // what has begun to run apart is whole until it meets
      const std::size_t side = left[0] < left[1] ? 0 : 1;
      give(side, factors.add(2, layout::Kind::whole));
      const std::int64_t before = left[side];
      left[side] = 1;
      refill(side);
      left[side] *= before;
    }
    for (const std::size_t side : {0, 1}) {
      give(side, factors.add(2, layout::Kind::whole));
      left[side] = 1;
    }
  }
  factors.operands = {dims[0]};
  factors.results = {dims[1]};
  return factors;
}

ir::LayoutRule reshape_layout() {
  return {.factors = reshape_factors,
          .attrs = [](const ir::BlockContext& context) { return layout::with_block_shape(context, "shape"); }};
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
      .compose = [](const Attrs& outer, const Attrs&) { return outer; },
      .layout = reshape_layout()};
  return op;
}

}  // namespace lockstep::ops
