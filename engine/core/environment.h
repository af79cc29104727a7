#pragma once

#include <cstdint>

namespace lockstep {

/// What an environment variable says that is on or off: 1, true, on or yes; 0, false, off or no. `otherwise` where it is not
/// set, or empty. Throws ValueError for any other text.
bool environment_flag(const char* name, bool otherwise);

/// What an environment variable says that is a number from 0 on, in decimal digits. `otherwise` where it is not set, or
/// empty. Throws ValueError for any other text.
std::int64_t environment_count(const char* name, std::int64_t otherwise);

}  // namespace lockstep
