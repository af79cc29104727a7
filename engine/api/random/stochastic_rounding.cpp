#include <fmt/format.h>

#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/random.h>

#include "engine/api/random/random_draws.h"

namespace lockstep::random {
namespace {

constexpr std::string_view op = "round_stochastically";

/// float32 with so many low bits of its mantissa gone, and one more above them as often as they ask for: added to the bits,
/// which stand for the magnitude, a random number below 2^dropped carries with the probability that they are of it.
Array without_low_bits(const Array& x, const Array& words, int dropped) {
  const std::int64_t low = (std::int64_t{1} << dropped) - 1;
  const Array carried = bitcast_convert(x, uint32) + shift_right_logical(words, 32 - dropped);
  return bitcast_convert(bitwise_and(carried, 0xffffffff - low), float32);
}

/// Multiples of 2^-24, float16's numbers below 2^-14.
Array to_fixed_places(const Array& x, const Array& words) {
  const Array scaled = abs(x) * 0x1p24, whole = floor(scaled);
  const Array share = convert(shift_right_logical(words, 8), float32) * 0x1p-24;
  const Array magnitude = (whole + where(share < scaled - whole, 1.0, 0.0)) * 0x1p-24;
  return copysign(magnitude, x);
}

}  // namespace

Array round_stochastically(const ArrayOperand& key, const ArrayOperand& x, DType dtype, const Placement& placement) {
  check_one_key(op, key);
  if (!is_float(x.dtype()) || (dtype != bfloat16 && dtype != float16)) {
    throw DtypeError(fmt::format("random::{}: rounds floats to bfloat16 or float16, got {} and {}; convert it", op,
                                 to_string(x.type()), name(dtype)));
  }
  if (x.dtype() == dtype) return x;
  const Array wide = convert(x, float32);
  const Array words = draw_bits(op, key, x.shape(), 32, placement);
  Array rounded;
  if (dtype == bfloat16) {
    rounded = without_low_bits(wide, words, 16);
  } else {
    rounded = where(abs(wide) < 0x1p-14, to_fixed_places(wide, words), without_low_bits(wide, words, 13));
  }
  return convert(where(is_finite(wide), rounded, wide), dtype);
}

}  // namespace lockstep::random
