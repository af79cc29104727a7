#include <cstdint>
#include <numbers>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/random.h>

#include "engine/api/numpy/operands.h"
#include "engine/api/random/random_draws.h"

namespace lockstep::random {

namespace {

/// Bounds from here on, on either side, are a tail: erf has few numbers left between its value there and 1.
constexpr double tail_start = 2;

/// Mills' ratio (1 - Phi(x)) / phi(x) for x >= 2, by Laplace's continued fraction: to float32's rounding in 16 terms, to
/// 1e-9 in 40.
Array mills_ratio(const Array& x) {
  Array denominator = x;
  for (int k = x.dtype() == float64 ? 40 : 16; k > 0; --k) denominator = add(x, div(k, denominator));
  return div(1, denominator);
}

/// log of (1 - Phi(low + distance)) / (1 - Phi(low)), with no difference of large numbers.
Array log_survival(const Array& low, const Array& distance) {
  const Array falls = mul(distance, add(low, mul(distance, 0.5)));
  return sub(log(div(mills_ratio(add(low, distance)), mills_ratio(low))), falls);
}

/// The standard normal of (low, high), low >= 2, at a quantile in [0, 1): its distance from low by Newton's method on the
/// logarithm of the survival function, which is almost a parabola.
Array tail_at(const Array& quantile, const Array& low, const Array& high) {
  const Array width = sub(high, low);
  const Array bounded = less(width, api::infinity);
  const Array mass = where(bounded, neg(expm1(log_survival(low, where(bounded, width, 1)))), 1);
  const Array target = log1p(neg(mul(quantile, mass)));
  Array distance = div(mul(target, -2), add(low, sqrt(sub(square(low), mul(target, 2)))));
  for (int i = low.dtype() == float64 ? 4 : 3; i > 0; --i) {
    const Array missing = sub(log_survival(low, distance), target);
    distance = add(distance, mul(missing, mills_ratio(add(low, distance))));
  }
  return add(low, distance);
}

/// As JAX draws: erf_inv of a uniform between the bounds' erf, neither end reached.
Array by_erf(const Array& unit, const Array& low, const Array& high) {
  const double nearest_to_one = 1 - format_of(unit.dtype()).epsilon() / 2;
  const Array inner = stretched(unit, erf(div(low, std::numbers::sqrt2)), erf(div(high, std::numbers::sqrt2)));
  return mul(erf_inv(clip(inner, -nearest_to_one, nearest_to_one)), std::numbers::sqrt2);
}

Array by_tail(const Array& unit, const Array& low, const Array& high, const Array& is_upper) {
  const DType wide = promote(unit.dtype(), float32);
  // The lower tail is the upper one of -x; where neither is meant any numbers will do.
  const auto start = convert(maximum(where(is_upper, low, neg(high)), tail_start), wide);
  const auto end = convert(where(is_upper, high, neg(low)), wide);
  const Array x = convert(tail_at(convert(unit, wide), start, end), unit.dtype());
  return where(is_upper, x, neg(x));
}

/// Whether all, none, or perhaps some of the bounds are a tail.
enum class Tails : std::uint8_t { none, all, some };

Tails tails_of(const Operand& low, const Operand& high) {
  const auto beyond = [](double a, double b) { return a >= tail_start || b <= -tail_start; };
  if (low.is_scalar() && high.is_scalar()) return beyond(low.real(), high.real()) ? Tails::all : Tails::none;
  return Tails::some;
}

}  // namespace

Array truncated_normal(const ArrayOperand& key, const Operand& low, const Operand& high, const Shape& shape,
                       DType dtype, const Placement& placement) {
  if (low.is_scalar() && high.is_scalar() && !(low.real() < high.real())) {
    throw ValueError(
        fmt::format("random::truncated_normal: low must be below high, got {} and {}", low.real(), high.real()));
  }
  const Array unit = draw_unit("truncated_normal", key, shape, dtype, placement);
  const Array lower = parameter("truncated_normal", low, dtype, shape);
  const Array upper = parameter("truncated_normal", high, dtype, shape);
  const Tails tails = tails_of(low, high);
  const Array is_upper = greater_equal(lower, tail_start);
  Array x;
  if (tails != Tails::all) x = by_erf(unit, lower, upper);
  if (tails != Tails::none) {
    const Array of_tail = by_tail(unit, lower, upper, is_upper);
    x = tails == Tails::all ? of_tail : where(bitwise_or(is_upper, less_equal(upper, -tail_start)), of_tail, x);
  }
  return clip(x, nextafter(stop_gradient(lower), api::infinity), nextafter(stop_gradient(upper), -api::infinity));
}

}  // namespace lockstep::random
