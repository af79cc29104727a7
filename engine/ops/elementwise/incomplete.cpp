#include <lockstep/backend/special_functions.h>

#include "engine/ops/rules/define.h"

namespace lockstep::ops {

namespace {

/// factor * log(x), 0 where both are 0. Elsewhere a factor of 0 has its derivative, the logarithm.
Value times_log(const Value& factor, const Value& x) {
  const Value none = bitwise_and(equal(factor, full_like(factor, 0)), equal(x, full_like(x, 0)));
  return select(none, full_like(x, 0), factor * log(select(none, full_like(x, 1), x)));
}

/// The gamma distribution's density, the slope of igamma in x.
Value gamma_density(const Value& a, const Value& x) { return exp(times_log(a + full_like(a, -1), x) - x - lgamma(a)); }

/// The beta distribution's density, the slope of betainc in x.
Value beta_density(const Value& a, const Value& b, const Value& x) {
  const Value logarithm = times_log(a + full_like(a, -1), x) + times_log(b + full_like(b, -1), 1.0 - x);
  return exp(logarithm + lgamma(a + b) - lgamma(a) - lgamma(b));
}

using Contribution = derivative::Contribution;
using derivative::refused;

template <class F>
Primitive of_two_floats(std::string name, PrimitiveGetter self, F f, Contribution in_a, Contribution in_x) {
  return {.name = std::move(name),
          .infer = infer::same_shape(infer::floating, 2),
          .derivative = derivative::per_operand({std::move(in_a), std::move(in_x)}),
          .batch = batch::pointwise(self),
          .reference = reference::binary<double>(f),
          .samples = samples::both(samples::elementwise({{0.3, 6}, {0.1, 9}}, samples::all_floats),
                                   samples::elementwise({{12, 20}, {10, 25}})),
          .error_samples = samples::elementwise_errors(2, DType::float32, DType::int32),
          .traits = pointwise_traits};
}

}  // namespace

const Primitive& primitives::igamma() {
  static const Primitive op = of_two_floats(
      "igamma", igamma, backend::special::igamma,
      [](const JvpContext& context, const Value& da) -> Tangent {
        return da * ops::igamma_grad_a(context.inputs[0], context.inputs[1]);
      },
      [](const JvpContext& context, const Value& dx) -> Tangent {
        return dx * gamma_density(context.inputs[0], context.inputs[1]);
      });
  return op;
}

const Primitive& primitives::igammac() {
  static const Primitive op = of_two_floats(
      "igammac", igammac, backend::special::igammac,
      [](const JvpContext& context, const Value& da) -> Tangent {
        return da * -ops::igamma_grad_a(context.inputs[0], context.inputs[1]);
      },
      [](const JvpContext& context, const Value& dx) -> Tangent {
        return dx * -gamma_density(context.inputs[0], context.inputs[1]);
      });
  return op;
}

const Primitive& primitives::igamma_grad_a() {
  static const Primitive op =
      of_two_floats("igamma_grad_a", igamma_grad_a, backend::special::igamma_grad_a, refused("igamma_grad_a", "a"),
                    [](const JvpContext& context, const Value& dx) -> Tangent {
                      const Value &a = context.inputs[0], &x = context.inputs[1];
                      return dx * (gamma_density(a, x) * (ops::log(x) - ops::digamma(a)));
                    });
  return op;
}

const Primitive& primitives::betainc() {
  static const Primitive op{
      .name = "betainc",
      .infer = infer::same_shape(infer::floating, 3),
      .derivative = derivative::per_operand({refused("betainc", "a"), refused("betainc", "b"),
                                             [](const JvpContext& context, const Value& dx) -> Tangent {
                                               return dx * beta_density(context.inputs[0], context.inputs[1],
                                                                        context.inputs[2]);
                                             }}),
      .batch = batch::pointwise(betainc),
      .reference = reference::ternary<double>(backend::special::betainc),
      .samples = samples::both(samples::elementwise({{0.3, 6}, {0.3, 6}, {0.05, 0.95}}, samples::all_floats),
                               samples::elementwise({{12, 20}, {11, 30}, {0.2, 0.8}})),
      .error_samples = samples::elementwise_errors(3, DType::float32, DType::int32),
      .traits = pointwise_traits};
  return op;
}

}  // namespace lockstep::ops
