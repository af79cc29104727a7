#include "engine/vision/augmentation/draws.h"

#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include <lockstep/error.h>

namespace lockstep::data {

void check_between(double value, double low, double high, const std::string& who, const std::string& what) {
  if (value >= low && value <= high) return;
  throw ValueError(fmt::format("[{}] {} is {}; expected {} to {}", who, what, value, low, high));
}

void check_range(const Range& range, double low, double high, const std::string& who, const std::string& what) {
  if (range.low >= low && range.high >= range.low && range.high <= high) return;
  throw ValueError(fmt::format("[{}] {} is drawn from {{{}, {}}}; expected a range of {} to {}", who, what, range.low,
                               range.high, low, high));
}

double drawn(const Range& range, const RowKey& key, std::uint64_t counter) {
  return range.low + key.uniform(counter) * (range.high - range.low);
}

bool happens(double p, const std::string& who, const RowKey& key, std::uint64_t counter) {
  check_between(p, 0, 1, who, "p");
  return key.uniform(counter) < p;
}

double drawn_normal(const RowKey& key, std::uint64_t counter) {
  const double radius = std::sqrt(-2 * std::log1p(-key.uniform(2 * counter)));
  return radius * std::cos(2 * std::numbers::pi * key.uniform(2 * counter + 1));
}

double drawn_gamma(double shape, const RowKey& key) {
  // Marsaglia and Tsang 2000; below 1 by the shape one larger and a power of a uniform number.
  const double larger = shape < 1 ? shape + 1 : shape;
  const double d = larger - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (std::uint32_t n = 0;; ++n) {
    const RowKey trial = key.fold_in(n);
    const double x = drawn_normal(trial, 0);
    const double v = std::pow(1 + c * x, 3);
    if (v <= 0 || std::log(1 - trial.uniform(2)) >= x * x / 2 + d - d * v + d * std::log(v)) continue;
    return d * v * (shape < 1 ? std::pow(1 - trial.uniform(3), 1 / shape) : 1);
  }
}

}  // namespace lockstep::data
