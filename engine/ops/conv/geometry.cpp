#include "engine/ops/conv/geometry.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "engine/core/checked_sizes.h"
#include "engine/ops/rules/infer.h"

namespace lockstep::ops {

namespace {

using ir::InferContext;

constexpr const char* layout_text =
    "lay them out as x [N, spatial..., C], kernel [window..., C/groups, O], y [N, out..., O]";

std::string dims_text(const Dims& dims) { return to_string(AttrValue(dims)); }

void check_operands(const InferContext& context) {
  infer::expect_operands(context, 2);
  infer::expect_dtype(context, 0, infer::real);
  infer::expect_same_dtype(context);
  const int rank = context.inputs[0].shape.rank();
  if (rank < 3 || rank != context.inputs[1].shape.rank()) {
    infer::shape_error(context, "operands of one rank, at least 3 (one spatial dimension)", layout_text);
  }
}

Dims entries(const InferContext& context, const char* name, std::int64_t least, std::size_t spatial) {
  const Dims& dims = infer::list_attr(context, name, static_cast<std::int64_t>(spatial));
  if (std::any_of(dims.begin(), dims.end(), [least](std::int64_t entry) { return entry < least; })) {
    infer::shape_error(context, std::string(name) + " of at least " + std::to_string(least),
                       "give one such number per spatial dimension");
  }
  return dims;
}

void read_conv_attrs(const InferContext& context, ConvGeometry& geometry, std::size_t spatial) {
  geometry.strides = entries(context, "strides", 1, spatial);
  geometry.dilation = entries(context, "dilation", 1, spatial);
  const auto& padding = context.attrs.get<std::vector<Dims>>("padding");
  const auto is_pair = [](const Dims& pair) { return pair.size() == 2 && pair[0] >= 0 && pair[1] >= 0; };
  if (padding.size() != spatial || !std::all_of(padding.begin(), padding.end(), is_pair)) {
    infer::shape_error(context, "padding of " + std::to_string(spatial) + " pairs [low,high], each 0 or more",
                       "give one pair per spatial dimension; slice x to crop it");
  }
  for (const Dims& pair : padding) {
    geometry.low.push_back(pair[0]);
    geometry.high.push_back(pair[1]);
  }
  geometry.groups = context.attrs.get<std::int64_t>("groups");
  if (geometry.groups < 1) infer::shape_error(context, "groups of at least 1", "write groups=1");
  const bool asks_for_order = context.attrs.has("sum_blocks");
  if (asks_for_order && (context.attrs.get<std::int64_t>("sum_blocks") != 1 || !is_float(context.inputs[0].dtype))) {
    infer::shape_error(context, "floats and sum_blocks=1, all in order", "leave sum_blocks out");
  }
}

void check_groups(const InferContext& context, const ConvGeometry& geometry) {
  if (geometry.in_features % geometry.groups == 0 && geometry.out_features % geometry.groups == 0) return;
  infer::shape_error(context,
                     "groups that divide the " + std::to_string(geometry.in_features) + " input and the " +
                         std::to_string(geometry.out_features) + " output features",
                     "take a divisor of both");
}

/// Extents of the result, from input, window and attributes.
Dims out_extents(const InferContext& context, const ConvGeometry& geometry) {
  Dims out;
  for (std::size_t d = 0; d < geometry.in.size(); ++d) {
    const std::int64_t reach = checked_product(geometry.dilation[d], geometry.window[d] - 1, context.op) + 1;
    const std::int64_t padded = geometry.in[d] + geometry.low[d] + geometry.high[d];
    if (geometry.window[d] < 1 || padded < reach) {
      infer::shape_error(context,
                         "a kernel of extent 1 or more that fits into the padded input: along spatial dimension " +
                             std::to_string(d) + " " + std::to_string(reach) + " (dilated) into " +
                             std::to_string(padded),
                         "pad more or take a smaller kernel");
    }
    out.push_back((padded - reach) / geometry.strides[d] + 1);
  }
  return out;
}

void expect_out(const InferContext& context, const ConvGeometry& geometry, const Dims& given) {
  if (given == geometry.out) return;
  infer::shape_error(context,
                     "y of spatial extents " + dims_text(geometry.out) + ", which a window " +
                         dims_text(geometry.window) + " makes of " + dims_text(geometry.in) + ", not " +
                         dims_text(given),
                     "pass the attributes of the convolution that made y");
}

}  // namespace

Dims middle(const Shape& shape, int first, int last) { return {shape.begin() + first, shape.end() - last}; }

Shape ConvGeometry::x() const { return infer::shape_around(batch, in, in_features); }

Shape ConvGeometry::kernel() const {
  Shape shape(window);
  shape.append(in_features / groups);
  shape.append(out_features);
  return shape;
}

Shape ConvGeometry::y() const { return infer::shape_around(batch, out, out_features); }

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
  read_conv_attrs(context, geometry, geometry.in.size());
  check_groups(context, geometry);
  if (kernel.dim(-2) * geometry.groups != geometry.in_features) {
    infer::shape_error(context,
                       "a kernel that takes C/groups = " + std::to_string(geometry.in_features / geometry.groups) +
                           " features, not " + std::to_string(kernel.dim(-2)),
                       layout_text);
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
  read_conv_attrs(context, geometry, geometry.window.size());
  geometry.in_features = kernel.dim(-2) * geometry.groups;
  geometry.in = entries(context, "spatial", 0, geometry.window.size());
  check_groups(context, geometry);
  if (kernel.dim(-1) != geometry.out_features) {
    infer::shape_error(context,
                       "a kernel that makes the " + std::to_string(geometry.out_features) + " features of y, not " +
                           std::to_string(kernel.dim(-1)),
                       layout_text);
  }
  geometry.out = out_extents(context, geometry);
  expect_out(context, geometry, middle(y, 1, 1));
  return geometry;
}

double conv_flops(const ArrayType& y, const ArrayType& kernel) {
  const std::int64_t products = kernel.size() / std::max<std::int64_t>(kernel.shape.dim(-1), 1);
  return 2 * static_cast<double>(y.size()) * static_cast<double>(products);
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
  read_conv_attrs(context, geometry, geometry.in.size());
  geometry.window = entries(context, "window", 1, geometry.in.size());
  check_groups(context, geometry);
  if (y[0] != geometry.batch) {
    infer::shape_error(context, "as many rows N in y as in x", layout_text);
  }
  geometry.out = out_extents(context, geometry);
  expect_out(context, geometry, middle(y, 1, 1));
  return geometry;
}

ir::Factors conv_factors(const ir::LayoutContext& context, ConvArray result) {
  using Kind = ir::Factor::Kind;
  ir::Factors factors;
  const Kind features = context.attrs.get<std::int64_t>("groups") == 1 ? Kind::sum : Kind::whole;
  std::vector<int> batch;
  std::vector<int> in;
  std::vector<int> out;
  const auto shared = [&](std::vector<int>& factor, std::int64_t extent, Kind kind) {
    if (factor.empty()) factor.push_back(factors.add(extent, kind));
    return factor;
  };
  const auto dims_of = [&](ConvArray array, const Shape& shape) {
    const int rank = shape.rank();
    ir::FactorDims dims(static_cast<std::size_t>(rank));
    for (int d = 0; d < rank; ++d) {
      std::vector<int>& own = dims[static_cast<std::size_t>(d)];
      if (array != ConvArray::kernel && d == 0)
        own = shared(batch, shape[d], Kind::sum);
      else if (d + 1 == rank)
        own = array == ConvArray::x ? shared(in, shape[d], features) : shared(out, shape[d], features);
      else if (array == ConvArray::kernel && d + 2 == rank)
        own = features == Kind::sum ? shared(in, shape[d], features)
                                    : std::vector<int>{factors.add(shape[d], Kind::whole)};
      else
        own = {factors.add(shape[d], Kind::whole)};
    }
    return dims;
  };
  std::size_t operand = 0;
  for (const ConvArray array : {ConvArray::x, ConvArray::y, ConvArray::kernel}) {
    if (array == result) continue;
    factors.operands.push_back(dims_of(array, context.inputs[operand++].shape));
  }
  factors.results = {dims_of(result, context.outputs[0].shape)};
  return factors;
}

}  // namespace lockstep::ops
