#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include <lockstep/backend/special_functions.h>

#include "engine/numerics/limits.h"

namespace lockstep::backend::special {

namespace {

/// 1 + s / (2 x^2) + 3 s^2 / (2 x^2)^2 + ..., for |x| >= 50.
double erfc_asymptotic(double x, double sign) {
  const double square = sign / (2 * x * x);
  double term = 1, sum = 1;
  for (int k = 1; k < 8; ++k) {
    term *= (2 * k - 1) * square;
    sum += term;
  }
  return sum;
}

/// Rybicki's sum of exp(-(x - n h)^2) / n over odd n, whose error is exp(-(pi / 2h)^2), below the last bit for h = 1/4.
double by_rybicki(double x) {
  constexpr double h = 0.25;
  const double middle = 2 * std::round(x / (2 * h)), away = x - middle * h;
  double sum = 0;
  for (int n = -27; n <= 27; n += 2) {
    const double distance = away - n * h;
    sum += std::exp(-distance * distance) / (middle + n);
  }
  return std::numbers::inv_sqrtpi * sum;
}

/// The nodes in (0, 1) and weights of Gauss and Legendre's rule.
struct Rule {
  static constexpr int count = 48;
  std::array<double, count> nodes{}, weights{};
};

Rule legendre_rule() {
  Rule rule;
  constexpr int n = Rule::count;
  for (int i = 0; i < n; ++i) {
    long double z = std::cos(std::numbers::pi_v<long double> * (i + 0.75L) / (n + 0.5L)), slope = 1;
    for (int step = 0; step < 8; ++step) {
      long double p = 1, before = 0;
      for (int k = 1; k <= n; ++k) {
        const long double next = ((2 * k - 1) * z * p - (k - 1) * before) / k;
        before = p;
        p = next;
      }
      slope = n * (z * p - before) / (z * z - 1);
      z -= p / slope;
    }
    rule.nodes[static_cast<std::size_t>(i)] = static_cast<double>((1 - z) / 2);
    rule.weights[static_cast<std::size_t>(i)] = static_cast<double>(1 / ((1 - z * z) * slope * slope));
  }
  return rule;
}

/// The integral of exp(-h^2 (1 + t^2) / 2) / (1 + t^2) from 0 to a, over 2 pi; 0 <= a <= 1, h >= 0. Beyond t = 9 / h the
/// integrand is below its last bit.
double owens_integral(double h, double a) {
  if (h == 0) return std::atan(a) / (2 * std::numbers::pi);
  static const Rule rule = legendre_rule();
  const double end = std::fmin(a, 9 / h);
  double sum = 0;
  for (std::size_t i = 0; i < Rule::count; ++i) {
    const double t = end * rule.nodes[i];
    sum += rule.weights[i] * std::exp(-h * h * t * t / 2) / (1 + t * t);
  }
  return end * sum * std::exp(-h * h / 2) / (2 * std::numbers::pi);
}

/// The normal distribution's upper tail; a rounding of x counts x^2 times in it.
double tail(double x) {
  return static_cast<double>(std::erfc(static_cast<long double>(x) / std::numbers::sqrt2_v<long double>) / 2);
}

}  // namespace

double dawsn(double x) {
  const double size = std::abs(x);
  if (std::isnan(x) || x == 0) return x;
  if (size >= 50) return std::isinf(x) ? std::copysign(0.0, x) : erfc_asymptotic(size, 1) / (2 * x);
  if (size >= 0.5) return by_rybicki(x);
  double term = x, sum = x;
  for (int k = 1; k < 20; ++k) {
    term *= -2 * x * x / (2 * k + 1);
    sum += term;
  }
  return sum;
}

double erfcx(double x) {
  if (std::isnan(x)) return x;
  if (x < -27) return infinity;
  if (x >= 50) return std::isinf(x) ? 0 : erfc_asymptotic(x, -1) * (std::numbers::inv_sqrtpi / x);
  const long double wide = x;
  return static_cast<double>(std::exp(wide * wide) * std::erfc(wide));
}

double owens_t(double h, double a) {
  if (std::isnan(h) || std::isnan(a)) return std::numeric_limits<double>::quiet_NaN();
  const double height = std::abs(h), slope = std::abs(a);
  if (std::isinf(height)) return std::copysign(0.0, a);
  if (slope <= 1) return std::copysign(owens_integral(height, slope), a);
  const double near = tail(height), far = tail(slope * height);
  const double rest = std::isinf(slope) ? 0 : owens_integral(slope * height, 1 / slope);
  if (height == 0) return std::copysign(std::atan(slope) / (2 * std::numbers::pi), a);
  return std::copysign((near + far) / 2 - near * far - rest, a);
}

}  // namespace lockstep::backend::special
