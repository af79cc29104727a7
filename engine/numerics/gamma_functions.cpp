#include "engine/numerics/gamma_functions.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numbers>

#include <lockstep/backend/special_functions.h>

#include "engine/numerics/limits.h"

namespace lockstep::backend::special {

namespace {

/// B2, B4, ..., Bernoulli's numbers.
constexpr std::array<double, 12> bernoulli = {1.0 / 6,       -1.0 / 30,       1.0 / 42,       -1.0 / 30,
                                              5.0 / 66,      -691.0 / 2730,   7.0 / 6,        -3617.0 / 510,
                                              43867.0 / 798, -174611.0 / 330, 854513.0 / 138, -236364091.0 / 2730};

bool is_pole(double x) { return x <= 0 && x == std::floor(x); }

}  // namespace

double lgamma(double x) {
  int sign = 0;  // std::lgamma writes a global one.
  return ::lgamma_r(x, &sign);
}

double less_log1p(double mu) {
  if (std::abs(mu) > 0.3) return mu - std::log1p(mu);
  // log(1 + mu) = 2 artanh(r), and mu = 2r + r mu.
  const double r = mu / (2 + mu);
  const double square = r * r;
  double sum = 0;
  for (int k = 41; k >= 3; k -= 2) sum = (sum + 1.0 / k) * square;
  return r * (mu - 2 * sum);
}

double stirling_rest(double a) {
  if (a < 10) return lgamma(a + 1) - ((a + 0.5) * std::log(a) - a + 0.5 * std::log(2 * std::numbers::pi));
  const double inverse = 1 / (a * a);
  double sum = 0;
  for (std::size_t k = 9; k-- > 0;) {
    const double n = 2.0 * static_cast<double>(k) + 2;
    sum = sum * inverse + bernoulli[k] / (n * (n - 1));
  }
  return sum / a;
}

double digamma(double x) {
  if (std::isnan(x) || x == infinity) return x;
  if (x == -infinity || is_pole(x)) return nan;
  if (x < 0) {
    const double rest = x - std::nearbyint(x);
    return digamma(1 - x) - std::numbers::pi / std::tan(std::numbers::pi * rest);
  }
  double below = 0;
  for (; x < 12; ++x) below += 1 / x;
  const double inverse = 1 / (x * x);
  double sum = 0;
  for (std::size_t k = 9; k-- > 0;) sum = (sum + bernoulli[k] / (2.0 * static_cast<double>(k) + 2)) * inverse;
  return std::log(x) - 0.5 / x - sum - below;
}

double zeta(double s, double q) {
  if (std::isnan(s) || std::isnan(q)) return nan;
  if (s == 1) return infinity;
  if (s < 1) return nan;
  if (is_pole(q)) return infinity;
  if (q < 0 && s != std::floor(s)) return nan;
  if (q == infinity) return 0;
  double sum = 0;
  double a = q;
  for (int k = 0; k < 10 || a < 10; ++k, ++a) {
    const double term = std::pow(a, -s);
    sum += term;
    if (std::abs(term) < 1e-18 * std::abs(sum) && a > 0) return sum;
  }
  const double power = std::pow(a, -s);
  sum += power * a / (s - 1) + power / 2;
  double factor = s * power / (2 * a);
  for (std::size_t k = 0; k < bernoulli.size(); ++k) {
    const double term = bernoulli[k] * factor;
    sum += term;
    if (std::abs(term) < 1e-18 * std::abs(sum)) break;
    const double n = 2.0 * static_cast<double>(k) + 2;
    factor *= (s + n - 1) * (s + n) / ((n + 1) * (n + 2) * a * a);
  }
  return sum;
}

}  // namespace lockstep::backend::special
