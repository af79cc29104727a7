#include <cstdint>

#include "engine/ops/rules/define.h"
#include "engine/ops/rules/layout.h"

namespace lockstep::ops {

namespace {

std::vector<ArrayType> iota_infer(const ir::InferContext& context) {
  infer::expect_operands(context, 0);
  const DType dtype = context.attrs.get<DType>("dtype");
  if (!infer::real.contains(dtype))
    infer::dtype_error(context, "a float or integer dtype", "iota in int32 and convert");
  const Shape shape = infer::shape_attr(context, "shape");
  infer::index_attr(context, "dim", shape.rank());
  return {{dtype, shape, {}}};
}

void iota_reference(const ir::ReferenceContext& context) {
  ir::ReferenceArray& result = context.outputs[0];
  const auto dim = static_cast<std::size_t>(context.attrs.get<std::int64_t>("dim"));
  std::int64_t i = 0;
  reference::for_each_index(result.type.shape, [&](const reference::Index& index) {
    if (is_float(result.type.dtype)) {
      reference::store(result, i++, static_cast<double>(index[dim]));
    } else {
      reference::store(result, i++, index[dim]);
    }
  });
}

Attrs iota_attrs(DType dtype, const Dims& shape, std::int64_t dim) {
  return {{"dtype", dtype}, {"shape", shape}, {"dim", dim}};
}

std::vector<ir::Sample> iota_samples() {
  std::vector<ir::Sample> result;
  for (const DType dtype :
       {DType::float64, DType::float32, DType::bfloat16, DType::int32, DType::int64, DType::uint8}) {
    for (const Dims& shape : {Dims{5}, Dims{2, 3}, Dims{1}, Dims{0}, Dims{3, 0}}) {
      for (std::int64_t dim = 0; dim < static_cast<std::int64_t>(shape.size()); ++dim) {
        result.push_back({{}, iota_attrs(dtype, shape, dim), {}});
      }
    }
  }
  return result;
}

/// A block begins where its shard does.
ir::LayoutRule iota_layout() {
  ir::LayoutRule rule = layout::constant();
  rule.write = [](const ir::BlockContext& context) -> std::vector<Value> {
    const Attrs attrs = layout::with_block_shape(context, "shape");
    const auto dim = static_cast<int>(context.attrs.get<std::int64_t>("dim"));
    if (context.axes[static_cast<std::size_t>(dim)].empty()) {
      return {
          Value(context.builder, context.builder.apply(primitives::iota(), std::span<const ir::Var>{}, attrs).front())};
    }
    const Shape& block = context.outputs[0].shape;
    const Value start = convert(layout::block_start(context, dim, block[dim]), int64);
    const Value numbers = ops::iota(context.builder, int64, block, dim) + broadcast_in_dim(start, block, {});
    return {convert(numbers, context.outputs[0].dtype)};
  };
  return rule;
}

}  // namespace

const Primitive& primitives::iota() {
  static const Primitive op{
      .name = "iota",
      .infer = iota_infer,
      .derivative = derivative::zero(),
      .batch = batch::constant(iota),
      .reference = iota_reference,
      .samples = iota_samples,
      .error_samples = samples::errors({{{}, iota_attrs(DType::bool_, {2}, 0), "expected a float or integer dtype", {}},
                                        {{}, iota_attrs(DType::int32, {2}, 1), "expected dim in [0, 1)", {}},
                                        {{}, iota_attrs(DType::int32, {}, 0), "rank 1 or more", {}}}),
      .traits = {},
      .layout = iota_layout()};
  return op;
}

}  // namespace lockstep::ops
