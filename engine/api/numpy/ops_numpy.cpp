#include <cmath>
#include <limits>
#include <numbers>

#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "engine/api/linalg/exact_product.h"
#include "engine/api/numpy/axes.h"
#include "engine/api/numpy/operands.h"
#include "engine/api/numpy/weak_types.h"
#include "engine/api/transforms/bind.h"
#include "engine/ops/primitives.h"

namespace lockstep {

namespace {

/// Both at one dtype and one shape.
std::pair<Array, Array> common_pair(std::string_view op, const Operand& a, const Operand& b) {
  std::vector<Array> arrays = api::aligned(op, {&a, &b}, api::common_dtype({&a, &b}));
  return {std::move(arrays[0]), std::move(arrays[1])};
}

/// The larger of two and how far the other is below it. Equal ones are one side's, whose formulas hold for both: so their
/// derivatives are right there. In at least float32.
struct Ordered {
  Array larger, gap;
};
Ordered ordered(const Array& a, const Array& b) {
  const Array x = convert(a, api::widened(a.dtype())), y = convert(b, api::widened(b.dtype()));
  const Array first = greater(x, y);
  const Array same_infinity = logical_and(equal(x, y), isinf(x));  // They have no difference.
  const Array larger = where(first, x, where(same_infinity, maximum(x, y), y));
  return {larger, where(same_infinity, 0, where(first, sub(y, x), sub(x, y)))};
}

/// Integers to integer powers, by the exponent's bits; a negative exponent gives 0 but for x = 1 and -1.
Array integer_power(const Array& x, const Array& exponent) {
  const int bits = static_cast<int>(size_of(exponent.dtype())) * 8 - (is_signed_integer(exponent.dtype()) ? 1 : 0);
  Array square = x, rest = exponent, result = ones_like(x);
  for (int bit = 0; bit < bits; ++bit) {
    result = where(not_equal(bitwise_and(rest, 1), 0), mul(result, square), result);
    if (bit + 1 == bits) break;
    rest = shift_right_logical(rest, 1);
    square = mul(square, square);
  }
  if (!is_signed_integer(exponent.dtype())) return result;
  const Array odd = not_equal(bitwise_and(exponent, 1), 0);
  const Array inverse = where(equal(x, 1), 1, where(equal(x, -1), where(odd, full_like(x, -1), 1), zeros_like(x)));
  return where(less(exponent, 0), inverse, result);
}

/// sin(z) / z by Taylor's series in s = z^2, for |z| < 1: the quotient's derivatives would lose their digits.
Array sine_ratio(const Array& s) {
  Array sum = full_like(s, 0);
  for (int k = 11; k >= 1; --k) sum = mul(sub(1, sum), mul(s, 1.0 / (2 * k * (2 * k + 1))));
  return sub(1, sum);
}

/// sin(pi x), 0 at integers: of what is left of x beside the nearest one.
Array sin_pi(const Array& x) {
  const Array whole = round(x), half = mul(whole, 0.5);
  const Array sign = where(equal(floor(half), half), ones_like(x), -1);
  const api::Product angle = api::exact_product(sub(x, whole), std::numbers::pi_v<long double>);
  return mul(sign, add(sin(angle.high), mul(angle.rest, cos(angle.high))));
}

}  // namespace

Array integer_pow(const ArrayOperand& x, std::int64_t exponent) {
  return api::bind_one(ops::primitives::integer_pow(), {x}, {{"exponent", exponent}});
}

Array power(const Operand& x, const Operand& exponent) {
  const DType dtype = api::common_dtype({&x, &exponent});
  const bool known = exponent.is_scalar() && exponent.kind() == ScalarKind::integer && !exponent.is_above_int64();
  const bool scalar = known && !x.is_scalar() && !api::is_weak(x.array());
  if (scalar && (is_inexact(dtype) || (is_integer(dtype) && exponent.integer() >= 0))) {
    return integer_pow(x.array(), exponent.integer());
  }
  if (is_inexact(dtype)) return pow(x, exponent);
  const auto [base, power] = common_pair("power", x, exponent);
  if (dtype == DType::bool_) return convert(logical_or(base, logical_not(power)), int32);
  return integer_power(base, power);
}

Array reciprocal(const Operand& x) { return div(1.0, x); }

Array hypot(const Operand& a, const Operand& b) {
  const auto [left, right] = api::inexact_pair("hypot", a, b);
  const bool of_complex = is_complex(left.dtype());
  const DType wide = api::widened(left.dtype());
  const Array x = of_complex ? abs(left) : convert(left, wide), y = of_complex ? abs(right) : convert(right, wide);
  // A constant to derivatives, which do not depend on it: a maximum would have a kink where both are equal.
  const Array larger = stop_gradient(maximum(abs(x), abs(y)));
  const Array zero = equal(larger, 0);
  const Array scale = where(logical_or(zero, isinf(larger)), 1, larger);
  const Array squares = add(square(div(x, scale)), square(div(y, scale)));
  const Array length = where(zero, 0, mul(scale, sqrt(where(zero, 1, squares))));
  // Whatever the other one is, NaN too.
  const Array result = where(logical_or(isinf(x), isinf(y)), std::numeric_limits<double>::infinity(), length);
  return of_complex ? result : convert(result, left.dtype());
}

Array log10(const Operand& x) { return div(log(x), std::numbers::ln10); }

Array logaddexp(const Operand& a, const Operand& b) {
  const auto [x, y] = api::inexact_pair("logaddexp", a, b);
  const Ordered pair = ordered(x, y);
  return convert(add(pair.larger, log1p(exp(pair.gap))), x.dtype());
}

Array logaddexp2(const Operand& a, const Operand& b) {
  const auto [x, y] = api::inexact_pair("logaddexp2", a, b);
  const Ordered pair = ordered(x, y);
  return convert(add(pair.larger, mul(log1p(exp2(pair.gap)), std::numbers::log2e)), x.dtype());
}

Array trunc(const Operand& x) { return where(less(x, 0), ceil(x), floor(x)); }

namespace {

/// Integers to a multiple of 10^digits, in integers: float64 holds only those below 2^53.
Array round_integers(const Array& x, int digits) {
  constexpr int most = 19;  // 10^19 is the last power below 2^64, and no integer reaches half of the next
  if (digits > most) return zeros_like(x);
  std::uint64_t power = 1;
  for (int i = 0; i < digits; ++i) power *= 10;
  const Array unit = full({}, power, uint64);
  const Array negative = less(x, 0);
  const Array size = convert(where(negative, sub(0, x), x), uint64);  // of the least one too, modulo 2^64
  const Array count = div(size, unit);
  const Array rest = sub(size, mul(count, unit)), missing = sub(unit, rest);
  const Array is_odd = equal(bitwise_and(count, 1), 1);
  const Array is_up = logical_or(greater(rest, missing), logical_and(equal(rest, missing), is_odd));
  const Array rounded = convert(mul(add(count, convert(is_up, uint64)), unit), x.dtype());
  return where(negative, sub(0, rounded), rounded);
}

}  // namespace

Array round(const Operand& x, int decimals) {
  if (decimals == 0) return round(x);
  const DType dtype = api::common_dtype({&x});
  if (!is_inexact(dtype)) {
    const Array value = std::move(api::weakly_aligned(ops::primitives::round().name, {&x}, dtype).front());
    if (dtype == DType::bool_) return decimals > 0 ? value : zeros_like(value);
    return decimals > 0 ? value : round_integers(value, -decimals);
  }
  const Array given = std::move(api::weakly_aligned(ops::primitives::round().name, {&x}, dtype).front());
  const Array value = api::widened(dtype) == dtype ? given : convert(given, api::widened(dtype));
  // A power of ten itself, whichever way: 0.1 is none.
  const double scale = std::pow(10.0, std::abs(decimals));
  const Array scaled = decimals > 0 ? mul(value, scale) : div(value, scale);
  const Array rounded = decimals > 0 ? div(round(scaled), scale) : mul(round(scaled), scale);
  // What is that large has no decimals; and no number reaches half of a unit that is infinite.
  const Array result =
      where(is_finite(decimals > 0 ? scaled : value), where(isnan(rounded), mul(value, 0), rounded), value);
  return value.dtype() == dtype ? result : convert(result, dtype);
}

Array reduce_precision(const ArrayOperand& x, int exponent_bits, int mantissa_bits) {
  return api::bind_one(
      ops::primitives::reduce_precision(), {x},
      {{"exponent_bits", std::int64_t{exponent_bits}}, {"mantissa_bits", std::int64_t{mantissa_bits}}});
}

Array sinc(const Operand& x) {
  const DType dtype = api::inexact(api::common_dtype({&x}));
  const Array given = std::move(api::aligned("sinc", {&x}, dtype).front());
  const Array value = is_complex(dtype) ? given : convert(given, api::widened(dtype));
  const Array z = mul(value, std::numbers::pi);
  const Array near = less(abs(z), 1);
  const Array series = sine_ratio(square(where(near, z, 0)));
  const Array far = is_complex(dtype) ? sin(where(near, 1, z)) : sin_pi(where(near, 1, value));
  return convert(where(near, series, div(far, where(near, 1, z))), dtype);
}

Array deg2rad(const Operand& x) { return mul(x, std::numbers::pi / 180); }
Array rad2deg(const Operand& x) { return mul(x, 180 / std::numbers::pi); }

Array heaviside(const Operand& x, const Operand& at_zero) {
  const auto [value, middle] = api::inexact_pair("heaviside", x, at_zero);
  const Array step = where(equal(value, 0), middle, where(less(value, 0), zeros_like(value), 1));
  return where(isnan(value), value, step);
}

Array fmod(const Operand& a, const Operand& b) {
  const auto [x, y] = common_pair("fmod", a, b);
  const Array rest = rem(x, y);
  return is_integer(x.dtype()) ? where(equal(y, 0), 0, rest) : rest;
}

Array remainder(const Operand& a, const Operand& b) {
  const auto [x, y] = common_pair("remainder", a, b);
  const Array rest = fmod(x, y);
  if (!is_float(x.dtype()) && !is_signed_integer(x.dtype())) return rest;
  const Array across = logical_and(not_equal(less(rest, 0), less(y, 0)), not_equal(rest, 0));
  return where(across, add(rest, y), rest);
}

Array mod(const Operand& a, const Operand& b) { return remainder(a, b); }

Array floor_divide(const Operand& a, const Operand& b) {
  const auto [x, y] = common_pair("floor_divide", a, b);
  const Array rest = fmod(x, y);
  const Array across = logical_and(not_equal(less(x, 0), less(y, 0)), not_equal(rest, 0));
  if (is_integer(x.dtype())) {
    return is_signed_integer(x.dtype()) ? sub(div(x, y), convert(across, x.dtype())) : div(x, y);
  }
  const Array quotient = div(x, y);
  const Array exact = div(sub(x, remainder(x, y)), y);
  const Array finite = where(logical_and(is_finite(quotient), is_finite(y)), round(exact), floor(quotient));
  const Array floored = where(logical_and(is_finite(x), logical_and(isinf(y), across)), -1, finite);
  return where(logical_and(isinf(x), not_equal(y, 0)), std::numeric_limits<double>::quiet_NaN(), floored);
}

std::pair<Array, Array> divmod(const Operand& a, const Operand& b) { return {floor_divide(a, b), remainder(a, b)}; }

std::pair<Array, Array> modf(const Operand& x) {
  const Array value = add(x, 0.0);
  const Array whole = trunc(value);
  return {copysign(where(isinf(value), 0, sub(value, whole)), value), whole};
}

Array polyval(const ArrayOperand& coefficients, const Operand& x) {
  if (coefficients.ndim() != 1) {
    throw ShapeError("polyval: coefficients of shape " + to_string(coefficients.shape()) +
                     "; expected one dimension; reshape them to [n]");
  }
  const auto coefficient = [&](std::int64_t i) { return squeeze(slice_in_dim(coefficients, i, i + 1, 0), {0}); };
  const Operand given = coefficients;
  const DType dtype = api::common_dtype({&given, &x});
  const Array value = std::move(api::aligned("polyval", {&x}, dtype).front());
  if (dtype == DType::bool_) {  // whose sum is `or`, whose product is `and`
    Array sum = zeros_like(value);
    for (std::int64_t i = 0; i < coefficients.dim(0); ++i) sum = logical_or(logical_and(sum, value), coefficient(i));
    return sum;
  }
  const DType wide = is_float(dtype) ? api::widened(dtype) : dtype;
  const Array place = convert(value, wide);
  Array sum = zeros_like(place);
  for (std::int64_t i = 0; i < coefficients.dim(0); ++i) {
    sum = add(mul(sum, place), convert(coefficient(i), wide));
  }
  return convert(sum, dtype);
}

}  // namespace lockstep
