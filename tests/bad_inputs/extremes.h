// Numbers that fit nowhere.
#pragma once

#include <cstdint>
#include <limits>

namespace lockstep::tests {

inline constexpr std::int64_t huge_count = std::int64_t{1} << 62;
inline constexpr double no_number = std::numeric_limits<double>::quiet_NaN();
inline constexpr double endless = std::numeric_limits<double>::infinity();

}  // namespace lockstep::tests
