#include "engine/core/lists.h"
#include "engine/ops/rules/define.h"
#include "engine/ops/rules/indexing.h"
#include "engine/ops/rules/layout.h"

namespace lockstep::ops {

namespace {

int axis_of(const ir::InferContext& context) {
  return static_cast<int>(infer::index_attr(context, "axis", context.inputs[0].shape.rank()));
}

std::vector<ArrayType> take_infer(const ir::InferContext& context) {
  infer::expect_operands(context, 2);
  infer::expect_dtype(context, 1, infer::integral);
  const Shape& x = context.inputs[0].shape;
  const Shape& indices = context.inputs[1].shape;
  const int axis = axis_of(context);
  if (indices.rank() != x.rank() || indices.with(axis, 0) != x.with(axis, 0)) {
    infer::shape_error(context, "shapes equal but for axis " + std::to_string(axis), "broadcast_in_dim the indices");
  }
  if (x[axis] == 0 && indices.size() > 0) {
    infer::shape_error(context, "at least one element along axis " + std::to_string(axis), "pass no indices");
  }
  return {{context.inputs[0].dtype, indices, {}}};
}

Value take_transpose(const TransposeContext& context, const Value& ct) {
  const auto axis = context.attrs.get<std::int64_t>("axis");
  const std::int64_t size = context.input_types[0].shape[static_cast<int>(axis)];
  return apply_one(primitives::scatter_add_along_axis(), {*context.inputs[1], ct}, {{"axis", axis}, {"size", size}});
}

std::vector<ArrayType> scatter_along_axis_infer(const ir::InferContext& context) {
  infer::expect_operands(context, 2);
  infer::expect_dtype(context, 0, infer::integral);
  infer::expect_dtype(context, 1, infer::numeric);
  infer::expect_same_shape(context);
  const int axis = axis_of(context);
  const auto size = context.attrs.get<std::int64_t>("size");
  if (size < 0 || (size == 0 && context.inputs[0].size() > 0)) {
    infer::shape_error(context, "a size of at least 1", "give the result's extent along the axis");
  }
  return {{context.inputs[1].dtype, context.inputs[1].shape.with(axis, size), {}}};
}

Value scatter_along_axis_transpose(const TransposeContext& context, const Value& ct) {
  return apply_one(primitives::take_along_axis(), {ct, *context.inputs[0]}, {{"axis", context.attrs.at("axis")}});
}

/// Calls `visit(i, offset of its place in `whole`)` for each index.
template <class Visit>
void for_each_place(const ir::ReferenceArray& indices, const Shape& whole, std::int64_t axis, Visit visit) {
  std::int64_t i = 0;
  reference::for_each_index(indices.type.shape, [&](const reference::Index& index) {
    reference::Index place = index;
    nth(place, axis) = clamped_element(indices, i, whole[static_cast<int>(axis)]);
    visit(i++, reference::offset(whole, place));
  });
}

void take_reference(const ir::ReferenceContext& context) {
  const ir::ReferenceArray& x = context.inputs[0];
  for_each_place(context.inputs[1], x.type.shape, context.attrs.get<std::int64_t>("axis"),
                 [&](std::int64_t i, std::int64_t place) { reference::copy_element(x, place, context.outputs[0], i); });
}

void scatter_along_axis_reference(const ir::ReferenceContext& context) {
  ir::ReferenceArray& sum = context.outputs[0];
  const ir::ReferenceArray& updates = context.inputs[1];
  for_each_place(context.inputs[0], sum.type.shape, context.attrs.get<std::int64_t>("axis"),
                 [&](std::int64_t i, std::int64_t place) {
                   reference::dispatch<double, std::uint64_t, Complex>(updates.type.dtype, [&]<class T>() {
                     reference::store(sum, place, reference::load<T>(sum, place) + reference::load<T>(updates, i));
                   });
                   if (is_signed_integer(updates.type.dtype)) {
                     reference::store(
                         sum, place,
                         reference::load<std::uint64_t>(sum, place) + reference::load<std::uint64_t>(updates, i));
                   }
                 });
}

std::vector<ir::Sample> take_samples() {
  std::vector<ir::Sample> result;
  for (const DType dtype : {DType::float64, DType::float32, DType::bfloat16, DType::int32, DType::bool_}) {
    const auto add = [&](const Shape& x, const Shape& indices, std::int64_t axis, DType index = DType::int32) {
      result.push_back({{samples::input(dtype, x, {0, 2}), index_input(index, indices)}, {{"axis", axis}}, {}});
    };
    add(Shape{5}, Shape{3}, 0);
    add(Shape{4, 5}, Shape{4, 1}, 1, DType::int64);
    add(Shape{4, 3}, Shape{6, 3}, 0, DType::uint8);
    add(Shape{2, 4, 3}, Shape{2, 2, 3}, 1);
    add(Shape{1}, Shape{1}, 0);
    add(Shape{3, 4}, Shape{3, 0}, 1);
    add(Shape{0, 4}, Shape{0, 1}, 1);
  }
  return result;
}

std::vector<ir::Sample> scatter_along_axis_samples() {
  std::vector<ir::Sample> result;
  for (const DType dtype : {DType::float64, DType::float32, DType::bfloat16, DType::int32, DType::uint8}) {
    const auto add = [&](const Shape& shape, std::int64_t axis, std::int64_t size, DType index = DType::int32) {
      result.push_back(
          {{index_input(index, shape), samples::input(dtype, shape, {0, 2})}, {{"axis", axis}, {"size", size}}, {}});
    };
    add(Shape{5}, 0, 3);
    add(Shape{4, 1}, 1, 5, DType::int64);
    add(Shape{6, 3}, 0, 4, DType::uint8);
    add(Shape{2, 4, 3}, 1, 2);
    add(Shape{1}, 0, 1);
    add(Shape{3, 0}, 1, 2);
    add(Shape{0, 1}, 1, 4);
  }
  return result;
}

const ArrayType indices_type{DType::int32, Shape{2, 3}, {}};

// As of rows: what a block of the axis does not have is 0.

/// Dimensions of x, those of the indices but for the axis.
std::pair<ir::FactorDims, ir::FactorDims> axis_factors(ir::Factors& factors, const Shape& x, const Shape& indices,
                                                       int axis) {
  const ir::FactorDims all = layout::own_dims(factors, x);
  ir::FactorDims places = all;
  places[static_cast<std::size_t>(axis)] = {factors.add(indices[axis])};
  return {all, places};
}

int axis_of(const Attrs& attrs) { return static_cast<int>(attrs.get<std::int64_t>("axis")); }

ir::Factors take_layout(const ir::LayoutContext& context) {
  ir::Factors factors;
  const auto [x, places] =
      axis_factors(factors, context.inputs[0].shape, context.inputs[1].shape, axis_of(context.attrs));
  factors.list[static_cast<std::size_t>(axis_of(context.attrs))].kind = ir::Factor::Kind::found;
  factors.operands = {x, places};
  factors.results = {places};
  return factors;
}

std::vector<Value> take_of_block(const ir::BlockContext& context) {
  const Value& x = context.inputs[0];
  const Value& indices = context.inputs[1];
  const int axis = axis_of(context.attrs);
  if (context.axes[static_cast<std::size_t>(axis)].empty()) {
    return {apply_one(primitives::take_along_axis(), {x, indices}, context.attrs)};
  }
  const layout::LocalIndices local =
      layout::local_indices(context, indices, axis, context.whole_inputs[0].shape[axis], x.shape()[axis]);
  const Value taken = apply_one(primitives::take_along_axis(), {x, local.indices}, context.attrs);
  return {select(local.are_own, taken, full_like(taken, 0))};
}

ir::Factors put_layout(const ir::LayoutContext& context) {
  ir::Factors factors;
  const auto [x, places] =
      axis_factors(factors, context.outputs[0].shape, context.inputs[0].shape, axis_of(context.attrs));
  factors.operands = {places, places};
  factors.results = {x};
  return factors;
}

std::vector<Value> put_of_block(const ir::BlockContext& context) {
  const Value& indices = context.inputs[0];
  const Value& updates = context.inputs[1];
  const int axis = axis_of(context.attrs);
  const std::int64_t size = context.outputs[0].shape[axis];
  const Attrs attrs = context.attrs.with("size", size);
  if (context.axes[static_cast<std::size_t>(axis)].empty()) {
    return {apply_one(primitives::scatter_add_along_axis(), {indices, updates}, attrs)};
  }
  const layout::LocalIndices local =
      layout::local_indices(context, indices, axis, context.whole_outputs[0].shape[axis], size);
  const Value own = select(local.are_own, updates, full_like(updates, 0));
  return {apply_one(primitives::scatter_add_along_axis(), {local.indices, own}, attrs)};
}

}  // namespace

const Primitive& primitives::take_along_axis() {
  static const Primitive op{
      .name = "take_along_axis",
      .infer = take_infer,
      .derivative = derivative::linear_in_one(0, take_transpose),
      .batch = batch::along(take_along_axis, "axis"),
      .reference = take_reference,
      .samples = take_samples,
      .error_samples = samples::errors(
          {{{samples::float32_matrix, {DType::int32, Shape{3, 3}, {}}},
            {{"axis", std::int64_t{1}}},
            "shapes equal but for axis 1",
            {}},
           {{samples::float32_matrix, {DType::int32, Shape{2}, {}}},
            {{"axis", std::int64_t{1}}},
            "shapes equal but for axis 1",
            {}},
           {{samples::float32_matrix, indices_type}, {{"axis", std::int64_t{2}}}, "expected axis in [0, 2)", {}},
           {{samples::float32_matrix, samples::float32_matrix},
            {{"axis", std::int64_t{1}}},
            "an integer dtype for operand 1",
            {}},
           {{{DType::float32, Shape{2, 0}, {}}, indices_type},
            {{"axis", std::int64_t{1}}},
            "at least one element",
            {}}}),
      .traits = {},
      .layout = {.factors = take_layout, .write = take_of_block}};
  return op;
}

const Primitive& primitives::scatter_add_along_axis() {
  static const Primitive op{.name = "scatter_add_along_axis",
                            .infer = scatter_along_axis_infer,
                            .derivative = derivative::linear_in_one(1, scatter_along_axis_transpose),
                            .batch = batch::along(scatter_add_along_axis, "axis"),
                            .reference = scatter_along_axis_reference,
                            .flops = flops::per_element(1),
                            .samples = scatter_along_axis_samples,
                            .error_samples = samples::errors({{{indices_type, {DType::float32, Shape{3, 3}, {}}},
                                                               {{"axis", std::int64_t{1}}, {"size", std::int64_t{3}}},
                                                               "operands of one shape",
                                                               {}},
                                                              {{indices_type, samples::float32_matrix},
                                                               {{"axis", std::int64_t{1}}, {"size", std::int64_t{0}}},
                                                               "a size of at least 1",
                                                               {}},
                                                              {{samples::float32_matrix, samples::float32_matrix},
                                                               {{"axis", std::int64_t{1}}, {"size", std::int64_t{3}}},
                                                               "an integer dtype",
                                                               {}},
                                                              {{indices_type, indices_type},
                                                               {{"axis", std::int64_t{2}}, {"size", std::int64_t{3}}},
                                                               "axis in [0, 2)",
                                                               {}}}),
                            .traits = {},
                            .layout = {.factors = put_layout, .write = put_of_block}};
  return op;
}

}  // namespace lockstep::ops
