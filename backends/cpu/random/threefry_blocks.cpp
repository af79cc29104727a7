#include "backends/cpu/random/threefry_blocks.h"

#include <lockstep/backend/threefry.h>

#include "backends/cpu/vector_variants.h"

namespace lockstep::backend::cpu {

namespace {

constexpr std::size_t block = 64;

/// The cipher on a whole block of counters.
void encrypt(std::uint32_t key0, std::uint32_t key1, std::uint64_t* counters) {
  constexpr int rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const std::uint32_t schedule[3] = {key0, key1, key0 ^ key1 ^ 0x1BD11BDAU};
  std::uint32_t first[block];
  std::uint32_t second[block];
  for (std::size_t i = 0; i < block; ++i) {
    first[i] = static_cast<std::uint32_t>(counters[i] >> 32);
    second[i] = static_cast<std::uint32_t>(counters[i]);
  }
  for (std::size_t i = 0; i < block; ++i) {
    std::uint32_t x = first[i] + schedule[0];
    std::uint32_t y = second[i] + schedule[1];
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
    first[i] = x;
    second[i] = y;
  }
  for (std::size_t i = 0; i < block; ++i) counters[i] = (static_cast<std::uint64_t>(first[i]) << 32) | second[i];
}

}  // namespace

void threefry_blocks(std::array<std::uint32_t, 2> key, std::uint64_t* counters, std::size_t count) {
  static const auto widest = VectorVariants<encrypt>::chosen();
  const std::size_t whole = count / block * block;
  for (std::size_t i = 0; i < whole; i += block) widest(key[0], key[1], counters + i);
  for (std::size_t i = whole; i < count; ++i) counters[i] = threefry_bits(key, counters[i]);
}

}  // namespace lockstep::backend::cpu
