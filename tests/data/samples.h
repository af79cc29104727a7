#pragma once

#include <filesystem>

// Where the sample files of the readers are.
namespace lockstep::tests {

/// The folder of files that other programs wrote.
inline const std::filesystem::path samples = std::filesystem::path(LOCKSTEP_TESTS_DIR) / "data" / "samples";

}  // namespace lockstep::tests
