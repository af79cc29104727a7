#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>

namespace lockstep::tests {

/// The number an environment variable holds, or `otherwise` where it is not set.
inline std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::stoull(text);
}

/// The seed of the first case.
inline const std::uint64_t first_seed = number_from("LOCKSTEP_FUZZ_SEED", 0);

}  // namespace lockstep::tests
