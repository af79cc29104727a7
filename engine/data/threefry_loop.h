#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <lockstep/backend/threefry.h>

namespace lockstep::data {

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
