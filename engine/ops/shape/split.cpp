#include <algorithm>
#include <numeric>

#include "engine/core/checked_sizes.h"
#include "engine/ops/rules/define.h"
#include "engine/ops/rules/layout.h"

namespace lockstep::ops {

namespace {

std::vector<ArrayType> split_infer(const ir::InferContext& context) {
  infer::expect_operands(context, 1);
  const ArrayType& x = context.inputs[0];
  const int dim = static_cast<int>(infer::index_attr(context, "dim", x.shape.rank()));
  const auto& sizes = infer::list_attr(context, "sizes");
  std::int64_t sum = 0;
  for (const std::int64_t size : sizes) sum = checked_sum(sum, size, context.op);
  const bool fits = std::ranges::all_of(sizes, [](std::int64_t size) { return size >= 0; }) && sum == x.shape[dim];
  if (!fits || sizes.empty()) {
    infer::shape_error(context, "sizes of 0 or more whose sum is " + std::to_string(x.shape[dim]),
                       "say how long each part is along dimension " + std::to_string(dim));
  }
  std::vector<ArrayType> parts;
  for (const std::int64_t size : sizes) parts.push_back({x.dtype, x.shape.with(dim, size), {}});
  return parts;
}

std::vector<Tangent> split_transpose(const TransposeContext& context) {
  std::vector<Value> parts;
  for (std::size_t i = 0; i < context.cotangents.size(); ++i) {
    parts.push_back(derivative::or_zeros(context.builder, context.cotangents[i], context.output_types[i]));
  }
  return {concatenate(parts, static_cast<int>(context.attrs.get<std::int64_t>("dim")))};
}

void split_reference(const ir::ReferenceContext& context) {
  const auto dim = static_cast<std::size_t>(context.attrs.get<std::int64_t>("dim"));
  const ir::ReferenceArray& x = context.inputs[0];
  std::int64_t start = 0;
  for (ir::ReferenceArray& part : context.outputs) {
    std::int64_t i = 0;
    reference::for_each_index(part.type.shape, [&](const reference::Index& index) {
      reference::Index from = index;
      from[dim] += start;
      reference::copy_element(x, reference::offset(x.type.shape, from), part, i++);
    });
    start += part.type.shape[static_cast<int>(dim)];
  }
}

Attrs split_attrs(std::int64_t dim, const Dims& sizes) { return {{"dim", dim}, {"sizes", sizes}}; }

std::vector<ir::Sample> split_samples() {
  std::vector<ir::Sample> result;
  for (const DType dtype : {DType::float64, DType::float32, DType::bfloat16, DType::int32, DType::bool_, DType::key}) {
    const auto add = [&](const Shape& shape, std::int64_t dim, const Dims& sizes) {
      result.push_back({{samples::input(dtype, shape, {0, 2})}, split_attrs(dim, sizes), {}});
    };
    add(Shape{5}, 0, {2, 3});
    add(Shape{2, 6}, 1, {3, 1, 2});
    add(Shape{4, 3}, 0, {1, 0, 3});
    add(Shape{0, 2}, 1, {1, 1});
    add(Shape{1}, 0, {1});
  }
  return result;
}

const std::vector<ArrayType> split_operands = {{DType::float32, Shape{5}, {}}};

}  // namespace

const Primitive& primitives::split() {
  static const Primitive op{
      .name = "split",
      .infer = split_infer,
      .derivative = derivative::linear(split_transpose, {0}),
      .batch = batch::along(split, "dim"),
      .reference = split_reference,
      .samples = split_samples,
      .error_samples = samples::errors({{split_operands, split_attrs(0, {2, 2}), "whose sum is 5", {}},
                                        {split_operands, split_attrs(0, {6, -1}), "sizes of 0 or more", {}},
                                        {split_operands, split_attrs(1, {5}), "expected dim in [0, 1)", {}}}),
      .traits = {.moves = ir::Moves::apart},
      .layout = layout::along("dim")};
  return op;
}

}  // namespace lockstep::ops
