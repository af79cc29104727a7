#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::tests {

/// Numbers of [-1, 1) that nothing can be told of, a hash of place and seed: scripts of tests/golden make the same.
inline std::vector<double> spread(std::int64_t count, std::uint32_t seed) {
  std::vector<double> values(static_cast<std::size_t>(count));
  std::uint32_t at = seed;
  for (double& value : values) {
    std::uint32_t x = at;
    at += 2654435761U;
    for (int round = 0; round < 2; ++round) {
      x ^= x >> 16;
      x *= 0x45D9F3BU;
    }
    x ^= x >> 16;
    value = static_cast<double>(x) / 0x1p31 - 1;
  }
  return values;
}

}  // namespace lockstep::tests
