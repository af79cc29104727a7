#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/array.h>

#include "tests/support/array_values.h"

// Whether numbers come from a distribution. Keys are fixed, so that a test passes always or never; the bounds are passed
// by 999999 of a million sets of numbers that do come from it.
namespace lockstep::tests {

/// A shape of so many numbers.
inline Shape many() { return {20000}; }

/// The largest distance of the empirical distribution function from `cdf`, against the bound of Kolmogorov's
/// distribution at 1e-6: sqrt(log(2 / 1e-6) / 2) / sqrt(n).
inline void check_distribution(const Array& draws, const std::function<double(double)>& cdf) {
  std::vector<double> x = values(draws);
  std::sort(x.begin(), x.end());
  const auto n = static_cast<double>(x.size());
  double distance = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double p = cdf(x[i]);
    REQUIRE((p >= 0 && p <= 1));
    distance = std::max({distance, p - static_cast<double>(i) / n, static_cast<double>(i + 1) / n - p});
  }
  CHECK(distance < std::sqrt(std::log(2e6) / 2 / n));
}

/// Pearson's chi-square of counts against `probability(k)`, classes of an expected count below 10 joined; against the
/// bound of a chi-square variate at 1e-6 (Wilson and Hilferty, z = 4.7534).
inline void check_counts(const Array& draws, std::int64_t first, std::int64_t last,
                         const std::function<double(std::int64_t)>& probability) {
  std::map<std::int64_t, double> counts;
  const std::vector<double> x = values(draws);
  for (const double k : x) ++counts[static_cast<std::int64_t>(k)];
  for (const auto& [k, count] : counts) REQUIRE((k >= first && k <= last));
  double statistic = 0, classes = 0, expected = 0, seen = 0;
  for (std::int64_t k = first; k <= last; ++k) {
    expected += probability(k) * static_cast<double>(x.size());
    seen += counts[k];
    if (expected < 10 && k < last) continue;
    if (expected > 0) statistic += (seen - expected) * (seen - expected) / std::max(expected, 1.0);
    ++classes;
    expected = seen = 0;
  }
  const double df = classes - 1;
  REQUIRE(df >= 1);
  const double bound = df * std::pow(1 - 2 / (9 * df) + 4.7534 * std::sqrt(2 / (9 * df)), 3);
  CHECK(statistic < bound);
}

}  // namespace lockstep::tests
