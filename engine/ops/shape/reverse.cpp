#include <algorithm>

#include "engine/ops/rules/define.h"
#include "engine/ops/rules/layout.h"

namespace lockstep::ops {

namespace {

std::vector<ArrayType> reverse_infer(const ir::InferContext& context) {
  infer::expect_operands(context, 1);
  infer::dims_attr(context, "dims", context.inputs[0].shape.rank());
  return {{context.inputs[0].dtype, context.inputs[0].shape, {}}};
}

std::int64_t reverse_source(const ir::ReferenceContext& context, const reference::Index& index) {
  const Shape& x = context.inputs[0].type.shape;
  reference::Index from = index;
  for (const std::int64_t dim : context.attrs.get<Dims>("dims")) {
    const auto d = static_cast<std::size_t>(dim);
    from[d] = x[static_cast<int>(dim)] - 1 - index[d];
  }
  return reference::offset(x, from);
}

std::vector<ir::Sample> reverse_samples() {
  std::vector<ir::Sample> result;
  for (const DType dtype : {DType::float64, DType::float32, DType::bfloat16, DType::int32, DType::bool_, DType::key}) {
    const auto add = [&](const Shape& shape, const Dims& dims) {
      result.push_back({{samples::input(dtype, shape, {0, 2})}, {{"dims", dims}}, {}});
    };
    add(Shape{5}, {0});
    add(Shape{2, 3}, {1});
    add(Shape{2, 3, 2}, {0, 2});
    add(Shape{1}, {0});
    add(Shape{0, 2}, {0, 1});
    add(Shape{}, {});
  }
  return result;
}

ir::Factors reverse_factors(const ir::LayoutContext& context) {
  ir::Factors factors;
  const Shape& x = context.inputs[0].shape;
  const auto& reversed = context.attrs.get<Dims>("dims");
  ir::FactorDims dims;
  for (int d = 0; d < x.rank(); ++d) {
    const bool is_whole = std::ranges::find(reversed, d) != reversed.end();
    dims.push_back({factors.add(x[d], is_whole ? ir::Factor::Kind::whole : ir::Factor::Kind::sum)});
  }
  factors.operands = factors.results = {dims};
  return factors;
}

}  // namespace

const Primitive& primitives::reverse() {
  static const Primitive op{
      .name = "reverse",
      .infer = reverse_infer,
      .derivative = derivative::linear_in_one(0,
                                              [](const TransposeContext& context, const Value& ct) {
                                                return apply_one(primitives::reverse(), {ct}, context.attrs);
                                              }),
      .batch = batch::reducer(reverse, "dims"),
      .reference = reference::moves(reverse_source),
      .samples = reverse_samples,
      .error_samples = samples::errors(
          {{{{DType::float32, Shape{2}, {}}}, {{"dims", Dims{1}}}, "distinct dims in [0, 1)", {}},
           {{{DType::float32, Shape{2, 2}, {}}}, {{"dims", Dims{1, 1}}}, "expected distinct dims", {}}}),
      .traits = {.moves = ir::Moves::elsewhere},
      .equal_to = algebra::operand_where([](const Attrs& attrs) { return attrs.get<Dims>("dims").empty(); }),
      .layout = {.factors = reverse_factors}};
  return op;
}

}  // namespace lockstep::ops
