#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

#include <lockstep/backend/special_functions.h>

#include "engine/numerics/limits.h"

namespace lockstep::backend::special {

namespace {

/// gamma + log|x| + the sum of x^k / (k k!). A power of many factors has lost digits of a double.
double exponential_power_series(double x) {
  const long double wide = x;
  long double power = 1, sum = 0;
  for (int k = 1; k < 400; ++k) {
    power *= wide / k;
    sum += power / k;
    if (k > std::abs(x) && std::abs(power / k) < 1e-21L * std::abs(sum)) break;
  }
  return static_cast<double>(sum + std::numbers::egamma_v<long double> + std::log(std::abs(wide)));
}

/// exp(x) y, where exp(x) alone may leave the range.
double times_exp(double x, double y) {
  return std::abs(x) < 700 ? std::exp(x) * y : std::exp(x / 2) * y * std::exp(x / 2);
}

/// The integral of exp(t) / t from Ei's zero z, which has two parts: log(x / z) + the sum of (x^k - z^k) / (k k!).
double from_zero(double x) {
  constexpr double zero = 0.3725074107813666, rest = 1.3140183414386028e-17;
  const double away = (x - zero) - rest;
  double quotient = 1, power = 1, factorial = 1, sum = 0;  // quotient: (x^k - z^k) / (x - z)
  for (int k = 1; k < 25; ++k) {
    factorial *= k;
    sum += quotient / (k * factorial);
    power *= zero;
    quotient = quotient * x + power;
  }
  return std::log1p(away / zero) + away * sum;
}

/// exp(-x) x Ei(x), the sum of k! / x^k.
double exponential_asymptotic(double x) {
  long double term = 1, sum = 1;
  for (int k = 1; k < 60 && term > 1e-18L; ++k) {
    term *= k / static_cast<long double>(x);
    sum += term;
  }
  return static_cast<double>(sum);
}

/// E_n(x) for 0 < x <= 1: (-x)^(n-1) / (n-1)! (psi(n) - log x) less the sum of (-x)^k / ((k - n + 1) k!) over k other than
/// n - 1.
double power_series_of_order(std::int64_t n, double x) {
  long double power = 1, sum = 0, psi = -std::numbers::egamma_v<long double>;
  for (std::int64_t k = 1; k < n; ++k) psi += 1.0L / static_cast<long double>(k);
  for (std::int64_t k = 0; k < n + 30; ++k) {
    const auto away = static_cast<long double>(k - n + 1);
    sum += away == 0 ? power * (psi - std::log(static_cast<long double>(x))) : -power / away;
    power *= -x / static_cast<long double>(k + 1);
    if (k >= n && power == 0) break;
  }
  return static_cast<double>(sum);
}

}  // namespace

double expn(std::int64_t n, double x) {
  if (!(x >= 0) || n < 0) return nan;
  if (n == 0) return x == 0 ? infinity : x > 750 ? 0 : times_exp(-x, 1 / x);
  if (n == 1) return exp1(x);
  if (x == 0) return 1 / static_cast<double>(n - 1);
  if (x <= 1) return power_series_of_order(n, x);
  if (x > 750) return 0;
  const auto order = static_cast<double>(n);
  const int depth = 12 + static_cast<int>(120 / x);
  double fraction = x + order + 2 * depth;
  for (int k = depth; k >= 1; --k) fraction = x + order + 2 * (k - 1) - k * (order + k - 1) / fraction;
  return times_exp(-x, 1 / fraction);
}

double exp1(double x) {
  if (!(x >= 0)) return nan;
  if (x == 0) return infinity;
  if (x < 0.5) return -exponential_power_series(-x);
  if (x > 750) return 0;
  double fraction = x;
  for (int k = 8 + static_cast<int>(110 / x); k >= 1; --k) fraction = x + k / (1 + k / fraction);
  return times_exp(-x, 1 / fraction);
}

double expi(double x) {
  if (std::isnan(x)) return x;
  if (x < 0) return -exp1(-x);
  if (x == 0) return -infinity;
  if (x > 717) return infinity;
  if (x > 0.2 && x < 0.6) return from_zero(x);
  return x < 45 ? exponential_power_series(x) : times_exp(x, exponential_asymptotic(x) / x);
}

}  // namespace lockstep::backend::special
