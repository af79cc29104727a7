#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <lockstep/backend/threefry.h>

namespace lockstep::data {

/// The key of an epoch. `domain` keeps it apart from keys of other uses, and from those that random::fold_in derives from
/// the same seed.
inline std::array<std::uint32_t, 2> epoch_key(std::uint64_t seed, std::uint64_t epoch, std::uint32_t domain) {
  return backend::threefry2x32({static_cast<std::uint32_t>(seed >> 32), static_cast<std::uint32_t>(seed)},
                               {static_cast<std::uint32_t>(epoch >> 32) ^ domain, static_cast<std::uint32_t>(epoch)});
}

/// Enciphers x[i], y[i] for each i. One cipher waits for itself at every step; several side by side do not.
[[gnu::flatten]] inline void threefry_each(std::array<std::uint32_t, 2> key, std::uint32_t* x, std::uint32_t* y,
                                           std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto words = backend::threefry2x32(key, {x[i], y[i]});
    x[i] = words[0];
    y[i] = words[1];
  }
}

}  // namespace lockstep::data
