#include <cstdint>

#include "engine/ops/cumulative/cumulative.h"
#include "engine/ops/rules/layout.h"

namespace lockstep::ops {

namespace {

/// dy[i] = a[i] dy[i-1] + (db[i] + da[i] y[i-1]).
std::vector<Tangent> recurrence_jvp(const JvpContext& context) {
  const Direction direction(context.attrs);
  if (context.inputs[0].type().size() == 0) return {std::nullopt};
  Tangent step = context.tangents[1];
  if (context.tangents[0]) {
    const Value before = previous(context.outputs[0], 0, direction.axis, direction.reverse);
    step = derivative::add_tangents(step, *context.tangents[0] * before);
  }
  return {linear_recurrence(context.inputs[0], *step, context.attrs)};
}

/// The recurrence run backwards, each factor one element further on.
std::vector<Tangent> recurrence_transpose(const TransposeContext& context) {
  const Direction direction(context.attrs);
  const Value& ct = *context.cotangents[0];
  if (ct.type().size() == 0) return {std::nullopt, ct};
  const Value factors = previous(*context.inputs[0], 0, direction.axis, !direction.reverse);
  return {std::nullopt, linear_recurrence(factors, ct, direction.against())};
}

derivative::Derivative recurrence_derivative() {
  derivative::Derivative result = derivative::jvp(recurrence_jvp);
  result.transpose = recurrence_transpose;
  result.linear_in = {1};
  return result;
}

void recurrence_reference(const ir::ReferenceContext& context) {
  const ir::ReferenceArray &a = context.inputs[0], &b = context.inputs[1];
  ir::ReferenceArray& y = context.outputs[0];
  for_each_along(b.type.shape, Direction(context.attrs), [&](std::int64_t at, std::int64_t before) {
    reference::dispatch<double, std::int64_t, std::uint64_t, Complex>(b.type.dtype, [&]<class T>() {
      const T added = reference::load<T>(b, at);
      const auto carried = [&] { return Product{}(reference::load<T>(a, at), reference::load<T>(y, before)); };
      reference::store(y, at, before < 0 ? added : Sum{}(carried(), added));
    });
  });
}

}  // namespace

const Primitive& primitives::linear_recurrence() {
  static const Primitive op{.name = "linear_recurrence",
                            .infer = cumulative_infer(infer::numeric, 2),
                            .derivative = recurrence_derivative(),
                            .batch = batch::along(linear_recurrence, "axis"),
                            .reference = recurrence_reference,
                            .flops = flops::per_element(0, 2),
                            .samples =
                                [] {
                                  return cumulative_samples(
                                      {DType::float64, DType::float32, DType::bfloat16, DType::complex128,
                                       DType::complex64, DType::int64, DType::int32, DType::int8, DType::uint8},
                                      -1, 1, 2);
                                },
                            .error_samples = cumulative_errors(DType::bool_, 2),
                            .traits = {},
                            .layout = layout::along("axis")};
  return op;
}

}  // namespace lockstep::ops
