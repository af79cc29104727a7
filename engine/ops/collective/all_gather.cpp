#include <string>
#include <vector>

#include "engine/core/checked_sizes.h"
#include "engine/core/lists.h"
#include "engine/ops/collective/axes.h"
#include "engine/ops/primitives.h"
#include "engine/ops/rules/batch.h"
#include "engine/ops/rules/derivative.h"
#include "engine/ops/rules/infer.h"
#include "engine/ops/rules/samples.h"

namespace lockstep::ops {

namespace {

using collective::mesh;
using collective::varying_input;

/// Checks operand and attributes; the extent of the axis.
std::int64_t checked_axis_size(const ir::InferContext& context, const char* instead) {
  const AxisSet axis = collective::bound_axis(context);
  collective::expect_varying(context, axis, "", instead);
  infer::index_attr(context, "dim", context.inputs[0].shape.rank());
  return context.axes.size(axis, context.op);
}

Shape gathered_shape(const ir::InferContext& context) {
  infer::expect_operands(context, 1);
  infer::expect_dtype(context, 0, infer::any);
  const std::int64_t size = checked_axis_size(context, "concatenate x with itself, or pvary it first");
  const int dim = static_cast<int>(context.attrs.get<std::int64_t>("dim"));
  const Shape& shape = context.inputs[0].shape;
  return shape.with(dim, checked_product(shape[dim], size, context.op));
}

std::vector<ArrayType> infer_all_gather(const ir::InferContext& context) {
  const Shape shape = gathered_shape(context);
  return {{context.inputs[0].dtype, shape, context.inputs[0].varying}};
}

std::vector<ArrayType> infer_gather_invariant(const ir::InferContext& context) {
  const Shape shape = gathered_shape(context);
  return {{context.inputs[0].dtype, shape, context.inputs[0].varying.without(collective::axis_attr(context.attrs))}};
}

std::vector<ArrayType> infer_psum_scatter(const ir::InferContext& context) {
  infer::expect_operands(context, 1);
  infer::expect_dtype(context, 0, infer::numeric);
  const std::int64_t size =
      checked_axis_size(context, "slice x at axis_index; its sum over replicas is x times axis_size");
  const ArrayType& x = context.inputs[0];
  const int dim = static_cast<int>(context.attrs.get<std::int64_t>("dim"));
  if (x.shape[dim] % size != 0) {
    infer::shape_error(context,
                       "an extent of dimension " + std::to_string(dim) + " that " + std::to_string(size) +
                           " replicas can share equally",
                       "pad it to a multiple of " + std::to_string(size));
  }
  return {{x.dtype, x.shape.with(dim, x.shape[dim] / size), x.varying}};
}

Value transpose_all_gather(const ir::TransposeContext& context, const Value& cotangent) {
  const Value varying = collective::varying_along(cotangent, collective::axis_attr(context.attrs));
  return apply_one(primitives::psum_scatter(), {varying}, context.attrs);
}

Value transpose_psum_scatter(const ir::TransposeContext& context, const Value& cotangent) {
  const Value varying = collective::varying_along(cotangent, collective::axis_attr(context.attrs));
  return apply_one(primitives::all_gather(), {varying}, context.attrs);
}

Value transpose_gather_invariant(const ir::TransposeContext& context, const Value& cotangent) {
  const Shape& own = context.input_types[0].shape;
  const std::int64_t dim = context.attrs.get<std::int64_t>("dim");
  ir::Builder& builder = context.builder;
  const Value index(builder, builder
                                 .apply(primitives::axis_index(), std::span<const ir::Var>{},
                                        {{"axis", context.attrs.get<std::string>("axis")}})
                                 .front());
  const Value zero = full(builder, int32, Shape{}, 0);
  std::vector<Value> operands(static_cast<std::size_t>(own.rank()) + 1, zero);
  operands[0] = cotangent;
  operands[static_cast<std::size_t>(dim) + 1] = index * static_cast<double>(own[static_cast<int>(dim)]);
  return apply(primitives::dynamic_slice(), operands, {{"sizes", own.to_vector()}}).front();
}

/// Over the batch all examples joined, the same for each of them.
template <PrimitiveGetter self>
std::vector<Value> batch_gather(const ir::BatchContext& context) {
  if (!collective::over_batch(context)) return batch::along(self, "dim")(context);
  const Value all = batch::batched(context, 0);
  const std::int64_t dim = context.attrs.get<std::int64_t>("dim");
  const Shape one = all.shape().erase(0);
  const int d = static_cast<int>(dim);
  return {reshape(collective::leading_to(all, dim), one.with(d, one[d] * context.size))};
}

/// Over the batch the sum, its blocks dealt out.
std::vector<Value> batch_scatter(const ir::BatchContext& context) {
  if (!collective::over_batch(context)) return batch::along(primitives::psum_scatter, "dim")(context);
  const Value& x = context.inputs[0];
  const Value sum = context.batched[0] ? reduce_sum(x, {0}) : x * static_cast<double>(context.size);
  const std::int64_t dim = context.attrs.get<std::int64_t>("dim");
  const int d = static_cast<int>(dim);
  const Shape& whole = sum.shape();
  const Shape blocks = whole.with(d, whole[d] / context.size).insert(d, context.size);
  return {collective::to_leading(reshape(sum, blocks), dim)};
}

/// The replicas' arrays joined along `dim` (which does not count the group dimension).
ir::ReferenceArray joined_along(const ir::ReferenceArray& x, int dim) {
  const Shape own = x.type.shape.erase(0);
  ir::ReferenceArray whole = ir::reference_zeros({x.type.dtype, own.with(dim, own[dim] * x.type.shape[0]), {}});
  std::int64_t position = 0;
  reference::for_each_index(x.type.shape, [&](const Dims& index) {
    Dims to(index.begin() + 1, index.end());
    nth(to, dim) += index[0] * own[dim];
    reference::copy_element(x, position++, whole, reference::offset(whole.type.shape, to));
  });
  return whole;
}

void all_gather_reference(const ir::ReferenceContext& context) {
  const ir::ReferenceArray whole =
      joined_along(context.inputs[0], static_cast<int>(context.attrs.get<std::int64_t>("dim")));
  const std::int64_t size = whole.type.size();
  for (std::int64_t i = 0; i < context.outputs[0].type.size(); ++i) {
    reference::copy_element(whole, i % size, context.outputs[0], i);
  }
}

void psum_scatter_reference(const ir::ReferenceContext& context) {
  const ir::ReferenceArray sum = collective::group_sum(context.inputs[0]);
  const int dim = static_cast<int>(context.attrs.get<std::int64_t>("dim"));
  const std::int64_t block = context.outputs[0].type.shape[dim + 1];
  std::int64_t position = 0;
  reference::for_each_index(context.outputs[0].type.shape, [&](const Dims& index) {
    Dims from(index.begin() + 1, index.end());
    nth(from, dim) += index[0] * block;
    reference::copy_element(sum, reference::offset(sum.type.shape, from), context.outputs[0], position++);
  });
}

Attrs along(std::string axis, std::int64_t dim) { return {{"axis", std::move(axis)}, {"dim", dim}}; }

std::vector<ir::Sample> all_gather_samples() {
  std::vector<ir::Sample> list;
  for (const std::int64_t dim : {0, 1, 2}) {
    list.push_back({{varying_input(float64, {2, 3, 4}, {"batch"})}, along("batch", dim), mesh(4)});
    list.push_back({{varying_input(float32, {2, 4, 8}, {"batch"})}, along("batch", dim), mesh(2)});
  }
  list.push_back({{varying_input(float64, {3}, {"batch"})}, along("batch", 0), mesh(1)});
  list.push_back({{varying_input(float64, {1}, {"batch"})}, along("batch", 0), mesh(2)});
  list.push_back({{varying_input(float64, {1, 2}, {"batch"})}, along("batch", 0), mesh(8)});
  list.push_back({{varying_input(float64, {1}, {"batch"})}, along("batch", 0), mesh(2)});
  list.push_back({{varying_input(float64, {0, 2}, {"batch"})}, along("batch", 0), mesh(2)});
  list.push_back({{varying_input(float64, {2, 0}, {"batch"})}, along("batch", 0), mesh(2)});
  list.push_back({{varying_input(float64, {2, 2}, {"batch", "model"})}, along("model", 1), mesh(2, 4)});
  list.push_back({{varying_input(int32, {2, 2}, {"batch", "model"})}, along("batch", 0), mesh(2, 2)});
  list.push_back({{varying_input(DType::bool_, {3}, {"batch"})}, along("batch", 0), mesh(2)});
  return list;
}

std::vector<ir::Sample> psum_scatter_samples() {
  std::vector<ir::Sample> list;
  for (const std::int64_t dim : {0, 1}) {
    list.push_back({{varying_input(float64, {4, 8, 2}, {"batch"})}, along("batch", dim), mesh(4)});
    list.push_back({{varying_input(float32, {4, 2}, {"batch"})}, along("batch", dim), mesh(2)});
  }
  list.push_back({{varying_input(float64, {3}, {"batch"})}, along("batch", 0), mesh(1)});
  list.push_back({{varying_input(float64, {8, 2}, {"batch"})}, along("batch", 0), mesh(8)});
  list.push_back({{varying_input(float64, {0, 2}, {"batch"})}, along("batch", 0), mesh(2)});
  list.push_back({{varying_input(float64, {2, 4}, {"batch", "model"})}, along("model", 1), mesh(2, 4)});
  list.push_back({{varying_input(int32, {4}, {"batch"})}, along("batch", 0), mesh(4)});
  list.push_back({{varying_input(bfloat16, {4}, {"batch"})}, along("batch", 0), mesh(4)});
  return list;
}

std::vector<ir::ErrorSample> all_gather_errors() {
  const ArrayType x{float32, {4, 6}, {"batch"}};
  return {
      {{}, along("batch", 0), "expected 1 operand", mesh(4)},
      {{x}, along("rows", 0), "unbound axis", mesh(4)},
      {{x}, along("batch", 2), "dim in [0, 2)", mesh(4)},
      {{{float32, {}, {"batch"}}}, along("batch", 0), "an operand of rank 1 or more", mesh(4)},
      {{{float32, {4}, {}}}, along("batch", 0), "invariant along batch", mesh(4)},
  };
}

std::vector<ir::ErrorSample> psum_scatter_errors() {
  std::vector<ir::ErrorSample> list = all_gather_errors();
  list.push_back({{{float32, {4, 6}, {"batch"}}}, along("batch", 1), "pad it to a multiple of 4", mesh(4)});
  list.push_back({{{DType::bool_, {4}, {"batch"}}}, along("batch", 0), "a float, complex or integer dtype", mesh(4)});
  return list;
}

}  // namespace

const ir::Primitive& primitives::all_gather() {
  static const ir::Primitive primitive{
      .name = "all_gather",
      .infer = infer_all_gather,
      .derivative = derivative::linear_in_one(0, transpose_all_gather),
      .batch = batch_gather<primitives::all_gather>,
      .reference = all_gather_reference,
      .samples = all_gather_samples,
      .error_samples = all_gather_errors,
      .traits = {.collective = true, .typed_axes = true},
      .collective = {.exchange = ir::Exchange::gather},
  };
  return primitive;
}

const ir::Primitive& primitives::all_gather_invariant() {
  static const ir::Primitive primitive{
      .name = "all_gather_invariant",
      .infer = infer_gather_invariant,
      .derivative = derivative::linear_in_one(0, transpose_gather_invariant),
      .batch = batch_gather<primitives::all_gather_invariant>,
      .reference = all_gather_reference,
      .samples = all_gather_samples,
      .error_samples = all_gather_errors,
      .traits = {.collective = true, .typed_axes = true},
      .collective = {.exchange = ir::Exchange::gather},
  };
  return primitive;
}

const ir::Primitive& primitives::psum_scatter() {
  static const ir::Primitive primitive{
      .name = "psum_scatter",
      .infer = infer_psum_scatter,
      .derivative = derivative::linear_in_one(0, transpose_psum_scatter),
      .batch = batch_scatter,
      .reference = psum_scatter_reference,
      .samples = psum_scatter_samples,
      .error_samples = psum_scatter_errors,
      .traits = {.collective = true, .typed_axes = true},
      .collective = {.exchange = ir::Exchange::reduce_scatter,
                     .combine = primitives::add,
                     .convert = primitives::convert},
  };
  return primitive;
}

}  // namespace lockstep::ops
