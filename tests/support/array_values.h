#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/array.h>
#include <lockstep/ops.h>

// Arrays as plain numbers.
namespace lockstep::tests {

/// The elements as doubles, whatever the dtype.
inline std::vector<double> values(const Array& array) { return convert(array, float64).to_vector<double>(); }

inline bool is_close(double a, double b, double tolerance) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::abs(a - b) <= tolerance * std::max(1.0, std::abs(b));
}

/// Shape and elements, to a tolerance relative to max(1, |expected|).
inline void check_close(const Array& array, const Shape& shape, const std::vector<double>& expected,
                        double tolerance = 1e-6) {
  CHECK(to_string(array.shape()) == to_string(shape));
  const std::vector<double> given = values(array);
  REQUIRE(given.size() == expected.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    CHECK_MESSAGE(is_close(given[i], expected[i], tolerance),
                  "element " << i << " is " << given[i] << ", expected " << expected[i]);
  }
}

inline void check_equal(const Array& given, const Array& expected, double tolerance = 1e-12) {
  check_close(given, expected.shape(), values(expected), tolerance);
}

/// Dtype and elements.
inline void check_is(const Array& array, DType dtype, const std::vector<double>& elements) {
  CHECK(array.dtype() == dtype);
  CHECK(values(array) == elements);
}

/// Type and bits.
inline void check_same_bits(const Array& a, const Array& b) {
  CHECK(to_string(a.type()) == to_string(b.type()));
  CHECK(a.to_bytes() == b.to_bytes());
}

}  // namespace lockstep::tests
