#include <cstddef>
#include <vector>

#include "engine/ops/conv/geometry.h"
#include "engine/ops/primitives.h"
#include "engine/ops/rules/derivative.h"
#include "engine/ops/rules/infer.h"
#include "engine/ops/rules/layout.h"
#include "engine/ops/rules/samples.h"

namespace lockstep::ops {

namespace {

std::vector<ArrayType> infer_kernel_grad(const ir::InferContext& context) {
  const Shape shape = geometry_of_kernel_grad(context).kernel();
  return {{infer::product_dtype(context), shape, {}}};
}

Value kernel_grad_x_cotangent(const ir::TransposeContext& context, const Value& kernel, const Value& y) {
  return conv_input_grad(y, convert(kernel, y.dtype()), context.attrs.without("dtype"),
                         middle(context.input_types[0].shape, 1, 1));
}

Value kernel_grad_y_cotangent(const ir::TransposeContext& context, const Value& kernel, const Value& x) {
  return conv(x, convert(kernel, x.dtype()), context.attrs.without("dtype"));
}

Value batch_kernel_grad(const ir::BatchContext& context) {
  const Value& x = context.inputs[0];
  const Value& y = context.inputs[1];
  const Attrs& attrs = context.attrs;
  const Dims& window = attrs.get<Dims>("window");
  const std::int64_t groups = attrs.get<std::int64_t>("groups");
  const int last = static_cast<int>(window.size()) + 1;
  if (context.batched[0] && context.batched[1]) {
    const Attrs wide = with_groups_times(attrs, context.size);
    const Value kernel = conv_kernel_grad(merge_batch(x, last), merge_batch(y, last), wide, window);
    return split_batch(kernel, last, context.size);
  }
  if (context.batched[0]) {
    const Value kernel = conv_kernel_grad(merge_batch_in_groups(x, last, groups), y, attrs, window);
    return split_batch(kernel, last - 1, context.size);
  }
  const Value kernel = conv_kernel_grad(x, merge_batch_in_groups(y, last, groups), attrs, window);
  return split_batch_in_groups(kernel, last, context.size, groups);
}

void kernel_grad_reference(const ir::ReferenceContext& context) {
  const std::vector<ArrayType> types = {context.inputs[0].type, context.inputs[1].type};
  for_each_product(geometry_of_kernel_grad({"conv_kernel_grad", types, context.attrs, {}}),
                   [&](std::size_t i, std::size_t k, std::size_t o) {
                     add_product(context.outputs[0], k, context.inputs[0], i, context.inputs[1], o);
                   });
}

Attrs with_window(const ConvCase& c) { return conv_attrs(c.attrs).with("window", middle(c.kernel, 0, 2)); }

std::vector<ir::Sample> kernel_grad_samples() {
  std::vector<ir::Sample> list = conv_samples([](DType dtype, const ConvCase& c) -> ir::Sample {
    return {{samples::input(dtype, c.x), samples::input(dtype, c.y)}, with_window(c), {}};
  });
  const ConvCase c = conv_cases()[0];
  list.push_back(
      {{samples::input(bfloat16, c.x), samples::input(bfloat16, c.y)}, with_window(c).with("dtype", float32), {}});
  return list;
}

std::vector<ir::ErrorSample> kernel_grad_errors() {
  const auto f32 = [](const Shape& shape) { return ArrayType{float32, shape, {}}; };
  const std::vector<ArrayType> good = {f32({2, 5, 5, 4}), f32({2, 3, 3, 6})};
  const ConvAttrs plain{{1, 1}, {{0, 0}, {0, 0}}, {1, 1}, 1};
  const Attrs attrs = conv_attrs(plain).with("window", Dims{3, 3});
  return {
      {{good[0]}, attrs, "expected 2 operands", {}},
      {{good[0], {float64, {2, 3, 3, 6}, {}}}, attrs, "operands of one dtype", {}},
      {{good[0], f32({1, 3, 3, 6})}, attrs, "as many rows N in y as in x", {}},
      {good, attrs.with("window", Dims{3, 2}), "y of spatial extents [3,4]", {}},
      {good, attrs.with("window", Dims{3, 6}), "along spatial dimension 1 6 (dilated) into 5", {}},
      {good, attrs.with("window", Dims{3}), "2 numbers in window", {}},
      {good, attrs.with("window", Dims{0, 3}), "window of at least 1", {}},
      {good, attrs.with("dtype", float64), "dtype=f32 of bfloat16 or float16 operands", {}},
      {good, attrs.with("groups", std::int64_t{3}), "groups that divide the 4 input and the 6 output", {}},
  };
}

}  // namespace

Value conv_kernel_grad(const Value& x, const Value& y, const Attrs& attrs, const Dims& window) {
  return apply_one(primitives::conv_kernel_grad(), {x, y}, attrs.without("spatial").with("window", window));
}

const ir::Primitive& primitives::conv_kernel_grad() {
  static const ir::Primitive primitive{
      .name = "conv_kernel_grad",
      .infer = infer_kernel_grad,
      .derivative = derivative::bilinear(kernel_grad_x_cotangent, kernel_grad_y_cotangent),
      .batch = conv_batch_rule(infer_kernel_grad, batch_kernel_grad),
      .reference = kernel_grad_reference,
      .flops = [](const ir::CostContext& c) { return conv_flops(c.inputs[1], c.outputs[0]); },
      .samples = kernel_grad_samples,
      .error_samples = kernel_grad_errors,
      .traits = {},
      .grouped = {.sum = "sum_of_kernel_grads"},
      .layout = {.factors = [](const ir::LayoutContext& context) { return conv_factors(context, ConvArray::kernel); }}};
  return primitive;
}

}  // namespace lockstep::ops
