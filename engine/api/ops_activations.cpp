#include <cmath>

#include <lockstep/ops.h>

#include "engine/api/operands.h"

namespace lockstep {

namespace {

Array real(const Array& x) { return convert(x, api::inexact(x.dtype())); }

/// x less its maximum along the axis, which no derivative sees.
Array shifted(const Array& x, std::int64_t axis) {
  const Array value = real(x);
  return sub(value, stop_gradient(max(value, Axes{axis}, true)));
}

}  // namespace

Array relu(const Array& x) {
  // A NaN compares false and so passes through.
  return where(less_equal(x, 0), 0, x);
}

Array sigmoid(const Array& x) { return logistic(x); }

Array silu(const Array& x) {
  const Array value = real(x);
  return mul(value, logistic(value));
}

Array softplus(const Array& x) {
  const Array value = real(x);
  return add(maximum(value, 0), log1p(exp(neg(abs(value)))));
}

Array gelu(const Array& x, bool approximate) {
  const Array value = real(x);
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

}  // namespace lockstep
