#include "engine/core/checked_sizes.h"
#include "engine/core/lists.h"
#include "engine/ops/rules/define.h"
#include "engine/ops/rules/layout.h"

namespace lockstep::ops {

namespace {

std::vector<ArrayType> concatenate_infer(const ir::InferContext& context) {
  infer::expect_at_least(context, 1);
  infer::expect_same_dtype(context);
  const Shape& first = context.inputs[0].shape;
  const int dim = static_cast<int>(infer::index_attr(context, "dim", first.rank()));
  std::int64_t extent = 0;
  for (const ArrayType& type : context.inputs) {
    if (type.shape.rank() != first.rank() || type.shape.with(dim, 0) != first.with(dim, 0)) {
      infer::shape_error(context, "shapes equal but for dimension " + std::to_string(dim),
                         "slice, pad or reshape the one that differs");
    }
    extent = checked_sum(extent, type.shape[dim], context.op);
  }
  return {{context.inputs[0].dtype, first.with(dim, extent), {}}};
}

std::vector<Tangent> concatenate_jvp(const JvpContext& context) {
  std::vector<Value> tangents;
  for (std::size_t i = 0; i < context.inputs.size(); ++i) {
    tangents.push_back(derivative::or_zeros(context.builder, context.tangents[i], context.inputs[i].type()));
  }
  return {concatenate(tangents, static_cast<int>(context.attrs.get<std::int64_t>("dim")))};
}

std::vector<Tangent> concatenate_transpose(const TransposeContext& context) {
  const Value& ct = *context.cotangents[0];
  const auto dim = context.attrs.get<std::int64_t>("dim");
  const auto at = static_cast<std::size_t>(dim);
  Dims start = repeated(ct.rank());
  Dims limit = ct.shape().to_vector();
  const Dims strides(start.size(), 1);
  std::vector<Tangent> result;
  for (std::size_t i = 0; i < context.input_types.size(); ++i) {
    limit[at] = start[at] + context.input_types[i].shape[static_cast<int>(dim)];
    result.push_back(context.inputs[i] ? Tangent{} : Tangent{slice(ct, start, limit, strides)});
    start[at] = limit[at];
  }
  return result;
}

void concatenate_reference(const ir::ReferenceContext& context) {
  const auto dim = static_cast<std::size_t>(context.attrs.get<std::int64_t>("dim"));
  std::int64_t i = 0;
  reference::for_each_index(context.outputs[0].type.shape, [&](const reference::Index& index) {
    reference::Index from = index;
    std::size_t operand = 0;
    while (from[dim] >= context.inputs[operand].type.shape[static_cast<int>(dim)]) {
      from[dim] -= context.inputs[operand].type.shape[static_cast<int>(dim)];
      ++operand;
    }
    const ir::ReferenceArray& source = context.inputs[operand];
    reference::copy_element(source, reference::offset(source.type.shape, from), context.outputs[0], i++);
  });
}

std::vector<ir::Sample> concatenate_samples() {
  std::vector<ir::Sample> result;
  for (const DType dtype : {DType::float64, DType::float32, DType::bfloat16, DType::int32, DType::bool_, DType::key}) {
    const auto add = [&](const std::vector<Shape>& shapes, std::int64_t dim) {
      ir::Sample sample{{}, {{"dim", dim}}, {}};
      for (const Shape& shape : shapes) sample.inputs.push_back(samples::input(dtype, shape, {0, 2}));
      result.push_back(std::move(sample));
    };
    add({Shape{2}, Shape{3}}, 0);
    add({Shape{2, 3}, Shape{2, 1}, Shape{2, 2}}, 1);
    add({Shape{2, 3}, Shape{1, 3}}, 0);
    add({Shape{0, 2}, Shape{2, 2}}, 0);
    add({Shape{1}}, 0);
  }
  return result;
}

}  // namespace

const Primitive& primitives::concatenate() {
  static const Primitive op{
      .name = "concatenate",
      .infer = concatenate_infer,
      .derivative = derivative::linear(concatenate_transpose, {}, concatenate_jvp),
      .batch = batch::along(concatenate, "dim"),
      .reference = concatenate_reference,
      .samples = concatenate_samples,
      .error_samples = samples::errors({{{samples::float32_matrix, {DType::float32, Shape{3, 2}, {}}},
                                         {{"dim", std::int64_t{0}}},
                                         "equal but for dimension 0",
                                         {}},
                                        {{samples::float32_matrix, {DType::float32, Shape{2}, {}}},
                                         {{"dim", std::int64_t{0}}},
                                         "equal but for dimension 0",
                                         {}},
                                        {{samples::float32_matrix, {DType::int32, Shape{2, 3}, {}}},
                                         {{"dim", std::int64_t{0}}},
                                         "operands of one dtype",
                                         {}},
                                        {{samples::float32_matrix, samples::float32_matrix},
                                         {{"dim", std::int64_t{2}}},
                                         "expected dim in [0, 2)",
                                         {}},
                                        {{}, {{"dim", std::int64_t{0}}}, "expected at least 1 operand", {}}}),
      .traits = {.moves = ir::Moves::together},
      .equal_to = [](const ir::AlgebraContext& context) -> std::optional<ir::Var> {
        if (context.inputs.size() != 1) return std::nullopt;
        return context.inputs[0];
      },
      .layout = layout::along("dim")};
  return op;
}

}  // namespace lockstep::ops
