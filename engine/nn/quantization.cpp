#include <array>
#include <cmath>
#include <limits>
#include <string>

#include <fmt/format.h>

#include <lockstep/custom_derivatives.h>
#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/manipulation.h>
#include <lockstep/quantization.h>

namespace lockstep {
namespace {

void check_quantized_floats(const char* who, const Array& x) {
  if (is_float(x.dtype())) return;
  throw DtypeError(fmt::format("[{}] the operand is {}; give floats", who, to_string(x.type())));
}

/// The range that an integer dtype has.
std::pair<double, double> range_of(DType dtype) {
  const int bits = static_cast<int>(size_of(dtype)) * 8;
  const bool is_signed = is_integer(dtype) && convert(full({}, -1, int32), dtype).item<double>() < 0;
  return is_signed ? std::pair(-std::ldexp(1.0, bits - 1), std::ldexp(1.0, bits - 1) - 1)
                   : std::pair(0.0, std::ldexp(1.0, bits) - 1);
}

void check_range(const char* who, const AbsMaxOptions& o) {
  if (!is_integer(o.dtype)) {
    throw DtypeError(fmt::format("[{}] dtype is {}; give an integer one", who, name(o.dtype)));
  }
  const auto [least, largest] = range_of(o.dtype);
  if (o.lowest < o.highest && o.lowest >= least && o.highest <= largest) return;
  throw ValueError(fmt::format("[{}] the range is [{}, {}]; give one that is not empty, in [{}, {}] of {}", who,
                               o.lowest, o.highest, least, largest, name(o.dtype)));
}

struct Levels {
  Array low, high, step;  ///< The bounds moved so that 0 is a level, and the distance of two.
};

Levels levels_of(const Array& low, const Array& high, const FakeQuantizeOptions& o) {
  const double last = std::ldexp(1.0, o.bits) - 1, first = o.narrow_range ? 1 : 0;
  const Array step = (high - low) / (last - first);
  const Array zero = round(clip(first - low / step, first, last));
  return {(first - zero) * step, (last - zero) * step, step};
}

/// Along the axis of x.
Array along(const Array& x, const Array& bound, const FakeQuantizeOptions& o) {
  if (!o.axis) {
    if (bound.ndim() == 0) return bound;
    throw ShapeError(
        fmt::format("[fake_quantize] the bounds are {}; give scalars, or an axis", to_string(bound.type())));
  }
  const std::int64_t axis = *o.axis < 0 ? *o.axis + x.ndim() : *o.axis;
  if (axis < 0 || axis >= x.ndim() || bound.shape() != Shape{x.dim(static_cast<int>(axis))}) {
    throw ShapeError(
        fmt::format("[fake_quantize] the operand is {}, the bounds {}, the axis {}; give vectors along an axis",
                    to_string(x.type()), to_string(bound.type()), *o.axis));
  }
  std::vector<std::int64_t> shape(static_cast<std::size_t>(x.ndim()), 1);
  shape[static_cast<std::size_t>(axis)] = -1;
  return reshape(bound, shape);
}

/// What a form of 8 bits can hold.
struct Form {
  double largest, least_normal, least;
  int mantissa;
};
Form form_of(Float8 form) {
  return form == Float8::e4m3fn ? Form{448, 0x1p-6, 0x1p-9, 3} : Form{57344, 0x1p-14, 0x1p-16, 2};
}

int exponent_bits(DType dtype) { return dtype == float64 ? 11 : dtype == float16 ? 5 : 8; }

void check_bytes(const char* who, const Array& x) {
  if (x.dtype() == int8 || x.dtype() == uint8) return;
  throw DtypeError(fmt::format("[{}] the operand is {}; give int8 or uint8", who, to_string(x.type())));
}

}  // namespace

Quantized abs_max_quantize(const ArrayOperand& x, const Axes& axes, const AbsMaxOptions& options) {
  check_quantized_floats("abs_max_quantize", x);
  check_range("abs_max_quantize", options);
  const Array scale = options.highest / (max(abs(x), axes, true) + options.epsilon);
  return {convert(clip(round(x * scale), options.lowest, options.highest), options.dtype), scale};
}

GroupedQuantized abs_max_quantize_grouped(const ArrayOperand& x, std::int64_t block, const AbsMaxOptions& options) {
  check_quantized_floats("abs_max_quantize_grouped", x);
  check_range("abs_max_quantize_grouped", options);
  if (x.ndim() != 2) {
    throw ShapeError(fmt::format("[abs_max_quantize_grouped] the operand is {}; give a matrix", to_string(x.type())));
  }
  if (block < 1) throw ValueError(fmt::format("[abs_max_quantize_grouped] block is {}; give at least 1", block));
  const std::int64_t rows = x.dim(0), groups = (rows + block - 1) / block;
  const Array grouped = reshape(pad(x, 0, {0, 0}, {groups * block - rows, 0}), {groups, block, x.dim(1)});
  Array least = min(grouped, Axes{1}, true), largest = max(grouped, Axes{1}, true);
  const Array flat = least == largest;
  least = where(flat, least - 1, least), largest = where(flat, largest + 1, largest);
  const Array scale = (largest - least + options.epsilon) / (options.highest - options.lowest);
  const Array zero = clip(round(-least / scale) + options.lowest, options.lowest, options.highest);
  const Array values = clip(round(grouped / scale) + zero, options.lowest, options.highest);
  return {slice_in_dim(reshape(convert(values, options.dtype), {groups * block, x.dim(1)}), 0, rows, 0),
          squeeze(scale, Axes{1}), convert(squeeze(zero, Axes{1}), options.dtype)};
}

Array fake_quantize(const ArrayOperand& x, const ArrayOperand& low, const ArrayOperand& high,
                    const FakeQuantizeOptions& options) {
  check_quantized_floats("fake_quantize", x);
  if (options.bits < 2 || options.bits > 16) {
    throw ValueError(fmt::format("[fake_quantize] bits is {}; give 2 to 16", options.bits));
  }
  const DType wide = promote(x.dtype(), float32);
  const auto levels = [options](const Array& v, const Array& a, const Array& b) {
    return levels_of(along(v, a, options), along(v, b, options), options);
  };
  const auto values = [levels](const Array& v, const Array& a, const Array& b) {
    const Levels l = levels(v, a, b);
    const Array zero = floor(-l.low / l.step + 0.5);
    return floor((clip(v, l.low, l.high) - l.low) / l.step - zero + 0.5) * l.step;
  };
  const auto rule = [levels, values, options](const std::tuple<Array, Array, Array>& at,
                                              const std::tuple<Array, Array, Array>& moved) {
    const auto& [v, a, b] = at;
    const auto& [of_v, of_a, of_b] = moved;
    const Levels l = levels(v, a, b);
    const Array inside = where((v >= l.low) & (v <= l.high), of_v, 0);
    const Array below = where(v <= l.low, along(v, of_a, options), 0);
    return std::pair(values(v, a, b), inside + below + where(v >= l.high, along(v, of_b, options), 0));
  };
  const auto quantize = custom_jvp(values, rule, {.check = RuleCheck::never});
  return convert(quantize(convert(x, wide), convert(low, wide), convert(high, wide)), x.dtype());
}

Array round_to_float8(const ArrayOperand& given, Float8 form) {
  check_quantized_floats("round_to_float8", given);
  const Form f = form_of(form);
  const Array x = clip(given, -f.largest, f.largest);
  const auto rounded = [f](const Array& v) {
    const Array normal = reduce_precision(v, exponent_bits(v.dtype()), f.mantissa);
    return where(abs(v) < f.least_normal, round(v / f.least) * f.least, normal);
  };
  const auto rule = [rounded](const std::tuple<Array>& at, const std::tuple<Array>& moved) {
    return std::pair(rounded(std::get<0>(at)), std::get<0>(moved));
  };
  return custom_jvp(rounded, rule, {.check = RuleCheck::never})(x);
}

Array quantize_and_dequantize(const ArrayOperand& x, const ArrayOperand& scale, Float8 form) {
  return round_to_float8(x / scale, form) * scale;
}

Array float8_scale(const ArrayOperand& amax, const ArrayOperand& scale, Float8 form, int margin) {
  const Array fits = (amax > 0) & is_finite(amax);
  return where(fits, where(fits, amax, 1) * (std::ldexp(1.0, margin) / form_of(form).largest), scale);
}

Array float8_amax_history(const ArrayOperand& x, const ArrayOperand& history) {
  if (history.ndim() != 1 || history.dim(0) < 1) {
    throw ShapeError(fmt::format("[float8_amax_history] the history is {}; give a vector", to_string(history.type())));
  }
  const Array largest = reshape(convert(max(abs(x)), history.dtype()), {1});
  return concatenate({largest, slice_in_dim(roll(history, -1), 1, history.dim(0), 0)}, 0);
}

Array pack_int4(const ArrayOperand& x, std::int64_t axis) {
  check_bytes("pack_int4", x);
  const Array first = moveaxis(remainder(convert(x, int32), 16), axis, 0);
  std::vector<std::int64_t> none(static_cast<std::size_t>(first.ndim()), 0), behind = none;
  behind[0] = first.dim(0) % 2;
  const Array even = pad(first, 0, none, behind);
  std::vector<std::int64_t> shape(even.shape().begin(), even.shape().end());
  shape[0] /= 2;
  shape.insert(shape.begin() + 1, 2);
  const std::vector<Array> halves = split(reshape(even, shape), 2, 1);
  const Array bytes = squeeze(halves[0] + 16 * halves[1], Axes{1});
  const Array own = x.dtype() == int8 ? where(bytes > 127, bytes - 256, bytes) : bytes;
  return moveaxis(convert(own, x.dtype()), 0, axis);
}

Array unpack_int4(const ArrayOperand& packed, std::int64_t extent, std::int64_t axis) {
  check_bytes("unpack_int4", packed);
  const Array bytes = moveaxis(remainder(convert(packed, int32), 256), axis, 0);
  if ((extent + 1) / 2 != bytes.dim(0) || extent < 0) {
    throw ShapeError(fmt::format("[unpack_int4] the operand is {}, extent {}; that many take {} bytes along axis {}",
                                 to_string(packed.type()), extent, (extent + 1) / 2, axis));
  }
  const Array halves = stack({remainder(bytes, 16), floor_divide(bytes, 16)}, 1);
  const Array values = packed.dtype() == int8 ? where(halves > 7, halves - 16, halves) : halves;
  std::vector<std::int64_t> shape(bytes.shape().begin(), bytes.shape().end());
  shape[0] *= 2;
  return moveaxis(convert(slice_in_dim(reshape(values, shape), 0, extent, 0), packed.dtype()), 0, axis);
}

}  // namespace lockstep
