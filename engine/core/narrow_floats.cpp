#include "engine/core/narrow_floats.h"

#include <algorithm>
#include <cmath>

namespace lockstep {

namespace {

// Rounds a double to a format of `digits` stored significand bits whose exponents run from `lowest` (of the smallest
// normal number) to `highest`, ties to even. The result is laid out as sign, exponent, significand in 16 bits.
struct SmallFormat {
  int digits;
  int lowest;
  int highest;
};

std::uint16_t round_to(double value, SmallFormat format) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 63) << 15);
  const auto infinity = static_cast<std::uint16_t>((format.highest - format.lowest + 2) << format.digits);
  const auto stored_exponent = static_cast<int>((bits >> 52) & 0x7ff);
  const std::uint64_t fraction = bits & 0xfffffffffffffU;
  if (stored_exponent == 0x7ff) {
    if (fraction == 0) return sign | infinity;
    const auto payload = static_cast<std::uint16_t>(fraction >> (52 - format.digits));
    return static_cast<std::uint16_t>(sign | infinity | payload | (1U << (format.digits - 1)));
  }
  const int exponent = stored_exponent - 1023;
  if (stored_exponent == 0 || exponent < format.lowest - format.digits - 1) return sign;
  const std::uint64_t significand = fraction | (std::uint64_t{1} << 52);
  const int below = exponent < format.lowest ? format.lowest - exponent : 0;
  const int dropped = 52 - format.digits + below;
  const std::uint64_t half = std::uint64_t{1} << (dropped - 1);
  const std::uint64_t rest = significand & ((half << 1) - 1);
  std::uint64_t kept = significand >> dropped;
  if (rest > half || (rest == half && (kept & 1U) != 0)) ++kept;
  // A carry out of the significand runs into the exponent field, which is just the next number.
  const int field = below > 0 ? 0 : exponent - format.lowest;
  const std::uint64_t magnitude = kept + (static_cast<std::uint64_t>(field) << format.digits);
  return magnitude >= infinity ? static_cast<std::uint16_t>(sign | infinity)
                               : static_cast<std::uint16_t>(sign | magnitude);
}

}  // namespace

std::uint16_t float16_bits(double value) { return round_to(value, {10, -14, 15}); }
std::uint16_t float16_bits(float value) { return float16_bits(static_cast<double>(value)); }
std::uint16_t bfloat16_bits(double value) { return round_to(value, {7, -126, 127}); }

double rounded_to_odd(std::uint64_t x) {
  const int dropped = std::max(0, 11 - std::countl_zero(x));
  const std::uint64_t rest = x & ((std::uint64_t{1} << dropped) - 1);
  return std::ldexp(static_cast<double>((x >> dropped) | (rest != 0 ? 1U : 0U)), dropped);
}

double rounded_to_odd(std::int64_t x) {
  const auto bits = static_cast<std::uint64_t>(x);
  return x < 0 ? -rounded_to_odd(std::uint64_t{0} - bits) : rounded_to_odd(bits);
}

float float16_value(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fU;
  const std::uint32_t fraction = bits & 0x3ffU;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000U | (fraction << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112U) << 23) | (fraction << 13));
  const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
}

}  // namespace lockstep
