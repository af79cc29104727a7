#pragma once

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/ops.h>
#include <lockstep/tree.h>

namespace lockstep::tests {

/// Leaf by leaf, by the norm of the difference.
inline void check_close(const Tree& a, const Tree& b, double tolerance) {
  REQUIRE(a.paths() == b.paths());
  for (const std::string& path : a.paths()) {
    CAPTURE(path);
    const std::vector<double> x = convert(a.at(path).array(), float64).to_vector<double>();
    const std::vector<double> y = convert(b.at(path).array(), float64).to_vector<double>();
    double difference = 0;
    double norm = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      difference = std::hypot(difference, x[i] - y[i]);
      norm = std::hypot(norm, y[i]);
    }
    CHECK(difference <= tolerance * norm);
  }
}

}  // namespace lockstep::tests
