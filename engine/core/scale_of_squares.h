// A scale for what is divided by the root of its mean square.
#pragma once

#include <algorithm>
#include <cmath>

#include <lockstep/types.h>

namespace lockstep {

/// A power of two s of at most 1, for (s x) / sqrt(mean((s x)^2) + s^2 epsilon): the bits of s = 1 wherever those squares
/// neither overflow nor vanish beside epsilon. x may be 2^14 / sqrt(epsilon) (float64: 2^100) times as large. It is no
/// more, since derivatives have negative powers of s^2 epsilon, the fourth one its -4.5th.
inline double scale_of_squares(DType dtype, double epsilon) {
  if (!(epsilon > 0)) return 1;
  const double exponent = dtype == DType::float64 ? -100 : -14;
  return std::exp2(std::min(0.0, std::floor(exponent - std::log2(epsilon) / 2)));
}

}  // namespace lockstep
