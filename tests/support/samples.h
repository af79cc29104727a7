#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "engine/ir/primitive.h"

// Arrays for the samples that every op brings, drawn from a seed, the same on every platform. No backend is needed.
namespace lockstep::tests {

/// The replicas' arrays as one: a leading dimension for each mesh axis the type varies along, in mesh order.
inline ArrayType whole_type(const ArrayType& local, const ir::AxisSizes& axes) {
  Shape shape;
  for (const auto& axis : axes.axes()) {
    if (local.varying.contains(axis.name)) shape.append(axis.size);
  }
  for (const std::int64_t extent : local.shape) shape.append(extent);
  return {local.dtype, shape, {}};
}

/// Uniform on [0, 1).
inline double draw_unit(std::mt19937_64& bits) { return static_cast<double>(bits() >> 11) * 0x1p-53; }

/// `count` numbers of the sample's interval; distinct ones evenly spaced, off its middle, shuffled.
inline std::vector<double> draw_numbers(const ir::SampleInput& input, std::int64_t count, std::mt19937_64& bits) {
  const double width = input.high - input.low;
  std::vector<double> numbers(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const double place = input.distinct ? (static_cast<double>(i) + 0.3) / static_cast<double>(count) : draw_unit(bits);
    numbers[i] = input.low + width * place;
  }
  if (input.distinct) {
    for (std::size_t i = numbers.size(); i > 1; --i) std::swap(numbers[i - 1], numbers[bits() % i]);
  }
  return numbers;
}

/// Adds (i + 1) * diagonal to element (i, i) of each matrix.
inline void add_diagonal(ir::ReferenceArray& array, double diagonal) {
  const std::int64_t columns = array.type.shape.dim(-1);
  const std::int64_t rows = array.type.shape.dim(-2);
  for (std::int64_t k = 0; k < array.type.size(); ++k) {
    const std::int64_t row = k / columns % rows;
    if (k % columns != row) continue;
    const double added = diagonal * static_cast<double>(row + 1);
    if (is_complex(array.type.dtype)) {
      array.complexes()[static_cast<std::size_t>(k)] += added;
    } else {
      array.floats()[static_cast<std::size_t>(k)] += added;
    }
  }
}

/// An operand of a sample, all replicas at once, rounded to its dtype.
inline ir::ReferenceArray draw(const ir::SampleInput& input, const ir::AxisSizes& axes, std::uint64_t seed) {
  std::mt19937_64 bits(seed);
  ir::ReferenceArray array = ir::reference_zeros(whole_type(input.type, axes));
  const std::vector<double> numbers = draw_numbers(input, array.type.size(), bits);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (is_float(array.type.dtype)) {
      array.floats()[i] = numbers[i];
    } else if (is_complex(array.type.dtype)) {
      array.complexes()[i] = {numbers[i], input.low + (input.high - input.low) * draw_unit(bits)};
    } else if (array.type.dtype == DType::key) {
      array.integers()[i] = static_cast<std::int64_t>(bits());
    } else {
      array.integers()[i] = static_cast<std::int64_t>(std::floor(numbers[i]));
    }
  }
  if (input.diagonal != 0) add_diagonal(array, input.diagonal);
  return ir::reference_from_bytes(array.type, ir::reference_to_bytes(array));
}

/// All operands of a sample.
inline std::vector<ir::ReferenceArray> draw(const ir::Sample& sample, std::uint64_t seed) {
  std::vector<ir::ReferenceArray> arrays;
  for (const ir::SampleInput& input : sample.inputs) arrays.push_back(draw(input, sample.axes, seed++ * 7919));
  return arrays;
}

/// What two values of a dtype may differ by, relative to the larger of 1 and their magnitude. Zero for what is exact.
inline double tolerance(DType dtype) {
  switch (dtype) {
    case DType::float16:
      return 4e-3;
    case DType::bfloat16:
      return 3e-2;
    case DType::float32:
    case DType::complex64:
      return 1e-5;
    case DType::float64:
    case DType::complex128:
      return 1e-12;
    default:
      return 0;
  }
}

/// Whether two numbers are equal within a relative bound; NaN equals NaN, an infinity itself.
inline bool close(double a, double b, double bound) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::abs(a - b) <= bound * std::max({1.0, std::abs(a), std::abs(b)});
}

/// The first element at which two arrays of one type differ by more than `bound` (tolerance of the dtype), or -1.
inline std::int64_t first_difference(const ir::ReferenceArray& a, const ir::ReferenceArray& b, double bound) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(a.type.size()); ++i) {
    bool equal = false;
    if (is_float(a.type.dtype)) {
      equal = close(a.floats()[i], b.floats()[i], bound);
    } else if (is_complex(a.type.dtype)) {
      equal = close(a.complexes()[i].real(), b.complexes()[i].real(), bound) &&
              close(a.complexes()[i].imag(), b.complexes()[i].imag(), bound);
    } else {
      equal = a.integers()[i] == b.integers()[i];
    }
    if (!equal) return static_cast<std::int64_t>(i);
  }
  return -1;
}
inline std::int64_t first_difference(const ir::ReferenceArray& a, const ir::ReferenceArray& b) {
  return first_difference(a, b, tolerance(a.type.dtype));
}

}  // namespace lockstep::tests
