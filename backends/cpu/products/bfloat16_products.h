#pragma once

#include <cstdint>

namespace lockstep::backend::cpu {

/// What a processor's fastest products of bfloat16 are made of.
enum class Bfloat16Products : std::uint8_t {
  floats,  ///< float32, on widened operands.
  pairs,   ///< Pairs, at twice float32's rate.
  tiles    ///< Whole tiles of matrices.
};

}  // namespace lockstep::backend::cpu
