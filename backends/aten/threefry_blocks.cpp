#include "backends/aten/threefry_blocks.h"

#include <algorithm>

#include <lockstep/threefry.h>

// Compiled once a vector width; integers have the same bits in all. Sanitizers start after the choice would be made.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define LOCKSTEP_VECTOR_WIDTHS __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define LOCKSTEP_VECTOR_WIDTHS
#endif

namespace lockstep::backends::aten {

namespace {

constexpr std::size_t block = 64;

/// One cipher step on every lane of the block.
struct Lanes {
  std::uint32_t x[block];
  std::uint32_t y[block];
};

LOCKSTEP_VECTOR_WIDTHS
void encrypt(std::uint32_t key0, std::uint32_t key1, Lanes& lanes) {
  constexpr int rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const std::uint32_t schedule[3] = {key0, key1, key0 ^ key1 ^ 0x1BD11BDAU};
  for (std::size_t i = 0; i < block; ++i) {
    std::uint32_t x = lanes.x[i] + schedule[0];
    std::uint32_t y = lanes.y[i] + schedule[1];
#pragma GCC unroll 5
    for (std::uint32_t group = 0; group < 5; ++group) {
#pragma GCC unroll 4
      for (int round = 0; round < 4; ++round) {
        const int bits = rotations[group % 2][round];
        x += y;
        y = (y << bits) | (y >> (32 - bits));
        y ^= x;
      }
      x += schedule[(group + 1) % 3];
      y += schedule[(group + 2) % 3] + group + 1;
    }
    lanes.x[i] = x;
    lanes.y[i] = y;
  }
}

}  // namespace

void threefry_blocks(std::array<std::uint32_t, 2> key, std::uint64_t* counters, std::size_t count) {
  Lanes lanes;
  for (std::size_t first = 0; first < count; first += block) {
    const std::size_t n = std::min(block, count - first);
    for (std::size_t i = 0; i < block; ++i) {
      const std::uint64_t counter = i < n ? counters[first + i] : 0;
      lanes.x[i] = static_cast<std::uint32_t>(counter >> 32);
      lanes.y[i] = static_cast<std::uint32_t>(counter);
    }
    encrypt(key[0], key[1], lanes);
    for (std::size_t i = 0; i < n; ++i) {
      counters[first + i] = (static_cast<std::uint64_t>(lanes.x[i]) << 32) | lanes.y[i];
    }
  }
}

}  // namespace lockstep::backends::aten
