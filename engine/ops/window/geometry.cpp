#include "engine/ops/window/geometry.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "engine/core/checked_sizes.h"
#include "engine/ops/rules/batch.h"
#include "engine/ops/rules/infer.h"

namespace lockstep::ops {

namespace {

using ir::InferContext;

Dims positive(const InferContext& context, const char* name, std::size_t spatial) {
  const Dims& dims = infer::list_attr(context, name, static_cast<std::int64_t>(spatial));
  if (std::any_of(dims.begin(), dims.end(), [](std::int64_t entry) { return entry < 1; })) {
    infer::shape_error(context, std::string(name) + " of at least 1", "give one such number per spatial dimension");
  }
  return dims;
}

void expect_spatial_rank(const InferContext& context) {
  if (context.inputs[0].shape.rank() >= 3) return;
  infer::shape_error(context, "operand 0 of rank 3 or more: [N, spatial..., C]",
                     "reshape it; a missing N or C is a dimension of extent 1");
}

/// Everything that follows from `in` and the attributes.
void read_window_attrs(const InferContext& context, WindowGeometry& geometry) {
  const std::size_t spatial = geometry.in.size();
  geometry.window = positive(context, "window", spatial);
  geometry.strides = positive(context, "strides", spatial);
  geometry.dilation = context.attrs.has("dilation") ? positive(context, "dilation", spatial) : Dims(spatial, 1);
  const auto& padding = context.attrs.get<std::vector<Dims>>("padding");
  const auto is_pair = [](const Dims& pair) { return pair.size() == 2 && pair[0] >= 0 && pair[1] >= 0; };
  if (padding.size() != spatial || !std::all_of(padding.begin(), padding.end(), is_pair)) {
    infer::shape_error(context, "padding of " + std::to_string(spatial) + " pairs [low,high], each 0 or more",
                       "give one pair per spatial dimension; slice x to crop it");
  }
  for (std::size_t d = 0; d < spatial; ++d) {
    geometry.low.push_back(padding[d][0]);
    geometry.high.push_back(padding[d][1]);
    const std::int64_t padded = geometry.in[d] + padding[d][0] + padding[d][1];
    const std::int64_t span = checked_product(geometry.window[d] - 1, geometry.dilation[d], context.op) + 1;
    if (padded < span) {
      infer::shape_error(context,
                         "a window that fits into the padded input: along spatial dimension " + std::to_string(d) +
                             " " + std::to_string(span) + " into " + std::to_string(padded),
                         "pad more or take a smaller window");
    }
    geometry.out.push_back((padded - span) / geometry.strides[d] + 1);
  }
}

Dims spatial_of(const Shape& shape) { return {shape.begin() + 1, shape.end() - 1}; }

}  // namespace

Shape WindowGeometry::x() const { return infer::shape_around(batch, in, features); }
Shape WindowGeometry::y() const { return infer::shape_around(batch, out, features); }

WindowGeometry geometry_of_windows(const InferContext& context) {
  expect_spatial_rank(context);
  const Shape& x = context.inputs[0].shape;
  WindowGeometry geometry;
  geometry.batch = x[0];
  geometry.features = x.dim(-1);
  geometry.in = spatial_of(x);
  read_window_attrs(context, geometry);
  return geometry;
}

WindowGeometry geometry_of_spread(const InferContext& context) {
  expect_spatial_rank(context);
  const Shape& y = context.inputs[0].shape;
  WindowGeometry geometry;
  geometry.batch = y[0];
  geometry.features = y.dim(-1);
  geometry.in = infer::list_attr(context, "spatial", y.rank() - 2);
  if (std::any_of(geometry.in.begin(), geometry.in.end(), [](std::int64_t extent) { return extent < 0; })) {
    infer::shape_error(context, "spatial extents of 0 or more", "pass the spatial extents of x");
  }
  read_window_attrs(context, geometry);
  if (geometry.out != spatial_of(y)) {
    infer::shape_error(context,
                       "y of spatial extents " + to_string(AttrValue(geometry.out)) + ", which these windows make of " +
                           to_string(AttrValue(geometry.in)),
                       "pass the attributes of the op that made y");
  }
  return geometry;
}

void for_each_in_window(const WindowGeometry& geometry, const Dims& o, const std::function<void(std::int64_t)>& visit) {
  Dims w(geometry.window.size(), 0);
  while (true) {
    std::int64_t position = 0;
    bool inside = true;
    for (std::size_t d = 0; d < w.size(); ++d) {
      const std::int64_t at = o[d] * geometry.strides[d] + w[d] * geometry.dilation[d] - geometry.low[d];
      inside = inside && at >= 0 && at < geometry.in[d];
      position = position * geometry.in[d] + at;
    }
    if (inside) visit(position);
    std::size_t d = w.size();
    while (d-- > 0 && ++w[d] == geometry.window[d]) w[d] = 0;
    if (d == static_cast<std::size_t>(-1)) return;
  }
}

Attrs window_attrs(const Dims& window, const Dims& strides, const std::vector<Dims>& padding, const Dims& dilation) {
  const Attrs attrs = {{"window", window}, {"strides", strides}, {"padding", padding}};
  return dilation.empty() ? attrs : attrs.with("dilation", dilation);
}

std::int64_t plane_size(const Shape& shape) { return Shape(spatial_of(shape)).size(); }

double window_flops(const ArrayType& y, const Attrs& attrs) {
  return static_cast<double>(y.size()) * static_cast<double>(Shape(attrs.get<Dims>("window")).size());
}

ir::BatchRule rows_batch_rule(const ir::Primitive& (*self)()) {
  return [self](const ir::BatchContext& context) {
    std::vector<Value> operands = batch::all_batched(context);
    const std::int64_t rows = operands[0].shape()[1];
    for (Value& operand : operands) {
      operand = reshape(operand, operand.shape().erase(0).with(0, context.size * rows));
    }
    std::vector<Value> results = apply(self(), operands, context.attrs);
    for (Value& result : results) result = reshape(result, result.shape().with(0, rows).insert(0, context.size));
    return results;
  };
}

const std::vector<WindowCase>& window_cases() {
  static const std::vector<WindowCase> cases = {
      {{2, 4, 6, 3}, {2, 2, 3, 3}, window_attrs({2, 2}, {2, 2}, {{0, 0}, {0, 0}})},
      {{1, 5, 4, 2}, {1, 3, 4, 2}, window_attrs({3, 2}, {2, 1}, {{1, 1}, {0, 1}})},
      {{2, 7, 2}, {2, 2, 2}, window_attrs({3}, {3}, {{0, 0}})},
      {{1, 2, 3, 3, 2}, {1, 1, 2, 3, 2}, window_attrs({2, 2, 1}, {1, 1, 1}, {{0, 0}, {0, 0}, {0, 0}})},
      {{1, 7, 6, 2}, {1, 3, 4, 2}, window_attrs({3, 2}, {2, 1}, {{1, 1}, {0, 1}}, {2, 3})},
      {{1, 1, 1, 1}, {1, 1, 1, 1}, window_attrs({1, 1}, {1, 1}, {{0, 0}, {0, 0}})},
      {{0, 4, 4, 2}, {0, 2, 2, 2}, window_attrs({2, 2}, {2, 2}, {{0, 0}, {0, 0}})},
      {{2, 4, 4, 0}, {2, 2, 2, 0}, window_attrs({2, 2}, {2, 2}, {{0, 0}, {0, 0}})},
  };
  return cases;
}

std::vector<ir::ErrorSample> window_attr_errors() {
  const std::vector<ArrayType> x = {{float32, {2, 5, 4, 3}, {}}};
  const Attrs attrs = window_attrs({2, 2}, {2, 2}, {{0, 0}, {0, 0}});
  return {
      {{}, attrs, "expected 1 operand", {}},
      {{{DType::key, {2, 5, 4, 3}, {}}}, attrs, "dtype for operand 0", {}},
      {{{float32, {2, 5}, {}}}, attrs, "rank 3 or more", {}},
      {x, attrs.with("window", Dims{2}), "2 numbers in window", {}},
      {x, attrs.with("window", Dims{0, 2}), "window of at least 1", {}},
      {x, attrs.with("strides", Dims{1, 0}), "strides of at least 1", {}},
      {x, attrs.with("dilation", Dims{1, 0}), "dilation of at least 1", {}},
      {x, attrs.with("dilation", Dims{5, 1}), "along spatial dimension 0 6 into 5", {}},
      {x, attrs.with("padding", std::vector<Dims>{{0, 0}}), "padding of 2 pairs", {}},
      {x, attrs.with("padding", std::vector<Dims>{{0, 0}, {-1, 0}}), "each 0 or more", {}},
      {x, attrs.with("window", Dims{6, 2}), "along spatial dimension 0 6 into 5", {}},
  };
}

}  // namespace lockstep::ops
