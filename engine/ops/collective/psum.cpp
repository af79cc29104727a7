#include <vector>

#include "engine/ops/collective/axes.h"
#include "engine/ops/primitives.h"
#include "engine/ops/rules/batch.h"
#include "engine/ops/rules/derivative.h"
#include "engine/ops/rules/infer.h"
#include "engine/ops/rules/samples.h"

namespace lockstep::ops {

namespace {

using collective::along_axes;
using collective::mesh;
using collective::varying_input;

std::vector<ArrayType> infer_psum(const ir::InferContext& context) {
  infer::expect_operands(context, 1);
  infer::expect_dtype(context, 0, infer::numeric);
  const AxisSet axes = collective::bound_axes(context);
  collective::expect_varying(context, axes, ", and its sum would be that times their number",
                             "use x as it is; for a count use axis_size, for a product x * axis_size");
  const ArrayType& x = context.inputs[0];
  return {{x.dtype, x.shape, x.varying.without(axes)}};
}

std::vector<ArrayType> infer_pvary(const ir::InferContext& context) {
  infer::expect_operands(context, 1);
  const AxisSet axes = collective::bound_axes(context);
  const ArrayType& x = context.inputs[0];
  for (const std::string& axis : axes) {
    if (x.varying.contains(axis)) {
      collective::mesh_error(context, "an operand that is invariant along " + axis,
                             "use x as it is: it varies along " + axis + " already");
    }
  }
  return {{x.dtype, x.shape, x.varying.joined(axes)}};
}

Value transpose_psum(const ir::TransposeContext& context, const Value& cotangent) {
  return collective::varying_along(cotangent, collective::axes_attr(context.attrs));
}

Value transpose_pvary(const ir::TransposeContext& context, const Value& cotangent) {
  const AxisSet axes = collective::axes_attr(context.attrs);
  return psum(collective::varying_along(cotangent, axes), axes);
}

/// Over the batch a sum of its dimension; what is the same for all of it counts `size` times.
std::vector<Value> batch_psum(const ir::BatchContext& context) {
  if (!collective::over_batch(context)) return batch::pointwise(primitives::psum)(context);
  const Value& x = context.inputs[0];
  const Value sum = context.batched[0] ? reduce_sum(x, {0}) : x * static_cast<double>(context.size);
  return {psum(sum, collective::other_axes(context))};
}

/// The batch varies along its axis by being there.
std::vector<Value> batch_pvary(const ir::BatchContext& context) {
  if (!collective::over_batch(context)) return batch::pointwise(primitives::pvary)(context);
  return {pvary(context.inputs[0], collective::other_axes(context))};
}

void psum_reference(const ir::ReferenceContext& context) {
  const ir::ReferenceArray sum = collective::group_sum(context.inputs[0]);
  const std::int64_t size = sum.type.size();
  for (std::int64_t i = 0; i < context.outputs[0].type.size(); ++i) {
    reference::copy_element(sum, i % size, context.outputs[0], i);
  }
}

std::vector<ir::Sample> psum_samples() {
  std::vector<ir::Sample> list;
  for (const DType dtype : {float64, float32, float16, bfloat16, int32, int64, uint8, complex64}) {
    list.push_back({{varying_input(dtype, {2, 3}, {"batch"})}, along_axes({"batch"}), mesh(4)});
  }
  for (const Shape& shape : samples::small_shapes()) {
    list.push_back({{varying_input(float64, shape, {"batch"})}, along_axes({"batch"}), mesh(2)});
  }
  list.push_back({{varying_input(float64, {3}, {"batch"})}, along_axes({"batch"}), mesh(1)});
  list.push_back({{varying_input(float64, {3}, {"batch"})}, along_axes({"batch"}), mesh(8)});
  list.push_back({{varying_input(float64, {3}, {"batch", "model"})}, along_axes({"batch", "model"}), mesh(2, 4)});
  list.push_back({{varying_input(float64, {3}, {"batch", "model"})}, along_axes({"batch"}), mesh(4, 2)});
  list.push_back({{varying_input(float64, {3}, {"batch", "model"})}, along_axes({"model"}), mesh(2, 2)});
  return list;
}

std::vector<ir::Sample> pvary_samples() {
  std::vector<ir::Sample> list;
  for (const Shape& shape : samples::small_shapes()) {
    list.push_back({{samples::input(float64, shape)}, along_axes({"batch"}), mesh(4)});
  }
  for (const DType dtype : {float32, int32, DType::bool_, DType::key}) {
    list.push_back({{samples::input(dtype, {3}, {0, 2})}, along_axes({"batch"}), mesh(2)});
  }
  list.push_back({{samples::input(float64, {3})}, along_axes({"batch", "model"}), mesh(2, 2)});
  list.push_back({{varying_input(float64, {3}, {"model"})}, along_axes({"batch"}), mesh(2, 2)});
  return list;
}

std::vector<ir::ErrorSample> psum_errors() {
  const ArrayType x{float32, {2}, {"batch"}};
  return {
      {{}, along_axes({"batch"}), "expected 1 operand", mesh(2)},
      {{{DType::bool_, {2}, {"batch"}}}, along_axes({"batch"}), "a float, complex or integer dtype", mesh(2)},
      {{x}, along_axes({}), "at least one axis", mesh(2)},
      {{x}, along_axes({"batch", "batch"}), "each axis once", mesh(2)},
      {{x}, along_axes({"rows"}), "unbound axis", mesh(2)},
      {{{float32, {2}, {}}}, along_axes({"batch"}), "unbound axis", {}},
      {{{float32, {2}, {}}}, along_axes({"batch"}), "invariant along batch", mesh(2)},
      {{{float32, {2}, {}}}, along_axes({"batch"}), "for a count use axis_size", mesh(2)},
      {{x}, along_axes({"batch", "model"}), "invariant along model", mesh(2, 2)},
  };
}

std::vector<ir::ErrorSample> pvary_errors() {
  return {
      {{}, along_axes({"batch"}), "expected 1 operand", mesh(2)},
      {{{float32, {2}, {}}}, along_axes({"rows"}), "unbound axis", mesh(2)},
      {{{float32, {2}, {}}}, along_axes({}), "at least one axis", mesh(2)},
      {{{float32, {2}, {"batch"}}}, along_axes({"batch"}), "varies along batch already", mesh(2)},
  };
}

Attrs compose_pvary(const Attrs& outer, const Attrs& inner) {
  const AxisSet axes(outer.get<std::vector<std::string>>("axes"));
  return outer.with("axes", axes.joined(AxisSet(inner.get<std::vector<std::string>>("axes"))).names());
}

}  // namespace

const ir::Primitive& primitives::psum() {
  static const ir::Primitive primitive{
      .name = "psum",
      .infer = infer_psum,
      .derivative = derivative::linear_in_one(0, transpose_psum),
      .batch = batch_psum,
      .reference = psum_reference,
      .samples = psum_samples,
      .error_samples = psum_errors,
      .traits = {.collective = true, .typed_axes = true},
      .collective = {.exchange = ir::Exchange::reduce, .combine = primitives::add, .convert = primitives::convert},
  };
  return primitive;
}

const ir::Primitive& primitives::pvary() {
  static const ir::Primitive primitive{
      .name = "pvary",
      .infer = infer_pvary,
      .derivative = derivative::linear_in_one(0, transpose_pvary),
      .batch = batch_pvary,
      .reference = reference::copies(),
      .samples = pvary_samples,
      .error_samples = pvary_errors,
      .traits = {.typed_axes = true, .moves = ir::Moves::in_place},
      .compose = compose_pvary,
  };
  return primitive;
}

}  // namespace lockstep::ops
