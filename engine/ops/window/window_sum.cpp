#include <functional>
#include <vector>

#include "engine/ops/primitives.h"
#include "engine/ops/rules/derivative.h"
#include "engine/ops/rules/infer.h"
#include "engine/ops/rules/layout.h"
#include "engine/ops/rules/reference.h"
#include "engine/ops/rules/samples.h"
#include "engine/ops/window/geometry.h"

namespace lockstep::ops {

namespace {

std::vector<ArrayType> infer_window_sum(const ir::InferContext& context) {
  infer::expect_operands(context, 1);
  infer::expect_dtype(context, 0, infer::numeric);
  return {{context.inputs[0].dtype, geometry_of_windows(context).y(), {}}};
}

std::vector<ArrayType> infer_spread(const ir::InferContext& context) {
  infer::expect_operands(context, 1);
  infer::expect_dtype(context, 0, infer::numeric);
  return {{context.inputs[0].dtype, geometry_of_spread(context).x(), {}}};
}

Value transpose_sum(const ir::TransposeContext& context, const Value& y) {
  const Shape& x = context.input_types[0].shape;
  return apply_one(primitives::window_spread(), {y}, context.attrs.with("spatial", Dims(x.begin() + 1, x.end() - 1)));
}

Value transpose_spread(const ir::TransposeContext& context, const Value& x) {
  return apply_one(primitives::window_sum(), {x}, context.attrs.without("spatial"));
}

/// Calls `visit(x element, y element)` for every pair of an input and a window it lies in.
void for_each_pair(const WindowGeometry& geometry, const std::function<void(std::int64_t, std::int64_t)>& visit) {
  const std::int64_t plane = geometry.plane_in().size();
  std::int64_t row = 0;
  for (std::int64_t n = 0; n < geometry.batch; ++n) {
    reference::for_each_index(geometry.plane_out(), [&](const Dims& o) {
      for_each_in_window(geometry, o, [&](std::int64_t position) {
        for (std::int64_t c = 0; c < geometry.features; ++c) {
          visit((n * plane + position) * geometry.features + c, row * geometry.features + c);
        }
      });
      ++row;
    });
  }
}

/// out[to] += in[from] over all pairs; integers wrap.
template <bool spread>
void add_up(const ir::ReferenceContext& context, const WindowGeometry& geometry) {
  const auto add = [&]<class T>() {
    for_each_pair(geometry, [&](std::int64_t x, std::int64_t y) {
      const std::int64_t from = spread ? y : x;
      const std::int64_t to = spread ? x : y;
      const T sum = reference::load<T>(context.outputs[0], to) + reference::load<T>(context.inputs[0], from);
      reference::store(context.outputs[0], to, sum);
    });
  };
  const DType dtype = context.inputs[0].type.dtype;
  if (is_integer(dtype)) return add.template operator()<std::uint64_t>();
  reference::dispatch<double, reference::Complex>(dtype, add);
}

void window_sum_reference(const ir::ReferenceContext& context) {
  const std::vector<ArrayType> types = {context.inputs[0].type};
  add_up<false>(context, geometry_of_windows({"window_sum", types, context.attrs, {}}));
}

void spread_reference(const ir::ReferenceContext& context) {
  const std::vector<ArrayType> types = {context.inputs[0].type};
  add_up<true>(context, geometry_of_spread({"window_spread", types, context.attrs, {}}));
}

const std::vector<WindowCase>& cases() {
  static const std::vector<WindowCase> list = [] {
    std::vector<WindowCase> all = window_cases();
    all.push_back({{1, 2, 1}, {1, 3, 1}, window_attrs({2}, {2}, {{3, 2}})});
    all.push_back({{1, 0, 2}, {1, 2, 2}, window_attrs({2}, {1}, {{1, 2}})});
    return all;
  }();
  return list;
}

std::vector<ir::Sample> sum_samples() {
  std::vector<ir::Sample> list;
  for (const WindowCase& c : cases()) {
    for (const DType dtype : {float64, float32}) list.push_back({{samples::input(dtype, c.x)}, c.attrs, {}});
  }
  for (const DType dtype : {float16, bfloat16, int32, uint8, complex64}) {
    list.push_back({{samples::input(dtype, cases()[1].x, {0, 9})}, cases()[1].attrs, {}});
  }
  return list;
}

std::vector<ir::Sample> spread_samples() {
  std::vector<ir::Sample> list;
  const auto add = [&](DType dtype, const WindowCase& c) {
    list.push_back(
        {{samples::input(dtype, c.y, {0, 9})}, c.attrs.with("spatial", Dims(c.x.begin() + 1, c.x.end() - 1)), {}});
  };
  for (const WindowCase& c : cases()) {
    for (const DType dtype : {float64, float32}) add(dtype, c);
  }
  for (const DType dtype : {float16, bfloat16, int32, uint8, complex64}) add(dtype, cases()[1]);
  return list;
}

std::vector<ir::ErrorSample> spread_errors() {
  const std::vector<ArrayType> y = {{float32, {2, 2, 3}, {}}};
  const Attrs attrs = window_attrs({2}, {2}, {{0, 0}}).with("spatial", Dims{5});
  return {
      {{}, attrs, "expected 1 operand", {}},
      {{{DType::bool_, {2, 2, 3}, {}}}, attrs, "a float, complex or integer dtype", {}},
      {{{float32, {2, 2}, {}}}, attrs, "rank 3 or more", {}},
      {y, attrs.with("spatial", Dims{8}), "y of spatial extents [4]", {}},
      {y, attrs.with("spatial", Dims{-1}), "spatial extents of 0 or more", {}},
      {y, attrs.with("spatial", Dims{5, 5}), "1 numbers in spatial", {}},
      {y, attrs.with("spatial", Dims{1}), "along spatial dimension 0 2 into 1", {}},
  };
}

}  // namespace

const ir::Primitive& primitives::window_sum() {
  static const ir::Primitive primitive{
      .name = "window_sum",
      .infer = infer_window_sum,
      .derivative = derivative::linear_in_one(0, transpose_sum),
      .batch = rows_batch_rule(primitives::window_sum),
      .reference = window_sum_reference,
      .flops = [](const ir::CostContext& c) { return window_flops(c.outputs[0], c.attrs); },
      .samples = sum_samples,
      .error_samples = window_attr_errors,
      .traits = {},
      .layout = layout::ends()};
  return primitive;
}

const ir::Primitive& primitives::window_spread() {
  static const ir::Primitive primitive{
      .name = "window_spread",
      .infer = infer_spread,
      .derivative = derivative::linear_in_one(0, transpose_spread),
      .batch = rows_batch_rule(primitives::window_spread),
      .reference = spread_reference,
      .flops = [](const ir::CostContext& c) { return window_flops(c.inputs[0], c.attrs); },
      .samples = spread_samples,
      .error_samples = spread_errors,
      .traits = {},
      .layout = layout::ends()};
  return primitive;
}

}  // namespace lockstep::ops
