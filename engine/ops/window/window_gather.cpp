#include <algorithm>
#include <vector>

#include "engine/ops/primitives.h"
#include "engine/ops/rules/derivative.h"
#include "engine/ops/rules/flops.h"
#include "engine/ops/rules/infer.h"
#include "engine/ops/rules/layout.h"
#include "engine/ops/rules/reference.h"
#include "engine/ops/rules/samples.h"
#include "engine/ops/window/geometry.h"

namespace lockstep::ops {

namespace {

void expect_planes(const ir::InferContext& context, std::size_t indices) {
  const Shape& shape = context.inputs[indices].shape;
  if (context.inputs[indices].dtype != int32) {
    infer::dtype_error(context, "int32 for operand " + std::to_string(indices), "pass the second result of window_max");
  }
  if (shape.rank() < 3) infer::shape_error(context, "operands of rank 3 or more: [N, spatial..., C]", "reshape them");
}

std::vector<ArrayType> infer_window_gather(const ir::InferContext& context) {
  infer::expect_operands(context, 2);
  infer::expect_dtype(context, 0, infer::value);
  expect_planes(context, 1);
  const Shape& x = context.inputs[0].shape;
  const Shape& y = context.inputs[1].shape;
  if (x.rank() != y.rank() || x[0] != y[0] || x.dim(-1) != y.dim(-1)) {
    infer::shape_error(context, "x [N, spatial..., C] and indices [N, out..., C] of one rank, N and C",
                       "pass the x and the indices of one window_max");
  }
  if (plane_size(x) == 0 && y.size() > 0) {
    infer::shape_error(context, "an x with elements to gather from", "pass an x of spatial extents of at least 1");
  }
  return {{context.inputs[0].dtype, y, {}}};
}

std::vector<ArrayType> infer_window_scatter(const ir::InferContext& context) {
  infer::expect_operands(context, 2);
  infer::expect_dtype(context, 1, infer::numeric);
  expect_planes(context, 0);
  infer::expect_same_shape(context);
  const Shape& y = context.inputs[1].shape;
  Shape x{y[0]};
  for (const std::int64_t extent : infer::list_attr(context, "spatial", y.rank() - 2)) {
    if (extent < 0) infer::shape_error(context, "spatial extents of 0 or more", "pass the spatial extents of x");
    x.append(extent);
  }
  x.append(y.dim(-1));
  if (plane_size(x) == 0 && y.size() > 0) {
    infer::shape_error(context, "spatial extents of at least 1 to scatter to", "pass the spatial extents of x");
  }
  return {{context.inputs[1].dtype, x, {}}};
}

Value transpose_window_gather(const ir::TransposeContext& context, const Value& y) {
  const Shape& x = context.input_types[0].shape;
  return window_scatter(*context.inputs[1], y, Dims(x.begin() + 1, x.end() - 1));
}

Value transpose_window_scatter(const ir::TransposeContext& context, const Value& x) {
  return window_gather(x, *context.inputs[0]);
}

/// The element of x that element `i` of the indices points to.
std::int64_t target(const ir::ReferenceArray& indices, const Shape& x, std::int64_t i) {
  const std::int64_t features = x.dim(-1);
  const std::int64_t plane = plane_size(x);
  const std::int64_t row = i / features / plane_size(indices.type.shape);
  const std::int64_t position = std::clamp<std::int64_t>(reference::load<std::int64_t>(indices, i), 0, plane - 1);
  return (row * plane + position) * features + i % features;
}

void window_gather_reference(const ir::ReferenceContext& context) {
  for (std::int64_t i = 0; i < context.outputs[0].type.size(); ++i) {
    const std::int64_t from = target(context.inputs[1], context.inputs[0].type.shape, i);
    reference::copy_element(context.inputs[0], from, context.outputs[0], i);
  }
}

void window_scatter_reference(const ir::ReferenceContext& context) {
  const auto add = [&]<class T>() {
    for (std::int64_t i = 0; i < context.inputs[1].type.size(); ++i) {
      const std::int64_t to = target(context.inputs[0], context.outputs[0].type.shape, i);
      const T sum = reference::load<T>(context.outputs[0], to) + reference::load<T>(context.inputs[1], i);
      reference::store(context.outputs[0], to, sum);
    }
  };
  const DType dtype = context.inputs[1].type.dtype;
  if (is_integer(dtype)) return add.template operator()<std::uint64_t>();
  reference::dispatch<double, reference::Complex>(dtype, add);
}

ir::SampleInput indices_into(const WindowCase& c) {
  return samples::input(int32, c.y, {0, static_cast<double>(plane_size(c.x))});
}

std::vector<ir::Sample> window_gather_samples() {
  std::vector<ir::Sample> list;
  for (const WindowCase& c : window_cases()) {
    for (const DType dtype : {float64, float32}) {
      list.push_back({{samples::input(dtype, c.x), indices_into(c)}, {}, {}});
    }
  }
  const WindowCase& c = window_cases()[1];
  for (const DType dtype : {float16, bfloat16, int32, DType::bool_, complex64}) {
    list.push_back({{samples::input(dtype, c.x, {0, 2}), samples::input(int32, c.y, {-3, 30})}, {}, {}});
  }
  return list;
}

std::vector<ir::Sample> window_scatter_samples() {
  std::vector<ir::Sample> list;
  const auto add = [&](DType dtype, const WindowCase& c) {
    list.push_back({{indices_into(c), samples::input(dtype, c.y, {0, 9})},
                    {{"spatial", Dims(c.x.begin() + 1, c.x.end() - 1)}},
                    {}});
  };
  for (const WindowCase& c : window_cases()) {
    for (const DType dtype : {float64, float32}) add(dtype, c);
  }
  for (const DType dtype : {float16, bfloat16, int32, uint8, complex64}) add(dtype, window_cases()[1]);
  return list;
}

std::vector<ir::ErrorSample> window_gather_errors() {
  const ArrayType x{float32, {2, 4, 4, 3}, {}};
  const ArrayType indices{int32, {2, 2, 2, 3}, {}};
  return {
      {{x}, {}, "expected 2 operands", {}},
      {{x, {int64, {2, 2, 2, 3}, {}}}, {}, "int32 for operand 1", {}},
      {{{DType::key, {2, 4, 4, 3}, {}}, indices}, {}, "any dtype but key", {}},
      {{{float32, {2, 3}, {}}, {int32, {2, 3}, {}}}, {}, "rank 3 or more", {}},
      {{x, {int32, {2, 2, 2, 2}, {}}}, {}, "of one rank, N and C", {}},
      {{{float32, {2, 0, 4, 3}, {}}, indices}, {}, "an x with elements", {}},
  };
}

std::vector<ir::ErrorSample> window_scatter_errors() {
  const ArrayType y{float32, {2, 2, 2, 3}, {}};
  const ArrayType indices{int32, {2, 2, 2, 3}, {}};
  const Attrs attrs = {{"spatial", Dims{4, 4}}};
  return {
      {{indices}, attrs, "expected 2 operands", {}},
      {{{float32, {2, 2, 2, 3}, {}}, y}, attrs, "int32 for operand 0", {}},
      {{indices, {DType::bool_, {2, 2, 2, 3}, {}}}, attrs, "a float, complex or integer dtype", {}},
      {{indices, {float32, {2, 2, 2, 2}, {}}}, attrs, "operands of one shape", {}},
      {{indices, y}, attrs.with("spatial", Dims{4}), "2 numbers in spatial", {}},
      {{indices, y}, attrs.with("spatial", Dims{4, -1}), "spatial extents of 0 or more", {}},
      {{indices, y}, attrs.with("spatial", Dims{4, 0}), "spatial extents of at least 1", {}},
  };
}

}  // namespace

Value window_gather(const Value& x, const Value& indices) {
  return apply_one(primitives::window_gather(), {x, indices});
}

Value window_scatter(const Value& indices, const Value& y, const Dims& spatial) {
  return apply_one(primitives::window_scatter(), {indices, y}, {{"spatial", spatial}});
}

const ir::Primitive& primitives::window_gather() {
  static const ir::Primitive primitive{.name = "window_gather",
                                       .infer = infer_window_gather,
                                       .derivative = derivative::linear_in_one(0, transpose_window_gather),
                                       .batch = rows_batch_rule(primitives::window_gather),
                                       .reference = window_gather_reference,
                                       .samples = window_gather_samples,
                                       .error_samples = window_gather_errors,
                                       .traits = {},
                                       .layout = layout::ends()};
  return primitive;
}

const ir::Primitive& primitives::window_scatter() {
  static const ir::Primitive primitive{.name = "window_scatter",
                                       .infer = infer_window_scatter,
                                       .derivative = derivative::linear_in_one(1, transpose_window_scatter),
                                       .batch = rows_batch_rule(primitives::window_scatter),
                                       .reference = window_scatter_reference,
                                       .flops = flops::per_element(1),
                                       .samples = window_scatter_samples,
                                       .error_samples = window_scatter_errors,
                                       .traits = {},
                                       .layout = layout::ends()};
  return primitive;
}

}  // namespace lockstep::ops
