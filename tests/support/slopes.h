#pragma once

#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/transforms.h>

#include "tests/support/array_values.h"

namespace lockstep::tests {

/// The gradient of a scalar function of two arrays against central differences.
template <class F>
void check_slopes(const F& f, const Array& x, const Array& y) {
  const auto checked = [](const Array& gradient, const Array& at, const auto& value) {
    const std::vector<double> given = values(gradient);
    for (std::size_t i = 0; i < given.size(); ++i) {
      const auto moved = [&](double h) {
        std::vector<double> elements = values(at);
        elements[i] += h;
        return value(array(elements, at.shape())).template item<double>();
      };
      const double h = 1e-5;
      const double slope = (moved(h) - moved(-h)) / (2 * h);
      CHECK_MESSAGE(is_close(given[i], slope, 1e-6), "element " << i << " is " << given[i] << ", not " << slope);
    }
  };
  checked(grad<0>(f)(x, y), x, [&](const Array& a) { return f(a, y); });
  checked(grad<1>(f)(x, y), y, [&](const Array& b) { return f(x, b); });
}

}  // namespace lockstep::tests
