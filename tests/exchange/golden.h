#pragma once

#include <filesystem>

// Where other libraries' programs and weights are.
namespace lockstep::tests {

/// The folder of what other libraries wrote.
inline const std::filesystem::path golden = std::filesystem::path(LOCKSTEP_TESTS_DIR) / "golden" / "exchange";

}  // namespace lockstep::tests
