#include <cstddef>
#include <vector>

#include "engine/ops/conv/geometry.h"
#include "engine/ops/primitives.h"
#include "engine/ops/rules/derivative.h"
#include "engine/ops/rules/layout.h"
#include "engine/ops/rules/samples.h"

namespace lockstep::ops {

namespace {

std::vector<ArrayType> infer_input_grad(const ir::InferContext& context) {
  const Shape shape = geometry_of_input_grad(context).x();
  return {{context.inputs[0].dtype, shape, {}}};
}

Value input_grad_y_cotangent(const ir::TransposeContext& context, const Value& x, const Value& kernel) {
  return conv(x, kernel, context.attrs);
}

Value input_grad_kernel_cotangent(const ir::TransposeContext& context, const Value& x, const Value& y) {
  return conv_kernel_grad(x, y, context.attrs, middle(context.input_types[1].shape, 0, 2));
}

Value batch_input_grad(const ir::BatchContext& context) {
  const Value& y = context.inputs[0];
  const Value& kernel = context.inputs[1];
  const Attrs& attrs = context.attrs;
  const Dims& spatial = attrs.get<Dims>("spatial");
  if (!context.batched[1]) {
    return split_batch(conv_input_grad(merge_batch(y, 0), kernel, attrs, spatial), 0, context.size);
  }
  const int last = kernel.rank() - 2;
  if (context.batched[0]) {
    const Attrs wide = with_groups_times(attrs, context.size);
    const Value x = conv_input_grad(merge_batch(y, last), merge_batch(kernel, last), wide, spatial);
    return split_batch(x, last, context.size);
  }
  const Value x = conv_input_grad(y, merge_batch(kernel, last - 1), attrs, spatial);
  return split_batch_in_groups(x, last, context.size, attrs.get<std::int64_t>("groups"));
}

void input_grad_reference(const ir::ReferenceContext& context) {
  const std::vector<ArrayType> types = {context.inputs[0].type, context.inputs[1].type};
  for_each_product(geometry_of_input_grad({"conv_input_grad", types, context.attrs, {}}),
                   [&](std::size_t i, std::size_t k, std::size_t o) {
                     add_product(context.outputs[0], i, context.inputs[0], o, context.inputs[1], k);
                   });
}

Attrs with_spatial(const ConvCase& c) { return conv_attrs(c.attrs).with("spatial", middle(c.x, 1, 1)); }

std::vector<ir::Sample> input_grad_samples() {
  return conv_samples([](DType dtype, const ConvCase& c) -> ir::Sample {
    return {{samples::input(dtype, c.y), samples::input(dtype, c.kernel)}, with_spatial(c), {}};
  });
}

std::vector<ir::ErrorSample> input_grad_errors() {
  const auto f32 = [](const Shape& shape) { return ArrayType{float32, shape, {}}; };
  const std::vector<ArrayType> good = {f32({2, 3, 3, 6}), f32({3, 3, 4, 6})};
  const ConvAttrs plain{{1, 1}, {{0, 0}, {0, 0}}, {1, 1}, 1};
  const Attrs attrs = conv_attrs(plain).with("spatial", Dims{5, 5});
  return {
      {{good[0]}, attrs, "expected 2 operands", {}},
      {{{bool_, {2, 3, 3, 6}, {}}, {int32, {3, 3, 4, 6}, {}}}, attrs, "a float or integer dtype", {}},
      {{good[0], f32({3, 3, 4, 5})}, attrs, "makes the 6 features of y, not 5", {}},
      {good, attrs.with("spatial", Dims{5, 6}), "y of spatial extents [3,4]", {}},
      {good, attrs.with("spatial", Dims{2, 5}), "along spatial dimension 0 3 (dilated) into 2", {}},
      {good, attrs.with("spatial", Dims{5}), "2 numbers in spatial", {}},
      {good, attrs.with("spatial", Dims{5, -1}), "spatial of at least 0", {}},
      {good, attrs.with("strides", Dims{0, 1}), "strides of at least 1", {}},
      {good, attrs.with("groups", std::int64_t{4}), "groups that divide the 16 input and the 6 output", {}},
  };
}

}  // namespace

Value conv_input_grad(const Value& y, const Value& kernel, const Attrs& attrs, const Dims& spatial) {
  return apply_one(primitives::conv_input_grad(), {y, kernel}, attrs.without("window").with("spatial", spatial));
}

const ir::Primitive& primitives::conv_input_grad() {
  static const ir::Primitive primitive{
      .name = "conv_input_grad",
      .infer = infer_input_grad,
      .derivative = derivative::bilinear(input_grad_y_cotangent, input_grad_kernel_cotangent),
      .batch = conv_batch_rule(infer_input_grad, batch_input_grad),
      .reference = input_grad_reference,
      .flops = [](const ir::CostContext& c) { return conv_flops(c.inputs[0], c.inputs[1]); },
      .samples = input_grad_samples,
      .error_samples = input_grad_errors,
      .traits = {},
      .grouped = {.of_shards = "conv_input_grad_of_shards"},
      .layout = {.factors = [](const ir::LayoutContext& context) { return conv_factors(context, ConvArray::x); }}};
  return primitive;
}

}  // namespace lockstep::ops
