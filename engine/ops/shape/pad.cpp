#include "engine/core/checked_sizes.h"
#include "engine/ops/rules/define.h"
#include "engine/ops/rules/layout.h"

namespace lockstep::ops {

namespace {

Attrs pad_attrs(const Dims& low, const Dims& high, const Dims& interior) {
  return {{"low", low}, {"high", high}, {"interior", interior}};
}

std::vector<ArrayType> pad_infer(const ir::InferContext& context) {
  infer::expect_operands(context, 2);
  infer::expect_dtype(context, 0, infer::value);
  infer::expect_same_dtype(context);
  infer::expect_rank(context, 1, 0);
  const Shape& x = context.inputs[0].shape;
  const auto& low = infer::list_attr(context, "low", x.rank());
  const auto& high = infer::list_attr(context, "high", x.rank());
  const auto& interior = infer::list_attr(context, "interior", x.rank());
  Shape result;
  for (int i = 0; i < x.rank(); ++i) {
    const auto d = static_cast<std::size_t>(i);
    if (interior[d] < 0) infer::shape_error(context, "interior of 0 or more", "slice with strides to drop elements");
    const std::int64_t between = x[i] > 0 ? checked_product(x[i] - 1, interior[d], context.op) : 0;
    const std::int64_t extent = checked_sum(checked_sum(x[i], between, context.op), low[d] + high[d], context.op);
    if (extent < 0) {
      infer::shape_error(context,
                         "an extent of 0 or more in dimension " + std::to_string(i) + ", not " + std::to_string(extent),
                         "crop by less");
    }
    result.append(extent);
  }
  return {{context.inputs[0].dtype, result, {}}};
}

Dims negated_dims(const Dims& dims) {
  Dims result;
  for (const std::int64_t dim : dims) result.push_back(-dim);
  return result;
}

Value pad_operand_cotangent(const TransposeContext& context, const Value& ct) {
  const auto& interior = context.attrs.get<Dims>("interior");
  const Dims none(interior.size(), 0);
  const Value cropped =
      pad(ct, 0, negated_dims(context.attrs.get<Dims>("low")), negated_dims(context.attrs.get<Dims>("high")), none);
  if (interior == none) return cropped;
  Dims strides;
  for (const std::int64_t holes : interior) strides.push_back(holes + 1);
  return slice(cropped, none, cropped.shape().to_vector(), strides);
}

/// True where the result is padding.
Value padding_mask(ir::Builder& builder, const Shape& x, const Attrs& attrs) {
  const Value inside = full(builder, DType::bool_, x, 0);
  return apply_one(primitives::pad(), {inside, full(builder, DType::bool_, Shape{}, 1)}, attrs);
}

std::vector<Tangent> pad_transpose(const TransposeContext& context) {
  const Value& ct = *context.cotangents[0];
  std::vector<Tangent> result(2);
  if (!context.inputs[0]) result[0] = pad_operand_cotangent(context, ct);
  if (!context.inputs[1]) {
    const Value mask = padding_mask(context.builder, context.input_types[0].shape, context.attrs);
    result[1] = reduce_sum(select(mask, ct, full_like(ct, 0)), all_dims(ct.rank()));
  }
  return result;
}

std::vector<Value> pad_batch(const ir::BatchContext& context) {
  const Value x = batch::batched(context, 0);
  const Attrs attrs = pad_attrs(batch::prepended(0, context.attrs.get<Dims>("low")),
                                batch::prepended(0, context.attrs.get<Dims>("high")),
                                batch::prepended(0, context.attrs.get<Dims>("interior")));
  if (!context.batched[1]) return {apply_one(primitives::pad(), {x, context.inputs[1]}, attrs)};
  const Value padded = apply_one(primitives::pad(), {x, full(context.builder, x.dtype(), Shape{}, 0)}, attrs);
  const Value fill = broadcast_in_dim(context.inputs[1], padded.shape(), {0});
  return {select(padding_mask(context.builder, x.shape(), attrs), fill, padded)};
}

void pad_reference(const ir::ReferenceContext& context) {
  const Shape& x = context.inputs[0].type.shape;
  const auto& low = context.attrs.get<Dims>("low");
  const auto& interior = context.attrs.get<Dims>("interior");
  std::int64_t i = 0;
  reference::for_each_index(context.outputs[0].type.shape, [&](const reference::Index& index) {
    reference::Index from = index;
    bool inside = true;
    for (std::size_t d = 0; d < from.size(); ++d) {
      const std::int64_t position = index[d] - low[d];
      from[d] = position / (interior[d] + 1);
      inside = inside && position >= 0 && position % (interior[d] + 1) == 0 && from[d] < x[static_cast<int>(d)];
    }
    const std::int64_t at = inside ? reference::offset(x, from) : 0;
    reference::copy_element(context.inputs[inside ? 0 : 1], at, context.outputs[0], i++);
  });
}

std::vector<ir::Sample> pad_samples() {
  std::vector<ir::Sample> result;
  for (const DType dtype : {DType::float64, DType::float32, DType::bfloat16, DType::int32, DType::bool_}) {
    const auto add = [&](const Shape& shape, const Dims& low, const Dims& high, const Dims& interior) {
      result.push_back({{samples::input(dtype, shape, {0, 2}), samples::input(dtype, Shape{}, {0, 2})},
                        pad_attrs(low, high, interior),
                        {}});
    };
    add(Shape{3}, {1}, {2}, {0});
    add(Shape{3}, {0}, {1}, {2});
    add(Shape{5}, {-1}, {-2}, {0});
    add(Shape{4}, {-2}, {1}, {1});
    add(Shape{2, 3}, {1, 0}, {0, 2}, {0, 1});
    add(Shape{0}, {1}, {1}, {3});
    add(Shape{1}, {0}, {0}, {3});
    add(Shape{}, {}, {}, {});
  }
  return result;
}

const ArrayType scalar_type{DType::float32, Shape{}, {}};

/// Dimensions without padding run together, the others are whole.
ir::Factors pad_factors(const ir::LayoutContext& context) {
  ir::Factors factors;
  const Shape& x = context.inputs[0].shape;
  const auto is_none = [&](const char* name, int d) {
    return context.attrs.get<Dims>(name)[static_cast<std::size_t>(d)] == 0;
  };
  ir::FactorDims dims;
  for (int d = 0; d < x.rank(); ++d) {
    const bool is_kept = is_none("low", d) && is_none("high", d) && is_none("interior", d);
    dims.push_back({factors.add(x[d], is_kept ? ir::Factor::Kind::sum : ir::Factor::Kind::whole)});
  }
  factors.operands = {dims, {}};
  factors.results = {dims};
  return factors;
}

}  // namespace

const Primitive& primitives::pad() {
  static const Primitive op{
      .name = "pad",
      .infer = pad_infer,
      .derivative = derivative::linear(pad_transpose, {0, 1}),
      .batch = pad_batch,
      .reference = pad_reference,
      .samples = pad_samples,
      .error_samples = samples::errors(
          {{{samples::float32_vector, samples::float32_vector},
            pad_attrs({0}, {0}, {0}),
            "expected rank 0 for operand 1",
            {}},
           {{samples::float32_vector, {DType::int32, Shape{}, {}}},
            pad_attrs({0}, {0}, {0}),
            "operands of one dtype",
            {}},
           {{samples::float32_vector, scalar_type}, pad_attrs({0}, {0}, {-1}), "interior of 0 or more", {}},
           {{samples::float32_vector, scalar_type},
            pad_attrs({-2}, {-2}, {0}),
            "an extent of 0 or more in dimension 0, not -1",
            {}},
           {{samples::float32_vector, scalar_type}, pad_attrs({0, 0}, {0}, {0}), "expected 1 numbers in low", {}}}),
      .traits = {},
      .equal_to = algebra::operand_where([](const Attrs& attrs) {
        return algebra::all_equal(attrs.get<Dims>("low"), 0) && algebra::all_equal(attrs.get<Dims>("high"), 0) &&
               algebra::all_equal(attrs.get<Dims>("interior"), 0);
      }),
      .layout = {.factors = pad_factors}};
  return op;
}

}  // namespace lockstep::ops
