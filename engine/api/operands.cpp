#include "engine/api/operands.h"

#include <limits>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>

#include "engine/api/bind.h"
#include "engine/core/half.h"
#include "engine/ops/primitives.h"

namespace lockstep::api {

namespace {

DType default_dtype(ScalarKind kind) {
  switch (kind) {
    case ScalarKind::boolean:
      return DType::bool_;
    case ScalarKind::integer:
      return DType::int32;
    case ScalarKind::real:
      return DType::float32;
  }
  return DType::float32;
}

/// Whether an integer scalar has the same value in an integer dtype.
bool fits(std::int64_t value, DType dtype) {
  const int bits = static_cast<int>(size_of(dtype)) * 8;
  if (is_unsigned_integer(dtype)) return value >= 0 && (bits >= 63 || value < (std::int64_t{1} << bits));
  return bits == 64 || (value >= -(std::int64_t{1} << (bits - 1)) && value < (std::int64_t{1} << (bits - 1)));
}

AttrValue scalar_value(std::string_view op, const Operand& scalar, DType dtype) {
  const bool real = scalar.kind() == ScalarKind::real;
  if (dtype == DType::bool_) return real ? scalar.real() != 0 : scalar.integer() != 0;
  if (!is_integer(dtype)) {
    const bool is_last_rounding = real || dtype == DType::float64 || dtype == DType::complex128;
    return is_last_rounding ? scalar.real() : rounded_to_odd(scalar.integer());
  }
  if (!real && !fits(scalar.integer(), dtype) && dtype != DType::uint64) {
    throw ValueError(fmt::format("{}: the scalar {} does not fit {}; convert the array to a wider dtype", op,
                                 scalar.integer(), name(dtype)));
  }
  return real ? static_cast<std::int64_t>(scalar.real()) : scalar.integer();
}

}  // namespace

DType common_dtype(std::initializer_list<const Operand*> operands) {
  std::optional<DType> dtype;
  std::optional<ScalarKind> kind;
  for (const Operand* operand : operands) {
    if (operand->is_scalar()) {
      kind = std::max(kind.value_or(operand->kind()), operand->kind());
    } else {
      dtype = dtype ? promote(*dtype, operand->array().dtype()) : operand->array().dtype();
    }
  }
  if (!dtype) return default_dtype(*kind);
  return kind ? promote(*dtype, *kind) : *dtype;
}

DType numeric(DType dtype) { return is_integer(dtype) ? dtype : inexact(dtype); }

DType inexact(DType dtype) { return is_inexact(dtype) ? dtype : promote(dtype, ScalarKind::real); }

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
  const Array x = given.dtype() == dtype ? given : convert(given, dtype);
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

}  // namespace lockstep::api
