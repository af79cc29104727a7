#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include <lockstep/backend/special_functions.h>

#include "engine/numerics/gamma_functions.h"
#include "engine/numerics/limits.h"

namespace lockstep::backend::special {

namespace {

constexpr int most_gamma_terms = 200000;  // About 10 sqrt(a) are needed where x is near a.

Dual constant_dual(double x) { return {x, 0}; }

bool is_small(Dual term, Dual sum) {
  return std::abs(term.value) <= epsilon * std::abs(sum.value) &&
         std::abs(term.slope) <= epsilon * std::max(std::abs(sum.slope), std::abs(sum.value));
}

/// x^a exp(-x) / Gamma(a + 1).
double gamma_leading(double a, double x) {
  if (a < 10) return std::exp(a * std::log(x) - x - lgamma(a + 1));
  return std::exp(-a * less_log1p((x - a) / a) - stirling_rest(a)) / std::sqrt(2 * std::numbers::pi * a);
}

/// P(a, x) / leading: the sum of x^n / ((a + 1) ... (a + n)).
Dual gamma_series(Dual a, double x) {
  Dual term = constant_dual(1), sum = term;
  for (int n = 1; n < most_gamma_terms && !(n > 1 && is_small(term, sum)); ++n) {
    term = term * (constant_dual(x) / (a + constant_dual(n)));
    sum = sum + term;
  }
  return sum;
}

/// Q(a, x) / (a leading), by Lentz' way through the fraction 1/(x+1-a - 1(1-a)/(x+3-a - ...)).
Dual gamma_fraction(Dual a, double x) {
  const Dual one = constant_dual(1);
  Dual b = constant_dual(x + 1) - a;
  Dual c = constant_dual(1e300);
  Dual d = one / b;
  Dual result = d;
  for (int n = 1; n < most_gamma_terms; ++n) {
    const Dual numerator = constant_dual(n) * (a - constant_dual(n));
    b = b + constant_dual(2);
    d = one / (b + numerator * d);
    c = b + numerator / c;
    const Dual factor = d * c;
    result = result * factor;
    if (is_small({factor.value - 1, factor.slope}, one)) break;
  }
  return result;
}

/// lgamma(1 + a) for small a, without the rounding of 1 + a: DLMF 5.7.3.
double lgamma1p(double a) {
  if (a > 0.1) return lgamma(1 + a);
  double sum = 0;
  for (int k = 16; k >= 2; --k) sum = (sum + (k % 2 == 0 ? 1 : -1) * zeta(k, 1) / k) * a;
  return (sum - std::numbers::egamma) * a;
}

/// Q(a, x) for x up to about 1, accurate also where it is small: 1 - x^a / Gamma(1 + a) (1 + a sum of (-x)^n / ((a + n)
/// n!)), DLMF 8.7.1.
double upper_by_series(double a, double x) {
  const double logarithm = a * std::log(x) - lgamma1p(a);
  double term = 1, sum = 0;
  for (int n = 1; n < 100; ++n) {
    term *= -x / n;
    sum += term / (a + n);
    if (std::abs(term) < epsilon * std::abs(sum)) break;
  }
  return -std::expm1(logarithm) - std::exp(logarithm) * a * sum;
}

bool outside(double a, double x) {
  return !(a >= 0) || !(x >= 0) || (a == 0 && x == 0) || (std::isinf(a) && std::isinf(x));
}
bool by_fraction(double a, double x) { return x > 1.1 && x > a; }

}  // namespace

double igamma(double a, double x) {
  if (outside(a, x)) return nan;
  if (x == 0 || std::isinf(a)) return 0;
  if (x == infinity || a == 0) return 1;
  if (by_fraction(a, x)) return 1 - a * gamma_leading(a, x) * gamma_fraction(constant_dual(a), x).value;
  return gamma_leading(a, x) * gamma_series(constant_dual(a), x).value;
}

double igammac(double a, double x) {
  if (outside(a, x)) return nan;
  if (x == 0 || std::isinf(a)) return 1;
  if (x == infinity || a == 0) return 0;
  if (by_fraction(a, x)) return a * gamma_leading(a, x) * gamma_fraction(constant_dual(a), x).value;
  if (x <= 1.1 && a < 1) return upper_by_series(a, x);
  return 1 - gamma_leading(a, x) * gamma_series(constant_dual(a), x).value;
}

double igamma_grad_a(double a, double x) {
  if (outside(a, x) || a == 0) return nan;
  if (x == 0 || std::isinf(a) || x == infinity) return 0;
  const double factor = gamma_leading(a, x);
  if (by_fraction(a, x)) {
    const Dual q = gamma_fraction({a, 1}, x);
    return -a * factor * (q.value * (std::log(x) - digamma(a)) + q.slope);
  }
  const Dual p = gamma_series({a, 1}, x);
  return factor * (p.value * (std::log(x) - digamma(a + 1)) + p.slope);
}

}  // namespace lockstep::backend::special
