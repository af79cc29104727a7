#include <cmath>
#include <limits>
#include <numbers>

#include <lockstep/backend/samplers.h>
#include <lockstep/backend/threefry.h>

#include "engine/numerics/limits.h"

namespace lockstep::backend::samplers {

namespace {

/// A proposal is accepted with a chance of at least two thirds, so this many are never refused by chance; it ends loops
/// over arguments so large that the acceptance test has lost all its digits.
constexpr int most_proposals = 1000;

/// Uniforms on (0, 1), one after the other.
class Uniforms {
 public:
  explicit Uniforms(Key key) : key_(key) {}
  double next() { return (static_cast<double>(threefry_bits(key_, counter_++) >> 12) + 0.5) * 0x1p-52; }

 private:
  Key key_;
  std::uint64_t counter_ = 0;
};

/// log(k!) less (k + 1/2) log(k + 1) - (k + 1) + log(2 pi) / 2.
double factorial_rest(double k) {
  static constexpr std::array<double, 10> first = {
      0.08106146679532726, 0.04134069595540929, 0.02767792568499834, 0.02079067210376509, 0.01664469118982119,
      0.01387612882307075, 0.01189670994589177, 0.01041126526197209, 0.00925546218273271, 0.00833056343336287};
  if (k < 10) return first[static_cast<std::size_t>(k)];
  const double r = 1 / ((k + 1) * (k + 1));
  return (1.0 / 12 - (1.0 / 360 - r / 1260) * r) / (k + 1);
}

double log_factorial(double k) {
  return (k + 0.5) * std::log(k + 1) - (k + 1) + 0.5 * std::log(2 * std::numbers::pi) + factorial_rest(k);
}

double poisson_by_products(Uniforms& uniforms, double rate) {
  const double end = std::exp(-rate);
  double k = 0;
  for (double product = uniforms.next(); product > end; product *= uniforms.next()) ++k;
  return k;
}

double poisson_by_rejection(Uniforms& uniforms, double rate) {
  const double log_rate = std::log(rate);
  const double b = 0.931 + 2.53 * std::sqrt(rate);
  const double a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
  const double squeeze = 0.9277 - 3.6224 / (b - 2);
  for (int i = 0; i < most_proposals; ++i) {
    const double u = uniforms.next() - 0.5;
    const double v = uniforms.next();
    const double distance = 0.5 - std::abs(u);
    const double k = std::floor((2 * a / distance + b) * u + rate + 0.43);
    if (distance >= 0.07 && v <= squeeze) return k;
    if (k < 0 || (distance < 0.013 && v > distance)) continue;
    const double proposed = std::log(v * inverse_alpha / (a / (distance * distance) + b));
    if (proposed <= k * log_rate - rate - log_factorial(k)) return k;
  }
  return std::floor(rate);
}

/// Failures between successes are geometric; p <= 1/2.
double binomial_by_gaps(Uniforms& uniforms, double n, double p) {
  const double log_failure = std::log1p(-p);
  double k = -1;
  for (double trials = 0; trials <= n; ++k) trials += std::ceil(std::log(uniforms.next()) / log_failure);
  return k;
}

double binomial_by_rejection(Uniforms& uniforms, double n, double p) {
  const double deviation = std::sqrt(n * p * (1 - p));
  const double b = 1.15 + 2.53 * deviation;
  const double a = -0.0873 + 0.0248 * b + 0.01 * p;
  const double center = n * p + 0.5;
  const double squeeze = 0.92 - 4.2 / b;
  const double odds = p / (1 - p);
  const double alpha = (2.83 + 5.1 / b) * deviation;
  const double mode = std::floor((n + 1) * p);
  for (int i = 0; i < most_proposals; ++i) {
    const double u = uniforms.next() - 0.5;
    const double v = uniforms.next();
    const double distance = 0.5 - std::abs(u);
    const double k = std::floor((2 * a / distance + b) * u + center);
    if (k < 0 || k > n) continue;
    if (distance >= 0.07 && v <= squeeze) return k;
    const double proposed = std::log(v * alpha / (a / (distance * distance) + b));
    const double bound = (mode + 0.5) * std::log((mode + 1) / (odds * (n - mode + 1))) +
                         (n + 1) * std::log((n - mode + 1) / (n - k + 1)) +
                         (k + 0.5) * std::log(odds * (n - k + 1) / (k + 1)) + factorial_rest(mode) +
                         factorial_rest(n - mode) - factorial_rest(k) - factorial_rest(n - k);
    if (proposed <= bound) return k;
  }
  return std::floor(n * p);
}

}  // namespace

double poisson(Key key, double rate) {
  if (!(rate >= 0)) return -1;
  if (std::isinf(rate)) return special::infinity;
  if (rate == 0) return 0;
  Uniforms uniforms(key);
  return rate < 10 ? poisson_by_products(uniforms, rate) : poisson_by_rejection(uniforms, rate);
}

double binomial(Key key, double n, double p) {
  if (!(n >= 0) || !(p >= 0 && p <= 1)) return std::numeric_limits<double>::quiet_NaN();
  if (std::isinf(n)) return special::infinity;
  n = std::floor(n);
  const double q = p < 0.5 ? p : 1 - p;
  if (q == 0 || n == 0) return p < 0.5 ? 0 : n;
  Uniforms uniforms(key);
  const double k = n * q < 10 ? binomial_by_gaps(uniforms, n, q) : binomial_by_rejection(uniforms, n, q);
  return p < 0.5 ? k : n - k;
}

}  // namespace lockstep::backend::samplers
