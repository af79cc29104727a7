#include <cmath>
#include <limits>
#include <numbers>

#include <lockstep/backend/special_functions.h>

#include "engine/numerics/gamma_functions.h"

namespace lockstep::backend::special {

namespace {

/// x^a (1 - x)^b / B(a, b), given both x and 1 - x.
double beta_leading(double a, double b, double x, double rest) {
  if (a < 10 || b < 10) {
    return std::exp(a * std::log(x) + b * (x < 0.5 ? std::log1p(-x) : std::log(rest)) - lgamma(a) - lgamma(b) +
                    lgamma(a + b));
  }
  const double n = a + b;
  const double deviance = a * less_log1p((b * x - a * rest) / a) + b * less_log1p((a * rest - b * x) / b);
  return std::sqrt(a / n * b / (2 * std::numbers::pi)) *
         std::exp(stirling_rest(n) - stirling_rest(a) - stirling_rest(b) - deviance);
}

double away_from_zero(double x) { return std::abs(x) < 1e-300 ? 1e-300 : x; }

/// The fraction 1/(1 + d1/(1 + d2/(1 + ...))), by Lentz' way.
double beta_fraction(double a, double b, double x) {
  double c = 1;
  double d = 1 / away_from_zero(1 - (a + b) * x / (a + 1));
  double result = d;
  for (int m = 1; m < 100000; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / away_from_zero(1 + even * d);
    c = away_from_zero(1 + even / c);
    result *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / away_from_zero(1 + odd * d);
    c = away_from_zero(1 + odd / c);
    result *= d * c;
    if (std::abs(d * c - 1) <= std::numeric_limits<double>::epsilon()) break;
  }
  return result;
}

}  // namespace

double betainc(double a, double b, double x) {
  if (!(a >= 0) || !(b >= 0) || (a == 0 && b == 0) || !(x >= 0 && x <= 1)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (x == 0 || x == 1) return x;
  if (a == 0 || b == 0) return a == 0 ? 1 : 0;
  const double rest = 1 - x;
  const double factor = beta_leading(a, b, x, rest);
  if (x <= (a + 1) / (a + b + 2)) return factor * beta_fraction(a, b, x) / a;
  return 1 - factor * beta_fraction(b, a, rest) / b;
}

}  // namespace lockstep::backend::special
