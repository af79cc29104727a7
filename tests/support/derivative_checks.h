#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/support/evaluate.h"

// Numbers that derivatives are checked with.
namespace lockstep::tests {

/// Uniform on [-1, 1), the same on every platform.
inline double draw(std::mt19937_64& bits) { return static_cast<double>(bits() >> 11) * 0x1p-52 - 1; }

inline std::vector<Elements> random_arrays(const std::vector<ArrayType>& types, std::uint64_t seed) {
  std::mt19937_64 bits(seed);
  std::vector<Elements> arrays;
  for (const ArrayType& type : types) {
    Elements elements(static_cast<std::size_t>(type.size()));
    for (double& x : elements) x = draw(bits);
    arrays.push_back(std::move(elements));
  }
  return arrays;
}

/// x + h * dx.
inline std::vector<Elements> moved(std::vector<Elements> x, const std::vector<Elements>& dx, double h) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::size_t k = 0; k < x[i].size(); ++k) x[i][k] += h * dx[i][k];
  }
  return x;
}

inline double inner_product(const std::vector<Elements>& a, const std::vector<Elements>& b) {
  double sum = 0;
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    REQUIRE(a[i].size() == b[i].size());
    for (std::size_t k = 0; k < a[i].size(); ++k) sum += a[i][k] * b[i][k];
  }
  return sum;
}

/// The derivative of f at x along dx by central differences, extrapolated once (error of order h^4).
inline std::vector<Elements> central_difference(const ir::FunctionPtr& f, const std::vector<Elements>& x,
                                                const std::vector<Elements>& dx, double h = 1e-3) {
  const auto slope = [&](double step) {
    std::vector<Elements> up = evaluate(f, moved(x, dx, step));
    const std::vector<Elements> down = evaluate(f, moved(x, dx, -step));
    for (std::size_t i = 0; i < up.size(); ++i) {
      for (std::size_t k = 0; k < up[i].size(); ++k) up[i][k] = (up[i][k] - down[i][k]) / (2 * step);
    }
    return up;
  };
  std::vector<Elements> fine = slope(h / 2);
  const std::vector<Elements> coarse = slope(h);
  for (std::size_t i = 0; i < fine.size(); ++i) {
    for (std::size_t k = 0; k < fine[i].size(); ++k) fine[i][k] += (fine[i][k] - coarse[i][k]) / 3;
  }
  return fine;
}

/// The largest |a - b| / max(1, |b|).
inline double distance(const std::vector<Elements>& a, const std::vector<Elements>& b) {
  double largest = 0;
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    REQUIRE(a[i].size() == b[i].size());
    for (std::size_t k = 0; k < a[i].size(); ++k) {
      const double error = std::abs(a[i][k] - b[i][k]) / std::max(1.0, std::abs(b[i][k]));
      largest = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(largest, error);
    }
  }
  return largest;
}

}  // namespace lockstep::tests
