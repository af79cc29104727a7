#include <cmath>
#include <complex>
#include <limits>
#include <numbers>

#include <lockstep/backend/special_functions.h>

#include "engine/numerics/limits.h"

namespace lockstep::backend::special {

namespace {

using Complex = std::complex<double>;

/// Both integrals up to x, 0 < x <= 6, by their power series. A sum of many terms has lost digits of a double.
long double sin_series(long double x) {
  long double power = x, sum = x;
  for (int k = 1; k < 40; ++k) {
    power *= -x * x / ((2 * k) * (2 * k + 1));
    sum += power / (2 * k + 1);
  }
  return sum;
}

long double cos_series(long double x) {
  long double power = 1, sum = 0;
  for (int k = 1; k < 40; ++k) {
    power *= -x * x / ((2 * k - 1) * (2 * k));
    sum += power / (2 * k);
  }
  return sum + std::numbers::egamma_v<long double> + std::log(x);
}

/// E1(i x) = -Ci(x) + i (Si(x) - pi / 2), x > 6, by its continued fraction.
Complex exponential_integral(double x) {
  const Complex z(0, x);
  const int depth = 20 + static_cast<int>(360 / x);
  Complex fraction = z + (2.0 * depth + 1);
  for (int k = depth; k >= 1; --k) fraction = z + (2.0 * k - 1) - static_cast<double>(k) * k / fraction;
  return std::polar(1.0, -x) / fraction;
}

/// i^(x^2): the angle pi x^2 / 2 without what x^2 loses in rounding.
Complex quarter_turns(double x) {
  const double square = x * x, lost = std::fma(x, x, -square);
  const double angle = std::numbers::pi / 2 * (std::fmod(square, 4.0) + lost);
  return std::isfinite(square) ? std::polar(1.0, angle) : Complex(1, 0);
}

/// C(x) + i S(x), 0 <= x < 2.2, by the power series of exp(i u), u = pi x^2 / 2.
std::complex<long double> fresnel_series(long double x) {
  const long double u = std::numbers::pi_v<long double> / 2 * x * x;
  long double power = x, c = x, s = 0;
  for (int k = 1; k < 60; ++k) {
    power *= u / k;
    const long double term = power / (2 * k + 1);
    switch (k % 4) {
      case 0:
        c += term;
        break;
      case 1:
        s += term;
        break;
      case 2:
        c -= term;
        break;
      default:
        s -= term;
    }
  }
  return {c, s};
}

/// C(x) + i S(x) of x >= 0; beyond the series as (1 + i) / 2 (1 - erfc(z)), z = sqrt(pi) / 2 (1 - i) x.
Complex fresnel_integrals(double x) {
  if (std::isinf(x)) return {0.5, 0.5};
  if (x < 2.2) return Complex(fresnel_series(x));
  const Complex z = std::sqrt(std::numbers::pi) / 2 * x * Complex(1, -1);
  Complex fraction = z;
  for (int k = 10 + static_cast<int>(200 / x); k >= 1; --k) fraction = z + k / 2.0 / fraction;
  const Complex rest = quarter_turns(x) * std::numbers::inv_sqrtpi / fraction;
  return Complex(0.5, 0.5) * (1.0 - rest);
}

}  // namespace

double sin_integral(double x) {
  const double size = std::abs(x);
  if (std::isnan(x) || x == 0) return x;
  if (size <= 6) return static_cast<double>(sin_series(x));
  const double value = std::numbers::pi / 2 + (std::isinf(x) ? 0 : exponential_integral(size).imag());
  return std::copysign(value, x);
}

double cos_integral(double x) {
  if (!(x >= 0)) return std::numeric_limits<double>::quiet_NaN();
  if (x == 0) return -infinity;
  if (x <= 6) return static_cast<double>(cos_series(x));
  return std::isinf(x) ? 0 : -exponential_integral(x).real();
}

double fresnel_s(double x) { return std::isnan(x) ? x : std::copysign(fresnel_integrals(std::abs(x)).imag(), x); }
double fresnel_c(double x) { return std::isnan(x) ? x : std::copysign(fresnel_integrals(std::abs(x)).real(), x); }

}  // namespace lockstep::backend::special
