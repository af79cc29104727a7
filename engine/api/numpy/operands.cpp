#include "engine/api/numpy/operands.h"

#include <algorithm>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>

#include "engine/api/numpy/weak_types.h"
#include "engine/api/transforms/bind.h"
#include "engine/core/narrow_floats.h"
#include "engine/ops/primitives.h"

namespace lockstep::api {

namespace {

/// Whether an integer scalar has the same value in an integer dtype.
bool fits(std::int64_t value, DType dtype) {
  const int bits = static_cast<int>(size_of(dtype)) * 8;
  if (is_unsigned_integer(dtype)) return value >= 0 && (bits >= 63 || value < (std::int64_t{1} << bits));
  return bits == 64 || (value >= -(std::int64_t{1} << (bits - 1)) && value < (std::int64_t{1} << (bits - 1)));
}

template <class Number>
[[noreturn]] void throw_unfit(std::string_view op, Number value, DType dtype) {
  throw ValueError(
      fmt::format("{}: the scalar {} does not fit {}; convert the array to a wider dtype", op, value, name(dtype)));
}

}  // namespace

void check_fits(std::string_view op, std::int64_t value, DType dtype) {
  if (!fits(value, dtype)) throw_unfit(op, value, dtype);
}

void check_fits(std::string_view op, const Operand& scalar, DType dtype) {
  if (!scalar.is_above_int64()) return check_fits(op, scalar.integer(), dtype);
  if (dtype != DType::uint64) throw_unfit(op, static_cast<std::uint64_t>(scalar.integer()), dtype);
}

namespace {

/// An integer as a double that is rounded once more, to fewer digits.
double with_odd_digits(const Operand& scalar) {
  return scalar.is_above_int64() ? rounded_to_odd(static_cast<std::uint64_t>(scalar.integer()))
                                 : rounded_to_odd(scalar.integer());
}

/// A real number without its fraction, for an integer dtype.
std::int64_t whole_part(std::string_view op, double value, DType dtype) {
  constexpr double end = 9223372036854775808.0;  // 2^63
  if (!(value >= -end && value < end)) {
    throw ValueError(
        fmt::format("{}: the scalar {} does not fit {}; convert the array to floats, or give a number of the "
                    "dtype's range",
                    op, value, name(dtype)));
  }
  return static_cast<std::int64_t>(value);
}

AttrValue scalar_value(std::string_view op, const Operand& scalar, DType dtype) {
  const bool real = scalar.kind() == ScalarKind::real;
  if (dtype == DType::bool_) return real ? scalar.real() != 0 : scalar.integer() != 0;
  if (!is_integer(dtype)) {
    const bool is_last_rounding = real || dtype == DType::float64 || dtype == DType::complex128;
    return is_last_rounding ? scalar.real() : with_odd_digits(scalar);
  }
  if (!real) {
    check_fits(op, scalar, dtype);
    return scalar.integer();
  }
  const std::int64_t value = whole_part(op, scalar.real(), dtype);
  check_fits(op, value, dtype);
  return value;
}

}  // namespace

void CommonDType::add(ScalarKind kind) { kind_ = std::max(kind_.value_or(kind), kind); }

void CommonDType::add(DType dtype, bool is_weak) {
  if (!is_weak) {
    dtype_ = dtype_ && *dtype_ != dtype ? promote(*dtype_, dtype) : dtype;
    return;
  }
  add(kind_of(dtype));
  wide_ = wide_ || dtype == DType::int64;
}

DType CommonDType::dtype() const {
  if (dtype_) return kind_ ? promote(*dtype_, *kind_) : *dtype_;
  return default_dtype(*kind_, wide_);
}

DType common_dtype(std::initializer_list<const Operand*> operands) {
  CommonDType common;
  for (const Operand* operand : operands) {
    if (operand->is_scalar()) {
      common.add(operand->kind());
    } else {
      common.add(operand->array().dtype(), is_weak(operand->array()));
    }
  }
  return common.dtype();
}

DType common_dtype(std::span<const Array> arrays) {
  CommonDType common;
  for (const Array& array : arrays) common.add(array.dtype(), is_weak(array));
  return common.dtype();
}

DType common_dtype(std::initializer_list<Array> arrays) {
  return common_dtype(std::span<const Array>(arrays.begin(), arrays.size()));
}

DType numeric(DType dtype) { return is_integer(dtype) ? dtype : inexact(dtype); }

bool keeps_a_part(DType from, DType to) {
  return (is_inexact(from) && !is_inexact(to)) || (is_complex(from) && !is_complex(to));
}

DType inexact(DType dtype) { return is_inexact(dtype) ? dtype : promote(dtype, ScalarKind::real); }

Array as_inexact(const Array& x) { return convert(x, inexact(x.dtype())); }

Array constant(std::string_view op, const Operand& scalar, DType dtype, const Shape& shape) {
  return bind_one(ops::primitives::full(), {},
                  {{"dtype", dtype}, {"shape", shape.to_vector()}, {"value", scalar_value(op, scalar, dtype)}});
}

Array broadcast(std::string_view op, const Array& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  if (x.ndim() > shape.rank() || !(broadcast_shapes(x.shape(), shape, op) == shape)) {
    throw ShapeError(fmt::format("{}: {} does not broadcast to {}; trailing extents must be equal or 1", op,
                                 to_string(x.shape()), to_string(shape)));
  }
  Axes dims;
  for (int i = 0; i < x.ndim(); ++i) dims.push_back(i + shape.rank() - x.ndim());
  return bind_one(ops::primitives::broadcast_in_dim(), {x}, {{"shape", shape.to_vector()}, {"dims", std::move(dims)}});
}

AxisSet joined_varying(std::initializer_list<const Operand*> operands) {
  AxisSet axes;
  for (const Operand* operand : operands) {
    if (!operand->is_scalar()) axes = axes.joined(operand->array().type().varying);
  }
  return axes;
}

Array varying_along(const Array& x, const AxisSet& axes) {
  return axes.empty() || x.type().varying.contains(axes) ? x : pvary(x, axes);
}

Array at(std::string_view op, const Operand& operand, DType dtype, const Shape& shape, const AxisSet& varying) {
  if (operand.is_scalar()) return constant(op, operand, dtype, shape);
  const Array& given = operand.array();
  check_integer(op, given, dtype);
  const Array x = given.dtype() == dtype && !is_weak(given) ? given : convert(given, dtype);
  return x.shape() == shape ? x : broadcast(op, varying_along(x, varying), shape);
}

std::vector<Array> aligned(std::string_view op, std::initializer_list<const Operand*> operands, DType dtype) {
  Shape shape;
  for (const Operand* operand : operands) {
    if (!operand->is_scalar()) shape = broadcast_shapes(shape, operand->array().shape(), op);
  }
  std::vector<Array> arrays;
  arrays.reserve(operands.size());
  const AxisSet varying = joined_varying(operands);
  for (const Operand* operand : operands) arrays.push_back(at(op, *operand, dtype, shape, varying));
  return arrays;
}

std::vector<Array> weakly_aligned(std::string_view op, std::initializer_list<const Operand*> operands, DType dtype) {
  std::vector<Array> arrays = aligned(op, operands, dtype);
  const auto gives_way = [](const Operand* operand) { return operand->is_scalar() || is_weak(operand->array()); };
  if (std::ranges::all_of(operands, gives_way)) {
    for (Array& array : arrays) array = weakened(array);
  }
  return arrays;
}

std::pair<Array, Array> inexact_pair(std::string_view op, const Operand& a, const Operand& b) {
  std::vector<Array> arrays = aligned(op, {&a, &b}, inexact(common_dtype({&a, &b})));
  return {std::move(arrays[0]), std::move(arrays[1])};
}

}  // namespace lockstep::api
