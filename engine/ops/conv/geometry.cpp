#include "engine/ops/conv/geometry.h"

#include <cstddef>
#include <string>

#include <lockstep/error.h>

#include "engine/ops/rules/infer.h"

namespace lockstep::ops {

namespace {

constexpr const char* layout_text =
    "x is [N, spatial..., C], kernel [window..., C/groups, O], y [N, out..., O] with at least one spatial dimension";

std::string op_text(const ir::InferContext& context) { return std::string(context.op) + ": "; }

Dims middle(const Shape& shape, int first, int last) { return {shape.begin() + first, shape.end() - last}; }

Shape joined(std::int64_t first, const Dims& middle, std::int64_t last) {
  Shape shape{first};
  for (const std::int64_t extent : middle) shape.append(extent);
  shape.append(last);
  return shape;
}

void check_operands(const ir::InferContext& context) {
  expect_operands(context, 2);
  const ArrayType& a = context.inputs[0];
  const ArrayType& b = context.inputs[1];
  if (!is_float(a.dtype) || a.dtype != b.dtype) {
    throw DtypeError(op_text(context) + "operands " + to_string(a) + " and " + to_string(b) +
                     " must have one float dtype; convert first");
  }
  if (a.shape.rank() < 3 || a.shape.rank() != b.shape.rank()) {
    throw ShapeError(op_text(context) + "operands " + to_string(a) + " and " + to_string(b) +
                     " must have one rank of at least 3: " + layout_text);
  }
}

void expect_entries(const ir::InferContext& context, const char* name, const Dims& dims, std::int64_t least,
                    std::size_t spatial) {
  bool fits = dims.size() == spatial;
  for (const std::int64_t dim : dims) fits = fits && dim >= least;
  if (fits) return;
  throw ShapeError(op_text(context) + name + "=" + to_string(AttrValue(dims)) + " must have " +
                   std::to_string(spatial) + " entries, one per spatial dimension, each at least " +
                   std::to_string(least));
}

void read_attrs(const ir::InferContext& context, ConvGeometry& geometry, std::size_t spatial) {
  geometry.strides = context.attrs.get<Dims>("strides");
  geometry.dilation = context.attrs.get<Dims>("dilation");
  geometry.groups = context.attrs.get<std::int64_t>("groups");
  expect_entries(context, "strides", geometry.strides, 1, spatial);
  expect_entries(context, "dilation", geometry.dilation, 1, spatial);
  for (const Dims& pair : context.attrs.get<std::vector<Dims>>("padding")) {
    if (pair.size() != 2) {
      throw ShapeError(op_text(context) + "padding=" + to_string(context.attrs.at("padding")) +
                       " must be pairs [low,high], one per spatial dimension");
    }
    geometry.low.push_back(pair[0]);
    geometry.high.push_back(pair[1]);
  }
  expect_entries(context, "padding", geometry.low, 0, spatial);
  expect_entries(context, "padding", geometry.high, 0, spatial);
  if (geometry.groups < 1) {
    throw ShapeError(op_text(context) + "groups=" + std::to_string(geometry.groups) + " must be at least 1");
  }
}

void check_groups(const ir::InferContext& context, const ConvGeometry& geometry) {
  if (geometry.in_features % geometry.groups == 0 && geometry.out_features % geometry.groups == 0) return;
  throw ShapeError(op_text(context) + "groups=" + std::to_string(geometry.groups) + " must divide the " +
                   std::to_string(geometry.in_features) + " input and the " + std::to_string(geometry.out_features) +
                   " output features");
}

/// Extents of the result, from input, window and attributes.
Dims out_extents(const ir::InferContext& context, const ConvGeometry& geometry) {
  Dims out;
  for (std::size_t d = 0; d < geometry.in.size(); ++d) {
    const std::int64_t reach = geometry.dilation[d] * (geometry.window[d] - 1) + 1;
    const std::int64_t padded = geometry.in[d] + geometry.low[d] + geometry.high[d];
    if (geometry.window[d] < 1 || padded < reach) {
      throw ShapeError(op_text(context) + "along spatial dimension " + std::to_string(d) + " the kernel of extent " +
                       std::to_string(geometry.window[d]) + " (dilated: " + std::to_string(reach) +
                       ") must be at least 1 and fit into the padded input of extent " + std::to_string(padded) +
                       "; pad more or take a smaller kernel");
    }
    out.push_back((padded - reach) / geometry.strides[d] + 1);
  }
  return out;
}

void expect_out(const ir::InferContext& context, const ConvGeometry& geometry, const Dims& given) {
  if (given == geometry.out) return;
  throw ShapeError(op_text(context) + "y has spatial extents " + to_string(AttrValue(given)) + ", but x " +
                   to_string(AttrValue(geometry.in)) + " under a window " + to_string(AttrValue(geometry.window)) +
                   " gives " + to_string(AttrValue(geometry.out)));
}

}  // namespace

Shape ConvGeometry::x() const { return joined(batch, in, in_features); }

Shape ConvGeometry::kernel() const {
  Shape shape{Shape(window)};
  shape.append(in_features / groups);
  shape.append(out_features);
  return shape;
}

Shape ConvGeometry::y() const { return joined(batch, out, out_features); }

ConvGeometry geometry_of_conv(const ir::InferContext& context) {
  check_operands(context);
  const Shape& x = context.inputs[0].shape;
  const Shape& kernel = context.inputs[1].shape;
  ConvGeometry geometry;
  geometry.batch = x[0];
  geometry.in = middle(x, 1, 1);
  geometry.in_features = x.dim(-1);
  geometry.window = middle(kernel, 0, 2);
  geometry.out_features = kernel.dim(-1);
  read_attrs(context, geometry, geometry.in.size());
  check_groups(context, geometry);
  if (kernel.dim(-2) * geometry.groups != geometry.in_features) {
    throw ShapeError(op_text(context) + "kernel " + to_string(kernel) + " takes " + std::to_string(kernel.dim(-2)) +
                     " features per group, x " + to_string(x) + " has " +
                     std::to_string(geometry.in_features / geometry.groups) + " with groups=" +
                     std::to_string(geometry.groups) + "; " + layout_text);
  }
  geometry.out = out_extents(context, geometry);
  return geometry;
}

ConvGeometry geometry_of_input_grad(const ir::InferContext& context) {
  check_operands(context);
  const Shape& y = context.inputs[0].shape;
  const Shape& kernel = context.inputs[1].shape;
  ConvGeometry geometry;
  geometry.batch = y[0];
  geometry.window = middle(kernel, 0, 2);
  geometry.out_features = y.dim(-1);
  read_attrs(context, geometry, geometry.window.size());
  geometry.in_features = kernel.dim(-2) * geometry.groups;
  geometry.in = context.attrs.get<Dims>("spatial");
  expect_entries(context, "spatial", geometry.in, 0, geometry.window.size());
  check_groups(context, geometry);
  if (kernel.dim(-1) != geometry.out_features) {
    throw ShapeError(op_text(context) + "kernel " + to_string(kernel) + " makes " + std::to_string(kernel.dim(-1)) +
                     " features, y " + to_string(y) + " has " + std::to_string(geometry.out_features) + "; " +
                     layout_text);
  }
  geometry.out = out_extents(context, geometry);
  expect_out(context, geometry, middle(y, 1, 1));
  return geometry;
}

ConvGeometry geometry_of_kernel_grad(const ir::InferContext& context) {
  check_operands(context);
  const Shape& x = context.inputs[0].shape;
  const Shape& y = context.inputs[1].shape;
  ConvGeometry geometry;
  geometry.batch = x[0];
  geometry.in = middle(x, 1, 1);
  geometry.in_features = x.dim(-1);
  geometry.out_features = y.dim(-1);
  read_attrs(context, geometry, geometry.in.size());
  geometry.window = context.attrs.get<Dims>("window");
  expect_entries(context, "window", geometry.window, 1, geometry.in.size());
  check_groups(context, geometry);
  if (y[0] != geometry.batch) {
    throw ShapeError(op_text(context) + "x " + to_string(x) + " and y " + to_string(y) +
                     " must have the same number of rows N; " + layout_text);
  }
  geometry.out = out_extents(context, geometry);
  expect_out(context, geometry, middle(y, 1, 1));
  return geometry;
}

Attrs conv_attrs(const ConvAttrs& attrs) {
  return {{"strides", attrs.strides}, {"padding", attrs.padding}, {"dilation", attrs.dilation}, {"groups", attrs.groups}};
}

Attrs common_conv_attrs(const Attrs& attrs) { return attrs.without("spatial").without("window"); }

Attrs with_groups_times(const Attrs& attrs, std::int64_t factor) {
  return attrs.with("groups", attrs.get<std::int64_t>("groups") * factor);
}

}  // namespace lockstep::ops
