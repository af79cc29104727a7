#pragma once

#include <array>
#include <cstdint>

namespace lockstep::backend {

namespace detail {

/// One round. Its rotation is a part of the instruction, so that nothing is looked up.
template <int bits>
constexpr void threefry_round(std::uint32_t& x, std::uint32_t& y) {
  x += y;
  y = (y << bits) | (y >> (32 - bits));
  y ^= x;
}

template <int... bits>
constexpr void threefry_rounds(std::uint32_t& x, std::uint32_t& y) {
  (threefry_round<bits>(x, y), ...);
}

}  // namespace detail

/// The Threefry-2x32 block cipher with 20 rounds: two 32-bit words encrypted under a key of two words. It is the one
/// source of randomness, and defined here so that every kernel computes the same bits.
/// Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
constexpr std::array<std::uint32_t, 2> threefry2x32(std::array<std::uint32_t, 2> key,
                                                    std::array<std::uint32_t, 2> counter) {
  const std::array<std::uint32_t, 3> schedule = {key[0], key[1], key[0] ^ key[1] ^ 0x1BD11BDAU};
  std::uint32_t x = counter[0] + schedule[0];
  std::uint32_t y = counter[1] + schedule[1];
  const auto add_key = [&](std::uint32_t group) {
    x += schedule[group % 3];
    y += schedule[(group + 1) % 3] + group;
  };
  detail::threefry_rounds<13, 15, 26, 6>(x, y);
  add_key(1);
  detail::threefry_rounds<17, 29, 16, 24>(x, y);
  add_key(2);
  detail::threefry_rounds<13, 15, 26, 6>(x, y);
  add_key(3);
  detail::threefry_rounds<17, 29, 16, 24>(x, y);
  add_key(4);
  detail::threefry_rounds<13, 15, 26, 6>(x, y);
  add_key(5);
  return {x, y};
}

/// The 64 random bits at a 64-bit counter: the first word of the block is the high half.
constexpr std::uint64_t threefry_bits(std::array<std::uint32_t, 2> key, std::uint64_t counter) {
  const auto block =
      threefry2x32(key, {static_cast<std::uint32_t>(counter >> 32), static_cast<std::uint32_t>(counter)});
  return (static_cast<std::uint64_t>(block[0]) << 32) | block[1];
}

/// The `width` (8, 16, 32 or 64) random bits made of `threefry_bits`: all 64 of them, or the low ones of both words'
/// exclusive or.
constexpr std::uint64_t threefry_draw(std::uint64_t bits, int width) {
  if (width == 64) return bits;
  return ((bits >> 32) ^ bits) & ((std::uint64_t{1} << width) - 1);
}

}  // namespace lockstep::backend
