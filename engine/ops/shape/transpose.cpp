#include <algorithm>

#include "engine/core/lists.h"
#include "engine/ops/rules/define.h"
#include "engine/ops/rules/layout.h"

namespace lockstep::ops {

namespace {

std::vector<ArrayType> transpose_infer(const ir::InferContext& context) {
  infer::expect_operands(context, 1);
  const Shape& x = context.inputs[0].shape;
  infer::list_attr(context, "permutation", x.rank());
  Shape result;
  for (const std::int64_t dim : infer::dims_attr(context, "permutation", x.rank())) {
    result.append(x[static_cast<int>(dim)]);
  }
  return {{context.inputs[0].dtype, result, {}}};
}

Dims inverse(const Dims& permutation) {
  Dims result(permutation.size());
  for (std::size_t i = 0; i < permutation.size(); ++i) {
    nth(result, permutation[i]) = static_cast<std::int64_t>(i);
  }
  return result;
}

std::int64_t transpose_source(const ir::ReferenceContext& context, const reference::Index& index) {
  const auto& permutation = context.attrs.get<Dims>("permutation");
  reference::Index from(index.size());
  for (std::size_t i = 0; i < index.size(); ++i) nth(from, permutation[i]) = index[i];
  return reference::offset(context.inputs[0].type.shape, from);
}

std::vector<ir::Sample> transpose_samples() {
  std::vector<ir::Sample> result;
  for (const DType dtype : {DType::float64, DType::float32, DType::bfloat16, DType::int32, DType::bool_, DType::key}) {
    const auto add = [&](const Shape& shape, const Dims& permutation) {
      result.push_back({{samples::input(dtype, shape, {0, 2})}, {{"permutation", permutation}}, {}});
    };
    add(Shape{2, 3}, {1, 0});
    add(Shape{2, 3, 4}, {2, 0, 1});
    add(Shape{2, 1, 3, 2}, {0, 3, 2, 1});
    add(Shape{}, {});
    add(Shape{0, 3}, {1, 0});
  }
  return result;
}

bool is_ascending(const Dims& permutation) { return std::ranges::is_sorted(permutation); }

ir::View transposed_view(const Attrs& attrs, const Shape&, std::span<const std::int64_t> strides) {
  ir::View view;
  std::size_t d = 0;
  for (const std::int64_t from : attrs.get<Dims>("permutation")) {
    view.strides[d++] = nth(strides, from);
  }
  return view;
}

ir::LayoutRule transpose_layout() {
  return {.factors = [](const ir::LayoutContext& context) {
    ir::Factors factors;
    const ir::FactorDims from = layout::own_dims(factors, context.inputs[0].shape);
    ir::FactorDims to;
    for (const std::int64_t d : context.attrs.get<Dims>("permutation")) to.push_back(from[static_cast<std::size_t>(d)]);
    factors.operands = {from};
    factors.results = {to};
    return factors;
  }};
}

}  // namespace

const Primitive& primitives::transpose() {
  static const Primitive op{
      .name = "transpose",
      .infer = transpose_infer,
      .derivative = derivative::linear_in_one(
          0, [](const TransposeContext& context,
                const Value& ct) { return ops::transpose(ct, inverse(context.attrs.get<Dims>("permutation"))); }),
      .batch = batch::leading(
          transpose,
          [](const ir::BatchContext& context) -> Attrs {
            return {{"permutation", batch::prepended(0, batch::shifted(context.attrs.get<Dims>("permutation")))}};
          }),
      .reference = reference::moves(transpose_source),
      .samples = transpose_samples,
      .error_samples = samples::errors(
          {{{{DType::float32, Shape{2, 3}, {}}}, {{"permutation", Dims{0}}}, "expected 2 numbers in permutation", {}},
           {{{DType::float32, Shape{2, 3}, {}}}, {{"permutation", Dims{0, 0}}}, "expected distinct permutation", {}},
           {{{DType::float32, Shape{2, 3}, {}}}, {{"permutation", Dims{0, 2}}}, "in [0, 2)", {}}}),
      .traits = {.moves = ir::Moves::elsewhere},
      .equal_to =
          algebra::operand_where([](const Attrs& attrs) { return is_ascending(attrs.get<Dims>("permutation")); }),
      .compose =
          [](const Attrs& outer, const Attrs& inner) {
            return outer.with("permutation",
                              algebra::composed(inner.get<Dims>("permutation"), outer.get<Dims>("permutation")));
          },
      .view = transposed_view,
      .layout = transpose_layout()};
  return op;
}

}  // namespace lockstep::ops
