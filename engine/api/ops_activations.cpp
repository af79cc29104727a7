#include <cmath>
#include <limits>
#include <numbers>

#include <lockstep/activations.h>
#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "engine/api/axes.h"
#include "engine/api/operands.h"

namespace lockstep {

namespace {

Array floats(const Array& x) { return convert(x, api::inexact(x.dtype())); }

/// x less its maximum along the axis, which no derivative sees.
Array shifted(const Array& x, std::int64_t axis) {
  const Array value = floats(x);
  return sub(value, stop_gradient(max(value, Axes{axis}, true)));
}

}  // namespace

Array relu(const Array& x) {
  // A NaN compares false and so passes through.
  return where(less_equal(x, 0), 0, x);
}

Array sigmoid(const Array& x) { return logistic(x); }

Array silu(const Array& x) {
  const Array value = floats(x);
  return mul(value, logistic(value));
}

Array softplus(const Array& x) {
  const Array value = floats(x);
  return add(maximum(value, 0), log1p(exp(neg(abs(value)))));
}

Array gelu(const Array& x, bool approximate) {
  const Array value = floats(x);
  if (!approximate) {
    const double sqrt_half = std::sqrt(0.5);
    return mul(mul(value, 0.5), add(erf(mul(value, sqrt_half)), 1));
  }
  const double sqrt_2_over_pi = 0.79788456080286535588;
  const Array cubic = add(value, mul(mul(square(value), value), 0.044715));
  return mul(mul(value, 0.5), add(tanh(mul(cubic, sqrt_2_over_pi)), 1));
}

Array softmax(const Array& x, std::int64_t axis) {
  const Array weights = exp(shifted(x, axis));
  return div(weights, sum(weights, Axes{axis}, true));
}

Array log_softmax(const Array& x, std::int64_t axis) {
  const Array value = shifted(x, axis);
  return sub(value, log(sum(exp(value), Axes{axis}, true)));
}

Array relu6(const Array& x) {
  const Array value = floats(x);
  return where(less_equal(value, 0), 0, where(greater_equal(value, 6), 6, value));
}

Array elu(const Array& x, double alpha) {
  const Array value = floats(x);
  const Array above = greater(value, 0);
  return where(above, value, mul(expm1(where(above, 0, value)), alpha));
}

Array celu(const Array& x, double alpha) {
  const Array value = floats(x);
  const Array above = greater(value, 0);
  return where(above, value, mul(expm1(div(where(above, 0, value), alpha)), alpha));
}

Array selu(const Array& x) {
  const double alpha = 1.6732632423543772848, scale = 1.0507009873554804934;
  return mul(elu(x, alpha), scale);
}

Array glu(const Array& x, std::int64_t axis) {
  const std::vector<Array> halves = split(floats(x), 2, axis);
  return mul(halves[0], logistic(halves[1]));
}

Array leaky_relu(const Array& x, double negative_slope) {
  const Array value = floats(x);
  return where(greater_equal(value, 0), value, mul(value, negative_slope));
}

Array hard_tanh(const Array& x) {
  const Array value = floats(x);
  return where(greater(value, 1), 1, where(less(value, -1), -1, value));
}

Array hard_sigmoid(const Array& x) { return div(relu6(add(floats(x), 3)), 6); }

Array hard_silu(const Array& x) {
  const Array value = floats(x);
  return mul(value, hard_sigmoid(value));
}

Array log_sigmoid(const Array& x) { return neg(softplus(neg(floats(x)))); }

Array mish(const Array& x) {
  const Array value = floats(x);
  return mul(value, tanh(softplus(value)));
}

Array squareplus(const Array& x, double b) {
  const Array value = floats(x);
  return mul(add(value, sqrt(add(square(value), b))), 0.5);
}

Array soft_sign(const Array& x) {
  const Array value = floats(x);
  return div(value, add(abs(value), 1));
}

Array sparse_plus(const Array& x) {
  const Array value = floats(x);
  const Array between = mul(square(add(value, 1)), 0.25);
  return where(less_equal(value, -1), 0, where(greater_equal(value, 1), value, between));
}

Array sparse_sigmoid(const Array& x) { return mul(clip(add(floats(x), 1), 0, 2), 0.5); }

Array log1mexp(const Array& x) {
  const Array value = floats(x);
  const Array small = less(value, std::numbers::ln2);
  const Array near = log(neg(expm1(neg(where(small, value, 1)))));
  return where(small, near, log1p(neg(exp(neg(where(small, 1, value))))));
}

Array standardize(const Array& x, std::int64_t axis, double epsilon) {
  const Array value = convert(x, api::widened(x.dtype()));
  const Axes axes = api::resolve_axes(Axes{axis}, x.ndim(), "standardize");
  const Array centered = api::centered(value, axes);
  const Array scale = rsqrt(add(mean(square(centered), axes, true), epsilon));
  return convert(mul(centered, scale), api::inexact(x.dtype()));
}

Array softmax(const Array& x, const Array& mask, std::int64_t axis) { return exp(log_softmax(x, mask, axis)); }

Array log_softmax(const Array& x, const Array& mask, std::int64_t axis) {
  const double infinity = std::numeric_limits<double>::infinity();
  const Array value = floats(x);
  const Array held = broadcast_to(mask, value.shape());
  const Array top = stop_gradient(max(where(held, value, -infinity), Axes{axis}, true));
  const Array moved = sub(where(held, value, 0), where(is_finite(top), top, 0));
  const Array total = sum(where(held, exp(where(held, moved, 0)), 0), Axes{axis}, true);
  return where(held, sub(moved, log(where(equal(total, 0), 1, total))), -infinity);
}

}  // namespace lockstep
