#include <limits>

#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "engine/api/numpy/operands.h"

namespace lockstep {

namespace {

/// The operand as an array of its own dtype.
Array array_of(std::string_view op, const Operand& x) {
  return x.is_scalar() ? api::constant(op, x, api::common_dtype({&x}), Shape{}) : x.array();
}

Array truth_of_operand(std::string_view op, const Operand& x) {
  const Array value = array_of(op, x);
  return value.dtype() == DType::bool_ ? value : not_equal(value, 0);
}

/// What has a sign.
Array real_operand(std::string_view op, const Operand& x) {
  const Array value = array_of(op, x);
  if (!is_complex(value.dtype())) return value;
  throw DtypeError(std::string(op) + " given " + to_string(value.type()) +
                   "; expected real numbers; take real(x) or imag(x)");
}

Array none_of(const Array& x) { return full(x.shape(), false, DType::bool_); }

double largest_finite(DType dtype) {
  switch (dtype) {
    case DType::float16:
      return 65504;
    case DType::bfloat16:
      return 0x1.fep127;
    case DType::float32:
      return std::numeric_limits<float>::max();
    default:
      return std::numeric_limits<double>::max();
  }
}

DType bits_of(DType dtype) {
  switch (size_of(dtype)) {
    case 2:
      return DType::int16;
    case 4:
      return DType::int32;
    default:
      return DType::int64;
  }
}

}  // namespace

Array signbit(const Operand& x) {
  const Array value = real_operand("signbit", x);
  if (!is_float(value.dtype())) return is_signed_integer(value.dtype()) ? less(value, 0) : none_of(value);
  return less(bitcast_convert(value, bits_of(value.dtype())), 0);
}

Array copysign(const Operand& magnitude, const Operand& sign) {
  const DType dtype = api::inexact(api::common_dtype({&magnitude, &sign}));
  const std::vector<Array> arrays = api::aligned("copysign", {&magnitude, &sign}, dtype);
  const Array size = abs(arrays[0]);
  return where(signbit(arrays[1]), neg(size), size);
}

Array isnan(const Operand& x) {
  const Array value = array_of("isnan", x);
  return is_inexact(value.dtype()) ? not_equal(value, value) : none_of(value);
}

Array isinf(const Operand& x) {
  const Array value = array_of("isinf", x);
  if (is_complex(value.dtype())) return logical_or(isinf(real(value)), isinf(imag(value)));
  return is_float(value.dtype()) ? equal(abs(value), api::infinity) : none_of(value);
}

Array isposinf(const Operand& x) {
  const Array value = real_operand("isposinf", x);
  return is_float(value.dtype()) ? equal(value, api::infinity) : none_of(value);
}

Array isneginf(const Operand& x) {
  const Array value = real_operand("isneginf", x);
  return is_float(value.dtype()) ? equal(value, -api::infinity) : none_of(value);
}

Array nan_to_num(const ArrayOperand& x, double nan, std::optional<double> posinf, std::optional<double> neginf) {
  if (!is_inexact(x.dtype())) return x;
  if (is_complex(x.dtype())) {
    return complex(nan_to_num(real(x), nan, posinf, neginf), nan_to_num(imag(x), nan, posinf, neginf));
  }
  const Array number = where(isnan(x), nan, x);
  const Array below = where(isposinf(number), posinf.value_or(largest_finite(x.dtype())), number);
  return where(isneginf(below), neginf.value_or(-largest_finite(x.dtype())), below);
}

Array fmax(const Operand& a, const Operand& b) { return where(logical_or(greater(a, b), isnan(b)), a, b); }

Array fmin(const Operand& a, const Operand& b) { return where(logical_or(less(a, b), isnan(b)), a, b); }

Array clamp(const Operand& low, const ArrayOperand& x, const Operand& high) {
  const Array value = where(logical_and(greater(x, low), less(x, high)), x, stop_gradient(x));
  const Array lifted = where(less(value, low), low, value);
  // Limits are promoted like all operands: of integers, those of floats would be cut off.
  const Operand value_of_x = x;
  return convert(where(greater(lifted, high), high, lifted), api::common_dtype({&low, &value_of_x, &high}));
}

Array logical_and(const Operand& a, const Operand& b) {
  return bitwise_and(truth_of_operand("logical_and", a), truth_of_operand("logical_and", b));
}
Array logical_or(const Operand& a, const Operand& b) {
  return bitwise_or(truth_of_operand("logical_or", a), truth_of_operand("logical_or", b));
}
Array logical_xor(const Operand& a, const Operand& b) {
  return bitwise_xor(truth_of_operand("logical_xor", a), truth_of_operand("logical_xor", b));
}
Array logical_not(const Operand& x) { return bitwise_not(truth_of_operand("logical_not", x)); }

Array isclose(const Operand& a, const Operand& b, double rtol, double atol, bool equal_nan) {
  const std::vector<Array> arrays = api::aligned("isclose", {&a, &b}, api::inexact(api::common_dtype({&a, &b})));
  const Array &x = arrays[0], &y = arrays[1];
  const Array near = less_equal(abs(sub(x, y)), add(mul(abs(y), rtol), atol));
  const Array finite = logical_and(is_finite(x), is_finite(y));
  const Array close = logical_or(logical_and(finite, near), equal(x, y));
  return equal_nan ? logical_or(close, logical_and(isnan(x), isnan(y))) : close;
}

Array allclose(const Operand& a, const Operand& b, double rtol, double atol, bool equal_nan) {
  return all(isclose(a, b, rtol, atol, equal_nan));
}

Array array_equal(const ArrayOperand& a, const ArrayOperand& b) {
  return a.shape() == b.shape() ? all(equal(a, b)) : full(Shape{}, false, DType::bool_);
}

}  // namespace lockstep
