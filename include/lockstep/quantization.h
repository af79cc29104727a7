#pragma once

#include <cstdint>
#include <optional>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/ops.h>
#include <lockstep/types.h>

// Floats as small integers with scales, and what is left of them when they come back. Numbers are Keras' (keras.quantizers).
namespace lockstep {

/// Options of `abs_max_quantize`.
struct AbsMaxOptions {
  double lowest = -127, highest = 127;  ///< Values are cut to it; the largest of an axis becomes `highest`.
  double epsilon = 1e-7;                ///< Added to the largest.
  DType dtype = int8;                   ///< Of the values, an integer that has the range.
};
/// Integers and what was multiplied with: x is about values / scale.
struct Quantized {
  Array values;
  Array scale;  ///< In the dtype of x, of extent 1 along the axes.
};
/// round(x scale), scale = highest / (the largest |x| along the axes + epsilon). Throws DtypeError for operands that are
/// no floats and a dtype that is no integer, ValueError for a range that is empty or beyond the dtype. (Keras'
/// abs_max_quantize, AbsMaxQuantizer)
LOCKSTEP_API Quantized abs_max_quantize(const ArrayOperand& x, const Axes& axes = {-1},
                                        const AbsMaxOptions& options = {});

/// Integers of groups of rows with a range of their own: x is about (values - zero_point) scale.
struct GroupedQuantized {
  Array values;      ///< int8 [rows, columns].
  Array scale;       ///< [groups, columns], in the dtype of x.
  Array zero_point;  ///< int8 [groups, columns].
};
/// Each `block` rows of a matrix [rows, columns] quantized from their least to their largest element, column by column,
/// to [lowest, highest]; a last group that is not whole counts zeros too. Throws ShapeError for another rank, ValueError
/// for a block below 1. (Keras' abs_max_quantize_grouped_with_zero_point)
LOCKSTEP_API GroupedQuantized abs_max_quantize_grouped(const ArrayOperand& x, std::int64_t block,
                                                       const AbsMaxOptions& options = {.lowest = -8, .highest = 7});

/// Options of `fake_quantize`.
struct FakeQuantizeOptions {
  int bits = 8;                           ///< From 2 to 16.
  bool narrow_range = false;              ///< Levels from 1 on instead of 0.
  std::optional<std::int64_t> axis = {};  ///< `low` and `high` are vectors along it; nothing: scalars.
};
/// x cut to [low, high] and rounded to one of 2^bits levels there, of which one is 0: as floats. The derivative is 1 for
/// x inside and goes to `low` and `high` for what is cut to them. Throws ShapeError for bounds that do not fit,
/// ValueError for other bits. (Keras' fake_quant_with_min_max_vars)
LOCKSTEP_API Array fake_quantize(const ArrayOperand& x, const ArrayOperand& low, const ArrayOperand& high,
                                 const FakeQuantizeOptions& options = {});

/// Forms of floats in 8 bits: 4 of the exponent and 3 of the mantissa, without infinities, the largest 448; or 5 and 2, as
/// IEEE has it, the largest 57344. Micikevicius et al. 2022.
enum class Float8 : std::uint8_t { e4m3fn, e5m2 };
/// The nearest float of that form, in the dtype of x; beyond the largest, the largest. Derivatives pass where nothing is
/// cut. (Keras' quantize_and_dequantize with scale 1)
LOCKSTEP_API Array round_to_float8(const ArrayOperand& x, Float8 form);
/// What is left of x where x / scale is held in 8 bits: round_to_float8(x / scale) scale.
LOCKSTEP_API Array quantize_and_dequantize(const ArrayOperand& x, const ArrayOperand& scale, Float8 form);
/// The scale for a largest magnitude `amax` of late: amax 2^margin / (the form's largest); the old one where amax is 0 or
/// not finite. (Keras' compute_float8_scale)
LOCKSTEP_API Array float8_scale(const ArrayOperand& amax, const ArrayOperand& scale, Float8 form, int margin = 0);
/// A vector of late largest magnitudes, moved on by one, the one of x first. (Keras' compute_float8_amax_history)
LOCKSTEP_API Array float8_amax_history(const ArrayOperand& x, const ArrayOperand& history);

/// Integers of [-8, 7] (of uint8: [0, 15]), two of neighbours along the axis in a byte, the first in the lower half; an
/// odd extent has a 0 behind it. Other integers lose their upper bits. Throws DtypeError for other than int8 and uint8.
LOCKSTEP_API Array pack_int4(const ArrayOperand& x, std::int64_t axis = 0);
/// What pack_int4 was given, of which the axis had that extent. Throws ShapeError for an extent that needs another number of
/// bytes.
LOCKSTEP_API Array unpack_int4(const ArrayOperand& packed, std::int64_t extent, std::int64_t axis = 0);

}  // namespace lockstep
