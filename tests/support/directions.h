#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include "engine/ir/primitive.h"
#include "tests/support/samples.h"

// Tangents and cotangents in double, real and complex, as the tests of derivatives draw and pair them.
namespace lockstep::tests {

inline bool is_double(DType dtype) { return dtype == DType::float64 || dtype == DType::complex128; }

/// Double wherever there is something to differentiate, and something there.
inline bool all_double(const std::vector<ArrayType>& types) {
  bool any = false;
  for (const ArrayType& type : types) {
    if (is_inexact(type.dtype) && !is_double(type.dtype)) return false;
    any = any || is_double(type.dtype);
  }
  return any;
}

/// An inexact array's elements as real numbers: a complex one's real and imaginary parts by turns.
inline std::vector<double> parts(const ir::ReferenceArray& array) {
  if (is_float(array.type.dtype)) return array.floats();
  std::vector<double> result;
  for (const std::complex<double>& x : array.complexes()) {
    result.push_back(x.real());
    result.push_back(x.imag());
  }
  return result;
}

inline ir::ReferenceArray from_parts(const ArrayType& type, const std::vector<double>& numbers) {
  ir::ReferenceArray array = ir::reference_zeros(type);
  if (is_float(type.dtype)) {
    array.floats() = numbers;
    return array;
  }
  for (std::size_t i = 0; i < array.complexes().size(); ++i) {
    array.complexes()[i] = {numbers[2 * i], numbers[2 * i + 1]};
  }
  return array;
}

inline ir::ReferenceArray direction(const ArrayType& type, std::uint64_t seed) {
  std::mt19937_64 bits(seed);
  std::vector<double> numbers = parts(ir::reference_zeros(type));
  for (double& x : numbers) x = 2 * draw_unit(bits) - 1;
  return from_parts(type, numbers);
}

/// x + step * dx.
inline ir::ReferenceArray moved(const ir::ReferenceArray& x, const ir::ReferenceArray& dx, double step) {
  std::vector<double> numbers = parts(x);
  const std::vector<double> slopes = parts(dx);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] += step * slopes[i];
  return from_parts(x.type, numbers);
}

/// How a cotangent pairs with a tangent: the real part of the sum of products, without conjugation.
inline double inner_product(const std::vector<ir::ReferenceArray>& a, const std::vector<ir::ReferenceArray>& b) {
  double sum = 0;
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    REQUIRE(a[i].type == b[i].type);
    const std::vector<double> left = parts(a[i]), right = parts(b[i]);
    const bool complex = is_complex(a[i].type.dtype);
    for (std::size_t k = 0; k < left.size(); ++k) sum += (complex && k % 2 == 1 ? -1 : 1) * left[k] * right[k];
  }
  return sum;
}

}  // namespace lockstep::tests
