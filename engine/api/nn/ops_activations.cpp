#include <cmath>
#include <numbers>
#include <tuple>
#include <utility>

#include <lockstep/activations.h>
#include <lockstep/attention.h>
#include <lockstep/custom_derivatives.h>
#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "engine/api/numpy/axes.h"
#include "engine/api/numpy/operands.h"
#include "engine/core/scale_of_squares.h"

namespace lockstep {

namespace {

/// f where |x| is below `far`, from there on x above and 0 below: what f multiplies may be 0 times an infinity there.
template <class F>
Array rectifier(const Array& x, double far, F f) {
  return api::in_widened(x, [&](const Array& value) {
    const Array beyond = greater_equal(abs(value), far);
    const Array limit = where(greater(value, 0), value, 0);
    return where(beyond, limit, f(where(beyond, 0, value)));
  });
}

/// Beyond it e^-x is 0 in every dtype.
constexpr double all_decayed = 800;

/// Values less their maximum along the axis: 0 at the largest element, and so is that one's derivative. So the derivatives of what
/// follows hold how little is left beside the largest, which 1 less its share would round away.
Array less_maximum(const Array& value, std::int64_t axis) {
  const Array top = api::largest(value, api::resolve_axes(axis, value.ndim(), "softmax"), true);
  // An infinite one leaves nothing to the others.
  const Array infinite = logical_and(equal(value, top), isposinf(top));
  return sub(where(infinite, 0, value), where(infinite, 0, top));
}

/// What a softmax is made of. The largest elements are counted and the others summed by themselves, for beside them they
/// may be all that is left of a logarithm.
struct Shares {
  Array x;       ///< Less the largest.
  Array top;     ///< 1 where an element is the largest, else 0.
  Array count;   ///< How many are.
  Array weight;  ///< exp(x)
  Array others;  ///< The sum of all weights but those that are counted.

  Shares(const Array& value, std::int64_t axis)
      : x(less_maximum(value, axis)),
        top(convert(equal(x, 0), x.dtype())),
        count(sum(top, Axes{axis}, true)),
        weight(exp(x)),
        others(sum(sub(weight, top), Axes{axis}, true)) {}

  Array logarithms() const { return sub(x, add(log(count), log1p(div(others, count)))); }
};

/// The logarithms' tangent, (1 - p) dx less the other elements' p dx. Of a largest element 1 - p is what all others have;
/// and in reverse p multiplies the others' cotangents alone, so that a loss's gradient is not the difference of two ones.
Array logarithms_tangent(const Shares& s, const Array& dx, std::int64_t axis) {
  const Array total = add(s.count, s.others), p = div(s.weight, total);
  const Array left = add(sub(s.others, sub(s.weight, s.top)), sub(s.count, 1));
  const Array rest = where(equal(s.top, 1), div(left, total), sub(1, p));
  const Array moved = mul(p, dx);
  return sub(mul(rest, dx), sub(sum(moved, Axes{axis}, true), moved));
}

}  // namespace

Array relu(const ArrayOperand& x) {
  // A NaN compares false and so passes through.
  return where(less_equal(x, 0), 0, x);
}

Array sigmoid(const ArrayOperand& x) { return logistic(x); }

Array silu(const ArrayOperand& x) {
  return rectifier(x, all_decayed, [](const Array& value) { return mul(value, logistic(value)); });
}

Array softplus(const ArrayOperand& x) {
  return api::in_widened(x, [](const Array& value) {
    // One predicate for both parts: at 0 they are those of one side, whose derivatives are the function's.
    const Array above = greater(value, 0);
    return add(where(above, value, 0), log1p(exp(where(above, neg(value), value))));
  });
}

Array gelu(const ArrayOperand& x, bool approximate) {
  if (!approximate) {
    return rectifier(x, all_decayed, [](const Array& value) { return mul(value, ndtr(value)); });
  }
  return rectifier(x, all_decayed, [](const Array& value) {
    const double twice_sqrt_2_over_pi = 2 * 0.79788456080286535588;
    const Array cubic = add(value, mul(mul(square(value), value), 0.044715));
    // (1 + tanh(u)) / 2 is the logistic function of 2 u, which keeps its tail.
    return mul(value, logistic(mul(cubic, twice_sqrt_2_over_pi)));
  });
}

Array softmax(const ArrayOperand& x, std::int64_t axis) {
  axis = normalize_axis(axis, x.ndim(), __func__);
  return api::in_widened(x, [axis](const Array& value) {
    const Array weights = exp(less_maximum(value, axis));
    return div(weights, sum(weights, Axes{axis}, true));
  });
}

Array log_softmax(const ArrayOperand& x, std::int64_t axis) {
  axis = normalize_axis(axis, x.ndim(), __func__);
  const auto logarithms = [axis](const Array& value) { return Shares(value, axis).logarithms(); };
  const auto rule = [axis](const std::tuple<Array>& value, const std::tuple<Array>& tangent) {
    const Shares shares(std::get<0>(value), axis);
    return std::pair(shares.logarithms(), logarithms_tangent(shares, std::get<0>(tangent), axis));
  };
  return api::in_widened(x, custom_jvp(logarithms, rule, {.check = RuleCheck::never}));
}

Array relu6(const ArrayOperand& x) {
  const Array value = api::as_inexact(x);
  return where(less_equal(value, 0), 0, where(greater_equal(value, 6), 6, value));
}

Array elu(const ArrayOperand& x, double alpha) {
  const Array value = api::as_inexact(x);
  const Array above = greater(value, 0);
  return where(above, value, mul(expm1(where(above, 0, value)), alpha));
}

Array celu(const ArrayOperand& x, double alpha) {
  const Array value = api::as_inexact(x);
  const Array above = greater(value, 0);
  return where(above, value, mul(expm1(div(where(above, 0, value), alpha)), alpha));
}

Array selu(const ArrayOperand& x) {
  const double alpha = 1.6732632423543772848, scale = 1.0507009873554804934;
  return mul(elu(x, alpha), scale);
}

Array glu(const ArrayOperand& x, std::int64_t axis) {
  axis = normalize_axis(axis, x.ndim(), __func__);
  return api::in_widened(x, [axis](const Array& value) {
    const std::vector<Array> halves = split(value, 2, axis);
    return mul(halves[0], logistic(halves[1]));
  });
}

Array leaky_relu(const ArrayOperand& x, double negative_slope) {
  const Array value = api::as_inexact(x);
  return where(greater_equal(value, 0), value, mul(value, negative_slope));
}

Array hard_tanh(const ArrayOperand& x) {
  const Array value = api::as_inexact(x);
  return where(greater(value, 1), 1, where(less(value, -1), -1, value));
}

Array hard_sigmoid(const ArrayOperand& x) { return div(relu6(add(api::as_inexact(x), 3)), 6); }

Array hard_silu(const ArrayOperand& x) {
  return rectifier(x, 3, [](const Array& value) { return mul(value, hard_sigmoid(value)); });
}

Array log_sigmoid(const ArrayOperand& x) { return neg(softplus(neg(api::as_inexact(x)))); }

Array mish(const ArrayOperand& x) {
  return rectifier(x, all_decayed, [](const Array& value) { return mul(value, tanh(softplus(value))); });
}

Array squareplus(const ArrayOperand& x, double b) {
  return api::in_widened(x, [b](const Array& value) {
    const Array infinite = isinf(value), above = greater(value, 0);
    const Array finite = where(infinite, 0, value);
    const Array root = hypot(finite, std::sqrt(b));
    // Below 0 by the other form of the root, which cancels nothing.
    const Array half = mul(finite, 0.5), half_root = mul(root, 0.5);
    const Array upper = add(where(above, half, 0), half_root);
    const Array lower = div(0.25 * b, sub(half_root, where(above, 0, half)));
    return where(infinite, where(above, value, 0), where(above, upper, lower));
  });
}

Array soft_sign(const ArrayOperand& x) {
  return api::in_widened(x, [](const Array& value) {
    const Array size = abs(value), far = greater(size, 1);
    const Array near = where(far, 0, value);
    // Far from 0 as 1 less the rest, whose slope is the function's without a difference.
    const Array rest = div(1.0, add(where(far, size, 1), 1));
    return where(far, mul(sign(value), sub(1, rest)), div(near, add(abs(near), 1)));
  });
}

Array sparse_plus(const ArrayOperand& x) {
  return rectifier(x, 1, [](const Array& value) { return mul(square(add(value, 1)), 0.25); });
}

Array sparse_sigmoid(const ArrayOperand& x) { return mul(clip(add(api::as_inexact(x), 1), 0, 2), 0.5); }

Array log1mexp(const ArrayOperand& x) {
  const Array value = api::as_inexact(x);
  const Array small = less(value, std::numbers::ln2);
  const Array near = log(neg(expm1(neg(where(small, value, 1)))));
  return where(small, near, log1p(neg(exp(neg(where(small, 1, value))))));
}

Array standardize(const ArrayOperand& x, std::int64_t axis, double epsilon) {
  const Array value = convert(x, api::widened(x.dtype()));
  const Axes axes = api::resolve_axes(Axes{axis}, x.ndim(), "standardize");
  const double scale = scale_of_squares(value.dtype(), epsilon);
  const Array centered = mul(api::centered(value, axes), scale);
  const Array factor = rsqrt(add(mean(square(centered), axes, true), scale * scale * epsilon));
  return convert(mul(centered, factor), api::inexact(x.dtype()));
}

Array softmax(const ArrayOperand& x, const ArrayOperand& mask, std::int64_t axis) { return softmax(x, axis, mask); }

Array log_softmax(const ArrayOperand& x, const ArrayOperand& mask, std::int64_t axis) {
  return log_softmax(x, axis, mask);
}

}  // namespace lockstep
