#include <algorithm>

#include <lockstep/backend/round_up.h>

#include "engine/ops/rules/define.h"
#include "engine/ops/rules/layout.h"

namespace lockstep::ops {

namespace {

std::vector<ArrayType> slice_infer(const ir::InferContext& context) {
  infer::expect_operands(context, 1);
  const Shape& x = context.inputs[0].shape;
  const auto& start = infer::list_attr(context, "start", x.rank());
  const auto& limit = infer::list_attr(context, "limit", x.rank());
  const auto& strides = infer::list_attr(context, "strides", x.rank());
  Shape result;
  for (int i = 0; i < x.rank(); ++i) {
    const auto d = static_cast<std::size_t>(i);
    if (start[d] < 0 || start[d] > limit[d] || limit[d] > x[i]) {
      infer::shape_error(context,
                         "0 <= start <= limit <= " + std::to_string(x[i]) + " in dimension " + std::to_string(i),
                         "count from 0 and keep inside the operand");
    }
    if (strides[d] < 1) infer::shape_error(context, "strides of 1 or more", "use reverse to go backwards");
    result.append(backend::ceil_div(limit[d] - start[d], strides[d]));
  }
  return {{context.inputs[0].dtype, result, {}}};
}

Value slice_transpose(const TransposeContext& context, const Value& ct) {
  const Shape& x = context.input_types[0].shape;
  const auto& start = context.attrs.get<Dims>("start");
  const auto& strides = context.attrs.get<Dims>("strides");
  Dims high, interior;
  for (int i = 0; i < x.rank(); ++i) {
    const auto d = static_cast<std::size_t>(i);
    const std::int64_t count = ct.shape()[i];
    const std::int64_t covered = count == 0 ? 0 : (count - 1) * strides[d] + 1;
    high.push_back(x[i] - start[d] - covered);
    interior.push_back(strides[d] - 1);
  }
  return pad(ct, 0, start, high, interior);
}

std::int64_t slice_source(const ir::ReferenceContext& context, const reference::Index& index) {
  const auto& start = context.attrs.get<Dims>("start");
  const auto& strides = context.attrs.get<Dims>("strides");
  reference::Index from = index;
  for (std::size_t d = 0; d < from.size(); ++d) from[d] = start[d] + index[d] * strides[d];
  return reference::offset(context.inputs[0].type.shape, from);
}

Attrs slice_attrs(const Dims& start, const Dims& limit, const Dims& strides) {
  return {{"start", start}, {"limit", limit}, {"strides", strides}};
}

Attrs slice_batch(const ir::BatchContext& context) {
  return slice_attrs(batch::prepended(0, context.attrs.get<Dims>("start")),
                     batch::prepended(context.size, context.attrs.get<Dims>("limit")),
                     batch::prepended(1, context.attrs.get<Dims>("strides")));
}

std::vector<ir::Sample> slice_samples() {
  std::vector<ir::Sample> result;
  for (const DType dtype : {DType::float64, DType::float32, DType::bfloat16, DType::int32, DType::bool_, DType::key}) {
    const auto add = [&](const Shape& shape, const Dims& start, const Dims& limit, const Dims& strides) {
      result.push_back({{samples::input(dtype, shape, {0, 2})}, slice_attrs(start, limit, strides), {}});
    };
    add(Shape{5}, {1}, {4}, {1});
    add(Shape{7}, {1}, {7}, {3});
    add(Shape{8}, {0}, {7}, {3});
    add(Shape{4, 5}, {0, 2}, {4, 5}, {2, 1});
    add(Shape{3}, {2}, {2}, {1});
    add(Shape{}, {}, {}, {});
    add(Shape{0, 2}, {0, 1}, {0, 2}, {1, 1});
  }
  return result;
}

const std::vector<ArrayType> sliced_operands = {{DType::float32, Shape{5}, {}}};

ir::View slice_view(const Attrs& attrs, const Shape&, std::span<const std::int64_t> strides) {
  const auto& start = attrs.get<Dims>("start");
  const auto& steps = attrs.get<Dims>("strides");
  ir::View view;
  for (std::size_t d = 0; d < start.size(); ++d) {
    view.strides[d] = strides[d] * steps[d];
    view.offset += strides[d] * start[d];
  }
  return view;
}

/// Dimensions of which all elements are taken run together, the others are whole.
ir::Factors slice_factors(const ir::LayoutContext& context) {
  ir::Factors factors;
  const Shape& x = context.inputs[0].shape;
  ir::FactorDims dims;
  for (int d = 0; d < x.rank(); ++d) {
    const bool is_all = context.outputs[0].shape[d] == x[d];
    dims.push_back({factors.add(x[d], is_all ? ir::Factor::Kind::sum : ir::Factor::Kind::whole)});
  }
  factors.operands = factors.results = {dims};
  return factors;
}

Attrs slice_of_block(const ir::BlockContext& context) {
  Dims limit = context.attrs.get<Dims>("limit");
  for (std::size_t d = 0; d < limit.size(); ++d) {
    limit[d] = std::min(limit[d], context.inputs[0].shape()[static_cast<int>(d)]);
  }
  return context.attrs.with("limit", limit);
}

}  // namespace

const Primitive& primitives::slice() {
  static const Primitive op{
      .name = "slice",
      .infer = slice_infer,
      .derivative = derivative::linear_in_one(0, slice_transpose),
      .batch = batch::leading(slice, slice_batch),
      .reference = reference::moves(slice_source),
      .samples = slice_samples,
      .error_samples =
          samples::errors({{sliced_operands, slice_attrs({0}, {6}, {1}), "start <= limit <= 5 in dimension 0", {}},
                           {sliced_operands, slice_attrs({-1}, {3}, {1}), "0 <= start <= limit", {}},
                           {sliced_operands, slice_attrs({3}, {2}, {1}), "0 <= start <= limit", {}},
                           {sliced_operands, slice_attrs({0}, {3}, {0}), "strides of 1 or more", {}},
                           {sliced_operands, slice_attrs({0, 0}, {3}, {1}), "expected 1 numbers in start", {}}}),
      .traits = {.moves = ir::Moves::elsewhere},
      .equal_to = algebra::operand_where([](const Attrs& attrs) {
        return algebra::all_equal(attrs.get<Dims>("start"), 0) && algebra::all_equal(attrs.get<Dims>("strides"), 1);
      }),
      .view = slice_view,
      .layout = {.factors = slice_factors, .attrs = slice_of_block}};
  return op;
}

}  // namespace lockstep::ops
