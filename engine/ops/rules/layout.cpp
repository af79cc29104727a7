#include "engine/ops/rules/layout.h"

#include <algorithm>
#include <string>

#include "engine/ops/primitives.h"

namespace lockstep::ops::layout {

namespace {

/// The first operand, or the first result where there is none.
const ArrayType& first_type(const LayoutContext& context) {
  return context.inputs.empty() ? context.outputs[0] : context.inputs[0];
}

/// The same dimensions for every operand and result.
Factors shared(const LayoutContext& context, Factors factors, const ir::FactorDims& dims) {
  factors.operands.assign(context.inputs.size(), dims);
  factors.results.assign(context.outputs.size(), dims);
  return factors;
}

}  // namespace

ir::FactorDims own_dims(Factors& factors, const Shape& shape, Kind kind) {
  ir::FactorDims dims;
  for (const std::int64_t extent : shape) dims.push_back({factors.add(extent, kind)});
  return dims;
}

Attrs with_block_shape(const BlockContext& context, const char* name) {
  return context.attrs.with(name, context.outputs[0].shape.to_vector());
}

LayoutRule pointwise() {
  return {.factors = [](const LayoutContext& context) {
    Factors factors;
    const ir::FactorDims dims = own_dims(factors, first_type(context).shape);
    return shared(context, std::move(factors), dims);
  }};
}

LayoutRule rounding() {
  LayoutRule rule = pointwise();
  rule.passes_sums = false;
  return rule;
}

LayoutRule leading(int tail) {
  return {.factors = [tail](const LayoutContext& context) {
    Factors factors;
    const Shape& first = context.inputs[0].shape;
    const int together = std::max(first.rank() - tail, 0);
    ir::FactorDims common;
    for (int d = 0; d < together; ++d) common.push_back({factors.add(first[d])});
    const auto dims_of = [&](const Shape& shape) {
      ir::FactorDims dims;
      for (int d = 0; d < shape.rank(); ++d) {
        const bool is_common = d < together && shape[d] == first[d];
        dims.push_back(is_common ? common[static_cast<std::size_t>(d)]
                                 : std::vector<int>{factors.add(shape[d], Kind::whole)});
      }
      return dims;
    };
    for (const ArrayType& type : context.inputs) factors.operands.push_back(dims_of(type.shape));
    for (const ArrayType& type : context.outputs) factors.results.push_back(dims_of(type.shape));
    return factors;
  }};
}

LayoutRule ends() {
  return {.factors = [](const LayoutContext& context) {
    Factors factors;
    const int first = factors.add(context.inputs[0].shape[0]);
    const int last = factors.add(context.inputs[0].shape.dim(-1));
    const auto dims_of = [&](const Shape& shape) {
      ir::FactorDims dims = {{first}};
      for (int d = 1; d + 1 < shape.rank(); ++d) dims.push_back({factors.add(shape[d], Kind::whole)});
      dims.push_back({last});
      return dims;
    };
    for (const ArrayType& type : context.inputs) factors.operands.push_back(dims_of(type.shape));
    for (const ArrayType& type : context.outputs) factors.results.push_back(dims_of(type.shape));
    return factors;
  }};
}

LayoutRule along(const char* axis) {
  return {.factors = [axis](const LayoutContext& context) {
    Factors factors;
    const Shape& first = context.inputs[0].shape;
    const auto whole = static_cast<int>(context.attrs.get<std::int64_t>(axis));
    ir::FactorDims dims;
    for (int d = 0; d < first.rank(); ++d)
      dims.push_back({factors.add(first[d], d == whole ? Kind::whole : Kind::sum)});
    factors.operands.assign(context.inputs.size(), dims);
    for (const ArrayType& type : context.outputs) {
      ir::FactorDims kept = dims;
      if (type.shape.rank() < first.rank()) kept.erase(kept.begin() + whole);
      factors.results.push_back(std::move(kept));
    }
    return factors;
  }};
}

LayoutRule reduction(Kind kind) {
  return {.factors = [kind](const LayoutContext& context) {
    Factors factors;
    const Shape& shape = context.inputs[0].shape;
    const auto& axes = context.attrs.get<Dims>("axes");
    ir::FactorDims all;
    ir::FactorDims kept;
    for (int d = 0; d < shape.rank(); ++d) {
      const bool is_reduced = std::ranges::find(axes, d) != axes.end();
      all.push_back({factors.add(shape[d], is_reduced ? kind : Kind::sum)});
      if (!is_reduced) kept.push_back(all.back());
    }
    factors.operands = {all};
    factors.results = {kept};
    return factors;
  }};
}

LayoutRule constant() {
  LayoutRule rule = pointwise();
  rule.attrs = [](const BlockContext& context) { return with_block_shape(context, "shape"); };
  rule.repeated = true;
  return rule;
}

Value block_number(const BlockContext& context, int factor) {
  ir::Builder& builder = context.builder;
  const auto index = [&](const std::string& axis) {
    return Value(builder,
                 builder.apply(primitives::axis_index(), std::span<const ir::Var>{}, {{"axis", axis}}).front());
  };
  const ir::CutAxes& axes = context.axes[static_cast<std::size_t>(factor)];
  if (axes.empty()) return full(builder, int32, Shape{}, 0);
  Value number = index(axes.front());
  for (std::size_t i = 1; i < axes.size(); ++i) {
    number = number * static_cast<double>(builder.axes().size(axes[i], "layout")) + index(axes[i]);
  }
  return number;
}

Value block_start(const BlockContext& context, int factor, std::int64_t block_extent) {
  return block_number(context, factor) * static_cast<double>(block_extent);
}

LocalIndices local_indices(const BlockContext& context, const Value& indices, int factor, std::int64_t whole,
                           std::int64_t block) {
  // int64 holds what a narrow or unsigned dtype cannot hold below zero.
  const bool may_wrap = indices.dtype() == uint64;
  const Value wide =
      convert(may_wrap ? minimum(indices, full_like(indices, static_cast<double>(whole - 1))) : indices, int64);
  const Value last = full_like(wide, static_cast<double>(whole - 1));
  const Value none = full_like(wide, 0);
  const Value inside = minimum(maximum(wide, none), last);
  const Value start = convert(block_start(context, factor, block), int64);
  const Value own = inside - broadcast_in_dim(start, indices.shape(), {});
  const Value end = full_like(own, static_cast<double>(block));
  const Value are_own = bitwise_and(greater_equal(own, none), less(own, end));
  return {select(are_own, own, none), are_own};
}

}  // namespace lockstep::ops::layout
