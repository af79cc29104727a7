#pragma once

#include <cstdint>
#include <random>
#include <string>

namespace lockstep::tests {

/// A damaged copy: bytes flipped, cut out, repeated, overwritten with extremes, or cut off; the seed decides.
inline std::string mutated(std::string bytes, std::uint64_t seed) {
  std::mt19937_64 draw(seed);
  const auto below = [&](std::size_t n) { return n == 0 ? 0 : static_cast<std::size_t>(draw() % n); };
  const std::size_t times = 1 + below(4);
  for (std::size_t i = 0; i < times && !bytes.empty(); ++i) {
    const std::size_t at = below(bytes.size());
    const std::size_t length = 1 + below(8);
    switch (below(6)) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 1:
        bytes.erase(at, length);
        break;
      case 2:
        bytes.insert(at, bytes.substr(below(bytes.size()), length));
        break;
      case 3:
        bytes.replace(at, length, std::string(length, below(2) == 0 ? '\xFF' : '\0'));
        break;
      case 4:
        bytes.resize(at);
        break;
      default:
        bytes[at] = static_cast<char>(draw());
        break;
    }
  }
  return bytes;
}

}  // namespace lockstep::tests
