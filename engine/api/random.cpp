#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/random.h>

#include "engine/api/bind.h"
#include "engine/api/operands.h"
#include "engine/ops/primitives.h"
#include "engine/trace/trace.h"

namespace lockstep::random {

namespace {

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

Array fold_words(const Array& key, const Array& words) {
  return api::bind_one(ops::primitives::random_fold_in(), {key, words});
}

/// The number of this replica's block among those of the cut's axes, counted in mesh order, the last axis fastest.
Array block_index(const AxisSet& axes) {
  Array index;
  for (const auto& axis : trace::bound_axes().axes()) {
    if (!axes.contains(axis.name)) continue;
    const Array own = axis_index(axis.name);
    index = index.has_value() ? add(mul(index, axis.size), own) : own;
  }
  return index;
}

void check_placement(std::string_view op, const Array& key, const Placement& placement) {
  if (placement.cut && placement.same_on_all) {
    throw MeshError(fmt::format("random::{}: a draw is either cut or the same on all replicas, not both", op));
  }
  if (placement.cut) {
    for (const std::string& axis : placement.cut->axes) trace::bound_axes().size(axis, fmt::format("random::{}", op));
    return;
  }
  if (placement.same_on_all || bound_axes().empty() || !trace::type_in_trace(key).varying.empty()) return;
  throw MeshError(fmt::format(
      "random::{}: a draw inside a map over {} must say how replicas differ. Write Placement{{.cut = Cut{{dim, "
      "axes}}}} for "
      "one block of a larger array each, random::same_on_all for equal values, or fold axis_index into the key",
      op, to_string(bound_axes())));
}

Array draw(std::string_view op, const Array& key, const Shape& shape, int width, const Placement& placement) {
  check_key(op, key);
  check_placement(op, key, placement);
  Attrs attrs = {{"shape", shape.to_vector()}, {"width", std::int64_t{width}}};
  if (!placement.cut || placement.cut->axes.empty()) {
    return api::bind_one(ops::primitives::random_bits(), {key}, std::move(attrs));
  }
  const std::int64_t dim = normalize_axis(placement.cut->dim, shape.rank(), fmt::format("random::{}", op));
  return api::bind_one(ops::primitives::random_bits(), {key, block_index(placement.cut->axes)}, attrs.with("cut", dim));
}

/// What the conversion of bits to floats needs to know of a dtype.
struct FloatFormat {
  int width;
  int mantissa;
  std::int64_t one;  ///< The bits of 1.0.
  DType word;
};

FloatFormat format_of(DType dtype) {
  switch (dtype) {
    case DType::float16:
      return {16, 10, 0x3c00, DType::uint16};
    case DType::bfloat16:
      return {16, 7, 0x3f80, DType::uint16};
    case DType::float64:
      return {64, 52, 0x3ff0000000000000, DType::uint64};
    default:
      return {32, 23, 0x3f800000, DType::uint32};
  }
}

/// Uniform on [0, 1): random mantissas under the exponent of 1, less 1.
Array unit_uniform(std::string_view op, const Array& key, const Shape& shape, DType dtype, const Placement& placement) {
  check_float(op, dtype);
  const FloatFormat format = format_of(dtype);
  const int width = format.mantissa < 8 ? 8 : format.width;
  const Array words = convert(draw(op, key, shape, width, placement), format.word);
  const Array mantissa = shift_right_logical(words, width - format.mantissa);
  return sub(bitcast_convert(bitwise_or(mantissa, format.one), dtype), 1);
}

Array scaled(const Array& unit, const Array& low, const Array& high) {
  return maximum(low, add(mul(unit, sub(high, low)), low));
}

Array scalar(std::string_view op, const Operand& value, DType dtype) { return api::at(op, value, dtype, Shape{}); }

}  // namespace

Array key(std::uint64_t seed) {
  const auto word = [](std::uint64_t value) { return full({1}, static_cast<std::int64_t>(value), uint32); };
  return wrap_key_data(concatenate({word(seed >> 32), word(seed & 0xffffffffU)}, 0));
}

Array split(const Array& key, std::int64_t n) {
  check_key("split", key);
  if (n < 1) throw ValueError(fmt::format("random::split: the number of keys must be at least 1, got {}", n));
  Shape shape = key.shape();
  shape.append(n);
  const int rank = shape.rank();
  return fold_words(broadcast_to(expand_dims(key, -1), shape), iota(shape, rank - 1, uint32));
}

Array fold_in(const Array& key, const Operand& data) {
  check_key("fold_in", key);
  if (data.is_scalar()) {
    if (data.kind() == ScalarKind::real) {
      throw DtypeError("random::fold_in: data must be an integer, got a real number");
    }
    const auto word = static_cast<std::uint32_t>(data.integer());
    return fold_words(key, api::constant("fold_in", static_cast<std::int64_t>(word), uint32, key.shape()));
  }
  if (!is_integer(data.array().dtype())) {
    throw DtypeError(fmt::format("random::fold_in: data must be an integer, got {}", to_string(data.array().type())));
  }
  const Shape shape = broadcast_shapes(key.shape(), data.array().shape(), "random::fold_in");
  return fold_words(broadcast_to(key, shape), broadcast_to(convert(data.array(), uint32), shape));
}

Array key_data(const Array& key) {
  check_key("key_data", key);
  return api::bind_one(ops::primitives::random_unwrap(), {key});
}

Array wrap_key_data(const Array& words) {
  if (words.dtype() != uint32 || words.ndim() == 0 || words.dim(-1) != 2) {
    throw ShapeError(fmt::format("random::wrap_key_data: needs uint32[..., 2], got {}", to_string(words.type())));
  }
  return api::bind_one(ops::primitives::random_wrap(), {words});
}

Array bits(const Array& key, const Shape& shape, int width, const Placement& placement) {
  if (width != 8 && width != 16 && width != 32 && width != 64) {
    throw ValueError(fmt::format("random::bits: width must be 8, 16, 32 or 64, got {}", width));
  }
  return draw("bits", key, shape, width, placement);
}

Array uniform(const Array& key, const Shape& shape, DType dtype, const Operand& low, const Operand& high,
              const Placement& placement) {
  const Array unit = unit_uniform("uniform", key, shape, dtype, placement);
  if (low.is_scalar() && high.is_scalar() && low.real() == 0 && high.real() == 1) return unit;
  return scaled(unit, api::at("random::uniform", low, dtype, low.is_scalar() ? Shape{} : low.array().shape()),
                api::at("random::uniform", high, dtype, high.is_scalar() ? Shape{} : high.array().shape()));
}

Array normal(const Array& key, const Shape& shape, DType dtype, const Placement& placement) {
  const Array unit = unit_uniform("normal", key, shape, dtype, placement);
  const double above_minus_one = -1 + std::ldexp(1.0, -format_of(dtype).mantissa - 1);
  const Array open = scaled(unit, scalar("normal", above_minus_one, dtype), scalar("normal", 1, dtype));
  return mul(erf_inv(open), std::sqrt(2.0));
}

Array truncated_normal(const Array& key, double low, double high, const Shape& shape, DType dtype,
                       const Placement& placement) {
  if (!(low < high)) {
    throw ValueError(fmt::format("random::truncated_normal: low must be below high, got {} and {}", low, high));
  }
  const Array unit = unit_uniform("truncated_normal", key, shape, dtype, placement);
  const double infinity = std::numeric_limits<double>::infinity();
  const Array lower = scalar("truncated_normal", low, dtype);
  const Array upper = scalar("truncated_normal", high, dtype);
  const double sqrt_2 = std::sqrt(2.0);
  const Array inner = scaled(unit, erf(div(lower, sqrt_2)), erf(div(upper, sqrt_2)));
  return clip(mul(erf_inv(inner), sqrt_2), nextafter(lower, infinity), nextafter(upper, -infinity));
}

Array bernoulli(const Array& key, double p, const Shape& shape, const Placement& placement) {
  if (!(p >= 0 && p <= 1)) throw ValueError(fmt::format("random::bernoulli: p must be in [0, 1], got {}", p));
  return less(unit_uniform("bernoulli", key, shape, float32, placement), p);
}

}  // namespace lockstep::random
