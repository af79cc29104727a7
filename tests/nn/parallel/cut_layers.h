#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/replicas.h"

// Layers cut along a mesh axis beside what one device computes.
namespace lockstep::tests {

/// Numbers of replicas along the axis, and devices that run them.
inline const std::vector<Replicas> cuts = {{1, 1}, {2, 1}, {2, 2}, {4, 2}, {8, 1}, {8, 2}};

inline Mesh mesh_along(const std::string& axis, const Replicas& replicas) {
  return Mesh({{axis, replicas.shards}}, cpu_devices(replicas.devices));
}

/// What is tolerated of the largest element: sums go in another order.
inline double tolerance_of(DType dtype) { return dtype == DType::float64 ? 1e-11 : 1e-5; }

/// All leaves agree, each up to the tolerance of its dtype times its largest element.
inline void check_trees(const Tree& given, const Tree& expected) {
  REQUIRE(given.paths() == expected.paths());
  for (const std::string& path : expected.paths()) {
    CAPTURE(path);
    const Array a = given.at(path).array(), b = expected.at(path).array();
    REQUIRE(a.shape() == b.shape());
    REQUIRE(a.dtype() == b.dtype());
    const double size = std::max(1.0, convert(max(abs(b)), float64).item<double>());
    CHECK(convert(max(abs(a - b)), float64).item<double>() <= tolerance_of(b.dtype()) * size);
  }
}
inline void check_arrays(const Array& given, const Array& expected) { check_trees(Tree(given), Tree(expected)); }

inline Array drawn(std::uint64_t seed, const Shape& shape, DType dtype) {
  return random::normal(random::key(seed), shape, dtype);
}

}  // namespace lockstep::tests
