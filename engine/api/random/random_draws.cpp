#include "engine/api/random/random_draws.h"

#include <cmath>

#include <fmt/format.h>

#include <lockstep/cell.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "engine/api/numpy/operands.h"
#include "engine/api/transforms/bind.h"
#include "engine/ops/primitives.h"
#include "engine/trace/trace.h"

namespace lockstep::random {

namespace {

void check_placement(std::string_view op, const Array& key, const Placement& placement) {
  if (placement.cut && placement.same_on_all) {
    throw MeshError(fmt::format("random::{}: a draw is either cut or the same on all replicas, not both", op));
  }
  if (placement.cut) {
    if (placement.cut->block >= 0 && !placement.cut->axes.empty()) {
      throw MeshError(
          fmt::format("random::{}: a cut has axes, whose replicas have the blocks, or a block, not both", op));
    }
    for (const std::string& axis : placement.cut->axes) tracing::bound_axes().size(axis, fmt::format("random::{}", op));
    return;
  }
  if (placement.same_on_all || bound_axes().empty() || !tracing::type_in_trace(key).varying.empty()) return;
  throw MeshError(fmt::format(
      "random::{}: a draw inside a map over {} must say how replicas differ. Write Placement{{.cut = Cut{{dim, "
      "axes}}}} for "
      "one block of a larger array each, random::same_on_all for equal values, or fold axis_index into the key",
      op, to_string(bound_axes())));
}

/// random_bits or random_split over `shape`.
Array draw(const ir::Primitive& primitive, std::string_view op, const Array& key, const Shape& shape, Attrs attrs,
           const Placement& placement) {
  check_key(op, key);
  check_placement(op, key, placement);
  attrs = attrs.with("shape", shape.to_vector());
  const bool has_block = placement.cut && placement.cut->block >= 0;
  if (!has_block && (!placement.cut || placement.cut->axes.empty())) {
    return api::bind_one(primitive, {key}, std::move(attrs));
  }
  const std::int64_t dim = normalize_axis(placement.cut->dim, shape.rank(), fmt::format("random::{}", op));
  const Array block = has_block ? convert(array(placement.cut->block), int32) : block_index(placement.cut->axes);
  return api::bind_one(primitive, {key, block}, attrs.with("cut", dim));
}

}  // namespace

void check_key(std::string_view op, const Array& key) {
  if (key.dtype() != DType::key) {
    throw DtypeError(
        fmt::format("random::{}: needs a key, got {}; make one by random::key(seed) or wrap_key_data(words)", op,
                    to_string(key.type())));
  }
}

void check_float(std::string_view op, DType dtype) {
  if (!is_float(dtype)) {
    throw DtypeError(fmt::format("random::{}: draws floats, got dtype {}; draw float32 and convert", op, name(dtype)));
  }
}

void check_one_key(std::string_view op, const Array& key) {
  check_key(op, key);
  if (key.ndim() == 0) return;
  throw ShapeError(fmt::format("random::{}: needs one key, got {}; map over keys by vmap", op, to_string(key.type())));
}

void check_integer(std::string_view op, DType dtype) {
  if (is_integer(dtype)) return;
  throw DtypeError(fmt::format("random::{}: draws integers, got dtype {}; draw int32 and convert", op, name(dtype)));
}

void check_not_cut(std::string_view op, const Placement& placement) {
  if (!placement.cut) return;
  throw MeshError(
      fmt::format("random::{}: its elements depend on one another, so no replica can draw a block of them alone; write "
                  "random::same_on_all, or fold axis_index into the key",
                  op));
}

Placement in_front(std::string_view op, const Shape& shape, Placement placement) {
  if (placement.cut) {
    placement.cut->dim = normalize_axis(placement.cut->dim, shape.rank(), fmt::format("random::{}", op));
  }
  return placement;
}

std::vector<Array> subkeys(const Array& key, std::int64_t n) {
  const Array keys = split(key, n);
  std::vector<Array> list;
  for (std::int64_t i = 0; i < n; ++i) list.push_back(squeeze(slice_in_dim(keys, i, i + 1, -1), {-1}));
  return list;
}

Array draw_bits(std::string_view op, const Array& key, const Shape& shape, int width, const Placement& placement) {
  return draw(ops::primitives::random_bits(), op, key, shape, {{"width", std::int64_t{width}}}, placement);
}

Array draw_keys(std::string_view op, const Array& key, const Shape& shape, const Placement& placement) {
  return draw(ops::primitives::random_split(), op, key, shape, {}, placement);
}

Array draw_unit(std::string_view op, const Array& key, const Shape& shape, DType dtype, const Placement& placement) {
  check_float(op, dtype);
  const FloatFormat format = format_of(dtype);
  const int width = format.mantissa < 8 ? 8 : format.width;
  const Array words = convert(draw_bits(op, key, shape, width, placement), format.word);
  const Array mantissa = shift_right_logical(words, width - format.mantissa);
  return sub(bitcast_convert(bitwise_or(mantissa, format.one), dtype), 1);
}

Array draw_above(std::string_view op, const Array& key, const Shape& shape, DType dtype, double low,
                 const Placement& placement) {
  const Array unit = draw_unit(op, key, shape, dtype, placement);
  return stretched(unit, parameter(op, low, dtype, {}), parameter(op, 1, dtype, {}));
}

Array stretched(const Array& unit, const Array& low, const Array& high) {
  return maximum(low, add(mul(unit, sub(high, low)), low));
}

Array stretched_far(const Array& unit, const Array& low, const Array& high) {
  const Array near = stretched(unit, low, high);
  const Array overflows =
      bitwise_and(bitwise_not(is_finite(sub(high, low))), bitwise_and(is_finite(low), is_finite(high)));
  return where(overflows, add(mul(unit, high), mul(sub(1, unit), low)), near);
}

Array below(const Array& x, const Array& low, const Array& high) {
  // By >=, so that NaN stays; where high <= low the result is low.
  return where(greater_equal(x, high), maximum(low, nextafter(stop_gradient(high), stop_gradient(low))), x);
}

bool is_finite_in(DType dtype, double x) {
  const FloatFormat format = format_of(dtype);
  const int exponents = format.width - format.mantissa - 1;
  const double largest = std::ldexp(2 - format.epsilon(), (1 << (exponents - 1)) - 1);
  return std::abs(x) <= largest;
}

Array parameter(std::string_view op, const Operand& value, DType dtype, const Shape& shape) {
  return api::at(fmt::format("random::{}", op), value, dtype, value.is_scalar() ? Shape{} : shape);
}

Array full_parameter(std::string_view op, const Operand& value, DType dtype, const Shape& shape) {
  return api::at(fmt::format("random::{}", op), value, dtype, shape);
}

double FloatFormat::epsilon() const { return std::ldexp(1.0, -mantissa); }

FloatFormat format_of(DType dtype) {
  switch (dtype) {
    case DType::float16:
      return {16, 10, 0x3c00, DType::uint16, 0x1p-14};
    case DType::bfloat16:
      return {16, 7, 0x3f80, DType::uint16, 0x1p-126};
    case DType::float64:
      return {64, 52, 0x3ff0000000000000, DType::uint64, 0x1p-1022};
    default:
      return {32, 23, 0x3f800000, DType::uint32, 0x1p-126};
  }
}

}  // namespace lockstep::random
