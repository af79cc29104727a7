#pragma once

#include <cmath>
#include <functional>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/array.h>
#include <lockstep/manipulation.h>
#include <lockstep/ops.h>
#include <lockstep/transforms.h>

#include "tests/support/arange_of.h"
#include "tests/support/array_values.h"

// Gradients of composites against finite differences in float64.
namespace lockstep::tests {

/// Numbers between -1 and 1 without a pattern.
inline Array wavy(const Shape& shape, double phase = 0) {
  return sin(arange_of(shape, float64) * 1.7 + phase) * cos(arange_of(shape, float64) * 0.9 - phase);
}

/// The gradient at x of a weighted sum of f's result, and of that gradient again.
inline void check_gradient(const std::function<Array(const Array&)>& f, const Array& x, int orders = 1) {
  const auto weighted = [&](const Array& v) {
    const Array y = f(v);
    return sum(y * cos(arange_of(y.shape(), float64) + 0.3));
  };
  const Array gradient = grad(weighted)(x);
  const double h = 1e-5;
  std::vector<double> expected;
  for (std::int64_t i = 0; i < x.size(); ++i) {
    const Array step = convert(equal(arange_of(x.shape(), int64), i), float64) * h;
    const auto slope = [&](double factor) {
      return weighted(x + step * factor).item<double>() - weighted(x - step * factor).item<double>();
    };
    expected.push_back((8 * slope(1) - slope(2)) / (12 * h));
  }
  check_close(gradient, x.shape(), expected, 1e-6);
  if (orders > 1) check_gradient([&](const Array& v) { return grad(weighted)(v); }, x, orders - 1);
}

}  // namespace lockstep::tests
