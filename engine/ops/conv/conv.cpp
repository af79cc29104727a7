#include <cstddef>
#include <vector>

#include "engine/ops/conv/geometry.h"
#include "engine/ops/primitives.h"
#include "engine/ops/rules/derivative.h"
#include "engine/ops/rules/layout.h"
#include "engine/ops/rules/samples.h"

namespace lockstep::ops {

namespace {

std::vector<ArrayType> infer_conv(const ir::InferContext& context) {
  const Shape shape = geometry_of_conv(context).y();
  return {{context.inputs[0].dtype, shape, {}}};
}

Value conv_x_cotangent(const ir::TransposeContext& context, const Value& y, const Value& kernel) {
  return conv_input_grad(y, kernel, context.attrs, middle(context.input_types[0].shape, 1, 1));
}

Value conv_kernel_cotangent(const ir::TransposeContext& context, const Value& y, const Value& x) {
  return conv_kernel_grad(x, y, context.attrs, middle(context.input_types[1].shape, 0, 2));
}

Value batch_conv(const ir::BatchContext& context) {
  const Value& x = context.inputs[0];
  const Value& kernel = context.inputs[1];
  const Attrs& attrs = context.attrs;
  if (!context.batched[1]) return split_batch(conv(merge_batch(x, 0), kernel, attrs), 0, context.size);
  const int last = kernel.rank() - 2;
  if (context.batched[0]) {
    const Attrs wide = with_groups_times(attrs, context.size);
    return split_batch(conv(merge_batch(x, last), merge_batch(kernel, last), wide), last, context.size);
  }
  const std::int64_t groups = attrs.get<std::int64_t>("groups");
  const Value y = conv(x, merge_batch_in_groups(kernel, last, groups), attrs);
  return split_batch_in_groups(y, last, context.size, groups);
}

void conv_reference(const ir::ReferenceContext& context) {
  const std::vector<ArrayType> types = {context.inputs[0].type, context.inputs[1].type};
  for_each_product(geometry_of_conv({"conv", types, context.attrs, {}}),
                   [&](std::size_t i, std::size_t k, std::size_t o) {
                     add_product(context.outputs[0], o, context.inputs[0], i, context.inputs[1], k);
                   });
}

std::vector<ir::Sample> conv_op_samples() {
  return conv_samples([](DType dtype, const ConvCase& c) -> ir::Sample {
    return {{samples::input(dtype, c.x), samples::input(dtype, c.kernel)}, conv_attrs(c.attrs), {}};
  });
}

std::vector<ir::ErrorSample> conv_errors() {
  const auto f32 = [](const Shape& shape) { return ArrayType{float32, shape, {}}; };
  const std::vector<ArrayType> good = {f32({2, 5, 5, 4}), f32({3, 3, 4, 6})};
  const ConvAttrs plain{{1, 1}, {{0, 0}, {0, 0}}, {1, 1}, 1};
  const auto with = [&](auto&& change) {
    ConvAttrs changed = plain;
    change(changed);
    return conv_attrs(changed);
  };
  const Attrs attrs = conv_attrs(plain);
  return {
      {{good[0]}, attrs, "expected 2 operands", {}},
      {{{bool_, {2, 5, 5, 4}, {}}, {bool_, {3, 3, 4, 6}, {}}}, attrs, "a float or integer dtype", {}},
      {{good[0], {float64, {3, 3, 4, 6}, {}}}, attrs, "operands of one dtype", {}},
      {{good[0], f32({3, 4, 6})}, attrs, "operands of one rank", {}},
      {{f32({2, 4}), f32({4, 6})}, attrs, "at least 3", {}},
      {{good[0], f32({3, 3, 3, 6})}, attrs, "C/groups = 4 features, not 3", {}},
      {{good[0], f32({6, 3, 4, 6})}, attrs, "along spatial dimension 0 6 (dilated) into 5", {}},
      {{good[0], f32({0, 3, 4, 6})}, attrs, "a kernel of extent 1 or more", {}},
      {good,
       with([](ConvAttrs& c) {
         c.dilation = {1, 3};
       }),
       "along spatial dimension 1 7 (dilated) into 5",
       {}},
      {good,
       with([](ConvAttrs& c) {
         c.strides = {0, 1};
       }),
       "strides of at least 1",
       {}},
      {good, with([](ConvAttrs& c) { c.strides = {1}; }), "2 numbers in strides", {}},
      {good,
       with([](ConvAttrs& c) {
         c.dilation = {1, 0};
       }),
       "dilation of at least 1",
       {}},
      {good,
       with([](ConvAttrs& c) {
         c.padding = {{0, 0}};
       }),
       "padding of 2 pairs",
       {}},
      {good,
       with([](ConvAttrs& c) {
         c.padding = {{0, -1}, {0, 0}};
       }),
       "each 0 or more",
       {}},
      {good, attrs.with("sum_blocks", std::int64_t{2}), "floats and sum_blocks=1", {}},
      {good, with([](ConvAttrs& c) { c.groups = 0; }), "groups of at least 1", {}},
      {good, with([](ConvAttrs& c) { c.groups = 3; }), "groups that divide the 4 input and the 6 output", {}},
      {{f32({2, 5, 5, 4}), f32({3, 3, 1, 6})}, with([](ConvAttrs& c) { c.groups = 4; }), "groups that divide", {}},
  };
}

}  // namespace

Value conv(const Value& x, const Value& kernel, const Attrs& attrs) {
  return apply_one(primitives::conv(), {x, kernel}, attrs.without("spatial").without("window"));
}

const ir::Primitive& primitives::conv() {
  static const ir::Primitive primitive{
      .name = "conv",
      .infer = infer_conv,
      .derivative = derivative::bilinear(conv_x_cotangent, conv_kernel_cotangent),
      .batch = conv_batch_rule(infer_conv, batch_conv),
      .reference = conv_reference,
      .flops = [](const ir::CostContext& c) { return conv_flops(c.outputs[0], c.inputs[1]); },
      .samples = conv_op_samples,
      .error_samples = conv_errors,
      .traits = {},
      .grouped = {.of_shards = "conv_of_shards"},
      .layout = {.factors = [](const ir::LayoutContext& context) { return conv_factors(context, ConvArray::y); }}};
  return primitive;
}

}  // namespace lockstep::ops
