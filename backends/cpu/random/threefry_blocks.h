#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace lockstep::backend::cpu {

/// Replaces each counter by its 64 random bits (threefry_bits of <lockstep/backend/threefry.h>), many at once.
void threefry_blocks(std::array<std::uint32_t, 2> key, std::uint64_t* counters, std::size_t count);

}  // namespace lockstep::backend::cpu
