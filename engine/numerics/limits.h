#pragma once

#include <limits>

// The ends of double that the special functions and samplers return or compare with.
namespace lockstep::backend::special {

inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr double nan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double epsilon = std::numeric_limits<double>::epsilon();

}  // namespace lockstep::backend::special
