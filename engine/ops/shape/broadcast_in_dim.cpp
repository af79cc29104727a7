#include <algorithm>

#include "engine/core/lists.h"
#include "engine/ops/rules/define.h"
#include "engine/ops/rules/layout.h"

namespace lockstep::ops {

namespace {

std::vector<ArrayType> broadcast_infer(const ir::InferContext& context) {
  infer::expect_operands(context, 1);
  const Shape& x = context.inputs[0].shape;
  const Shape shape = infer::shape_attr(context, "shape");
  infer::list_attr(context, "dims", x.rank());
  const auto& dims = infer::dims_attr(context, "dims", shape.rank());
  if (!std::is_sorted(dims.begin(), dims.end())) {
    infer::shape_error(context, "ascending dims", "transpose the operand first");
  }
  for (int i = 0; i < x.rank(); ++i) {
    const std::int64_t extent = shape[static_cast<int>(nth(dims, i))];
    if (x[i] != extent && x[i] != 1) {
      infer::shape_error(context, "extent 1 or " + std::to_string(extent) + " in dimension " + std::to_string(i),
                         "give it the extent of the result or 1");
    }
  }
  return {{context.inputs[0].dtype, shape, {}}};
}

Value broadcast_transpose(const TransposeContext& context, const Value& ct) {
  const Shape& x = context.input_types[0].shape;
  const auto& dims = context.attrs.get<Dims>("dims");
  Dims summed;
  for (std::int64_t d = 0; d < ct.rank(); ++d) {
    const auto found = std::find(dims.begin(), dims.end(), d);
    if (found == dims.end()) {
      summed.push_back(d);
    } else if (x[static_cast<int>(found - dims.begin())] != ct.shape()[static_cast<int>(d)]) {
      summed.push_back(d);
    }
  }
  return reshape(reduce_sum(ct, summed), x);
}

std::int64_t broadcast_source(const ir::ReferenceContext& context, const reference::Index& index) {
  const Shape& x = context.inputs[0].type.shape;
  const auto& dims = context.attrs.get<Dims>("dims");
  reference::Index from;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    from.push_back(x[static_cast<int>(i)] == 1 ? 0 : nth(index, dims[i]));
  }
  return reference::offset(x, from);
}

std::vector<ir::Sample> broadcast_samples() {
  std::vector<ir::Sample> result;
  for (const DType dtype : {DType::float64, DType::float32, DType::bfloat16, DType::int32, DType::bool_, DType::key}) {
    const auto add = [&](const Shape& from, const Dims& shape, const Dims& dims) {
      result.push_back({{samples::input(dtype, from, {0, 2})}, {{"shape", shape}, {"dims", dims}}, {}});
    };
    add(Shape{}, {2, 3}, {});
    add(Shape{3}, {2, 3}, {1});
    add(Shape{2}, {2, 3}, {0});
    add(Shape{1, 3}, {2, 3, 2}, {0, 1});
    add(Shape{2, 3}, {2, 3}, {0, 1});
    add(Shape{1}, {0, 2}, {0});
    add(Shape{1}, {1}, {0});
    add(Shape{3}, {0, 3}, {1});
  }
  return result;
}

ir::View broadcast_view(const Attrs& attrs, const Shape& operand, std::span<const std::int64_t> strides) {
  ir::View view;
  std::size_t d = 0;
  for (const std::int64_t to : attrs.get<Dims>("dims")) {
    nth(view.strides, to) = operand[static_cast<int>(d)] == 1 ? 0 : strides[d];
    ++d;
  }
  return view;
}

/// New dimensions, and those of extent 1 that become longer, may be cut in any way.
ir::LayoutRule broadcast_layout() {
  return {.factors =
              [](const ir::LayoutContext& context) {
                ir::Factors factors;
                ir::FactorDims to = layout::own_dims(factors, context.outputs[0].shape);
                ir::FactorDims from;
                const auto& dims = context.attrs.get<Dims>("dims");
                const Shape& shape = context.inputs[0].shape;
                for (std::size_t d = 0; d < dims.size(); ++d) {
                  const auto place = static_cast<std::size_t>(dims[d]);
                  const bool is_kept = shape[static_cast<int>(d)] == context.outputs[0].shape[static_cast<int>(place)];
                  from.push_back(is_kept ? to[place] : std::vector<int>{factors.add(1, ir::Factor::Kind::whole)});
                }
                factors.operands = {from};
                factors.results = {to};
                return factors;
              },
          .attrs = [](const ir::BlockContext& context) { return layout::with_block_shape(context, "shape"); },
          .repeated = true};
}

}  // namespace

const Primitive& primitives::broadcast_in_dim() {
  static const Primitive op{
      .name = "broadcast_in_dim",
      .infer = broadcast_infer,
      .derivative = derivative::linear_in_one(0, broadcast_transpose),
      .batch = batch::leading(broadcast_in_dim,
                              [](const ir::BatchContext& context) -> Attrs {
                                return {{"shape", batch::prepended(context.size, context.attrs.get<Dims>("shape"))},
                                        {"dims", batch::prepended(0, batch::shifted(context.attrs.get<Dims>("dims")))}};
                              }),
      .reference = reference::moves(broadcast_source),
      .samples = broadcast_samples,
      .error_samples = samples::errors(
          {{{{DType::float32, Shape{2}, {}}}, {{"shape", Dims{2, 3}}, {"dims", Dims{1}}}, "expected extent 1 or 3", {}},
           {{{DType::float32, Shape{2}, {}}},
            {{"shape", Dims{2, 3}}, {"dims", Dims{2}}},
            "distinct dims in [0, 2)",
            {}},
           {{{DType::float32, Shape{2}, {}}}, {{"shape", Dims{2, 3}}, {"dims", Dims{}}}, "expected 1 numbers", {}},
           {{{DType::float32, Shape{2, 3}, {}}}, {{"shape", Dims{3, 2}}, {"dims", Dims{1, 0}}}, "ascending dims", {}}}),
      .traits = {.moves = ir::Moves::repeated},
      .equal_to = algebra::operand(),
      .compose =
          [](const Attrs& outer, const Attrs& inner) {
            return outer.with("dims", algebra::composed(outer.get<Dims>("dims"), inner.get<Dims>("dims")));
          },
      .view = broadcast_view,
      .layout = broadcast_layout()};
  return op;
}

}  // namespace lockstep::ops
