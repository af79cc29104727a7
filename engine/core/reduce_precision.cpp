#include <algorithm>
#include <cmath>
#include <limits>

#include <lockstep/backend/special_functions.h>

namespace lockstep::backend::special {

double reduce_precision(double x, int given_exponent_bits, int exponent_bits, int mantissa_bits) {
  if (!std::isfinite(x) || x == 0) return x;
  const bool narrower = exponent_bits < given_exponent_bits;
  const int bias = (1 << (std::min(exponent_bits, given_exponent_bits) - 1)) - 1;
  const int least = 1 - bias;
  int exponent = std::ilogb(x);
  if (!narrower) exponent = std::max(exponent, least);  // Below the normal range, digits have fixed places.
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(x, mantissa_bits - exponent)), exponent - mantissa_bits);
  if (!narrower) return rounded;
  if (std::abs(rounded) >= std::ldexp(1.0, bias + 1)) {
    return std::copysign(std::numeric_limits<double>::infinity(), x);
  }
  return std::abs(rounded) < std::ldexp(1.0, least) ? std::copysign(0.0, x) : rounded;
}

}  // namespace lockstep::backend::special
