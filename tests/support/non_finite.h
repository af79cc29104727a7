#pragma once

#include <limits>

// Infinity and NaN, of float64 and of float32.
namespace lockstep::tests {

inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
inline constexpr float float_infinity = std::numeric_limits<float>::infinity();
inline constexpr float float_not_a_number = std::numeric_limits<float>::quiet_NaN();

}  // namespace lockstep::tests
