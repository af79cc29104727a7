#pragma once

#include <cstdint>

namespace lockstep::backend::cpu {

/// Of a float32's bits those of the nearest bfloat16, ties to even; NaN stays a quiet NaN of its sign. Plain integers, so
/// that loops of it vectorise.
constexpr std::uint16_t rounded_to_bfloat16(std::uint32_t bits) {
  const bool is_nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
  const std::uint32_t rounded = is_nan ? bits | 0x00400000U : bits + 0x7FFFU + ((bits >> 16) & 1U);
  return static_cast<std::uint16_t>(rounded >> 16);
}

}  // namespace lockstep::backend::cpu
