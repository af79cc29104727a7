#include <cmath>
#include <limits>
#include <numbers>

#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "engine/api/bind.h"
#include "engine/api/operands.h"
#include "engine/ops/primitives.h"

namespace lockstep {

namespace {

/// Both at one float or complex dtype and one shape.
std::pair<Array, Array> inexact_pair(std::string_view op, const Operand& a, const Operand& b) {
  std::vector<Array> arrays = api::aligned(op, {&a, &b}, api::inexact(api::common_dtype({&a, &b})));
  return {std::move(arrays[0]), std::move(arrays[1])};
}

/// Both at one dtype and one shape.
std::pair<Array, Array> common_pair(std::string_view op, const Operand& a, const Operand& b) {
  std::vector<Array> arrays = api::aligned(op, {&a, &b}, api::common_dtype({&a, &b}));
  return {std::move(arrays[0]), std::move(arrays[1])};
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

}  // namespace

Array integer_pow(const Array& x, std::int64_t exponent) {
  return api::bind_one(ops::primitives::integer_pow(), {x}, {{"exponent", exponent}});
}

Array power(const Operand& x, const Operand& exponent) {
  const DType dtype = api::common_dtype({&x, &exponent});
  const bool scalar = exponent.is_scalar() && exponent.kind() == ScalarKind::integer && !x.is_scalar();
  if (scalar && (is_inexact(dtype) || (is_integer(dtype) && exponent.integer() >= 0))) {
    return integer_pow(x.array(), exponent.integer());
  }
  if (is_inexact(dtype) || dtype == DType::bool_) return pow(x, exponent);
  const auto [base, power] = common_pair("power", x, exponent);
  return integer_power(base, power);
}

Array reciprocal(const Operand& x) { return div(1.0, x); }

Array hypot(const Operand& a, const Operand& b) {
  const auto [left, right] = inexact_pair("hypot", a, b);
  const Array x = abs(left), y = abs(right);
  const Array high = maximum(x, y), low = minimum(x, y);
  const Array flat = logical_or(equal(high, 0), isinf(high));
  const Array ratio = where(flat, 0, div(low, where(flat, 1, high)));
  const Array length = mul(high, sqrt(add(square(ratio), 1)));
  return where(logical_or(isinf(x), isinf(y)), std::numeric_limits<double>::infinity(),
               length);  // Whatever the other one is, NaN too.
}

Array log10(const Operand& x) { return div(log(x), std::numbers::ln10); }

Array logaddexp(const Operand& a, const Operand& b) {
  const auto [x, y] = inexact_pair("logaddexp", a, b);
  const Array gap = where(equal(x, y), 0, sub(x, y));  // Equal infinities have no difference.
  return add(maximum(x, y), log1p(exp(neg(abs(gap)))));
}

Array logaddexp2(const Operand& a, const Operand& b) {
  return div(logaddexp(mul(a, std::numbers::ln2), mul(b, std::numbers::ln2)), std::numbers::ln2);
}

Array trunc(const Operand& x) { return where(less(x, 0), ceil(x), floor(x)); }

Array round(const Operand& x, int decimals) {
  if (decimals == 0) return round(x);
  const double scale = std::pow(10.0, decimals);
  const Array rounded = div(round(mul(x, scale)), scale);
  return x.is_scalar() || is_inexact(x.array().dtype()) ? rounded : convert(rounded, x.array().dtype());
}

Array reduce_precision(const Array& x, int exponent_bits, int mantissa_bits) {
  return api::bind_one(
      ops::primitives::reduce_precision(), {x},
      {{"exponent_bits", std::int64_t{exponent_bits}}, {"mantissa_bits", std::int64_t{mantissa_bits}}});
}

Array sinc(const Operand& x) {
  const Array z = mul(x, std::numbers::pi);
  const Array near = less(abs(z), 0.1);
  const Array safe = where(near, 1, z);
  const Array s = square(where(near, z, 0));
  // Taylor's polynomial near 0, for the derivatives' sake.
  Array sum = add(mul(s, 1.0 / 362880), -1.0 / 5040);
  sum = add(mul(s, sum), 1.0 / 120);
  sum = add(mul(s, sum), -1.0 / 6);
  return where(near, add(mul(s, sum), 1), div(sin(safe), safe));
}

Array deg2rad(const Operand& x) { return mul(x, std::numbers::pi / 180); }
Array rad2deg(const Operand& x) { return mul(x, 180 / std::numbers::pi); }

Array heaviside(const Operand& x, const Operand& at_zero) {
  const auto [value, middle] = inexact_pair("heaviside", x, at_zero);
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

Array polyval(const Array& coefficients, const Operand& x) {
  if (coefficients.ndim() != 1) {
    throw ShapeError("polyval: coefficients of shape " + to_string(coefficients.shape()) +
                     "; expected one dimension; reshape them to [n]");
  }
  Array sum = mul(x, 0);
  for (std::int64_t i = 0; i < coefficients.dim(0); ++i) {
    const Array coefficient = squeeze(slice_in_dim(coefficients, i, i + 1, 0), {0});
    sum = i == 0 ? add(mul(x, 0), coefficient) : add(mul(sum, x), coefficient);
  }
  return sum;
}

}  // namespace lockstep
