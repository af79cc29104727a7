#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

#include <lockstep/backend/special_functions.h>

#include "engine/numerics/limits.h"

namespace lockstep::backend::special {

namespace {

constexpr double far_from_zero = 25;  // From here on the asymptotic series' least term is below the rounding.

/// The sum of (x^2/4)^k / (k! (k + order)!), all terms positive.
double bessel_power_series(double x, int order) {
  const double square = x * x / 4;
  double term = 1, sum = 1;
  for (int k = 1; term > epsilon / 4 * sum; ++k) {
    term *= square / (static_cast<double>(k) * (k + order));
    sum += term;
  }
  return sum;
}

double bessel_asymptotic(double x, int order) {
  const double mu = 4.0 * order * order;
  double term = 1, sum = 1;
  for (int k = 1; k < 50 && std::abs(term) > epsilon / 4; ++k) {
    const double odd = 2 * k - 1;
    term *= (odd * odd - mu) / (8 * k * x);
    sum += term;
  }
  return sum / std::sqrt(2 * std::numbers::pi * x);
}

}  // namespace

double bessel_i0e(double x) {
  const double magnitude = std::abs(x);
  if (std::isnan(x)) return x;
  return magnitude < far_from_zero ? std::exp(-magnitude) * bessel_power_series(magnitude, 0)
                                   : bessel_asymptotic(magnitude, 0);
}

double bessel_i1e(double x) {
  const double magnitude = std::abs(x);
  if (std::isnan(x)) return x;
  const double result = magnitude < far_from_zero
                            ? std::exp(-magnitude) * (magnitude / 2) * bessel_power_series(magnitude, 1)
                            : bessel_asymptotic(magnitude, 1);
  return std::copysign(result, x);
}

double bessel_j0(double x) { return ::j0(x); }
double bessel_j1(double x) { return ::j1(x); }
double bessel_jn(std::int64_t n, double x) { return ::jn(static_cast<int>(n), x); }

}  // namespace lockstep::backend::special
