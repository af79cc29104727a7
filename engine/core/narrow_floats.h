#pragma once

#include <bit>
#include <cstdint>

#include <lockstep/export.h>

namespace lockstep {

/// Bits of the nearest float16, ties to even; too large is infinity, NaN stays a quiet NaN of the same sign.
LOCKSTEP_API std::uint16_t float16_bits(float value);
/// Rounds once (through float it would be twice).
LOCKSTEP_API std::uint16_t float16_bits(double value);
/// The exact value of float16 bits.
LOCKSTEP_API float float16_value(std::uint16_t bits);

/// Bits of the nearest bfloat16, ties to even; NaN stays a quiet NaN of the same sign.
inline std::uint16_t bfloat16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}
/// Rounds once (through float it would be twice).
LOCKSTEP_API std::uint16_t bfloat16_bits(double value);
/// The double next to an integer of more digits whose last bit is 1, else the integer's own: rounded again, to fewer
/// digits, it gives what the integer rounded once does. Boldo and Melquiond 2008, round to odd.
LOCKSTEP_API double rounded_to_odd(std::int64_t x);
LOCKSTEP_API double rounded_to_odd(std::uint64_t x);

/// The exact value of bfloat16 bits.
inline float bfloat16_value(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

}  // namespace lockstep
