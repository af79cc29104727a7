#pragma once

#include <lockstep/manipulation.h>
#include <lockstep/ops.h>

// Arrays of numbers that count up, and waves of them.
namespace lockstep::tests {

/// 0, 1, 2, ... of a shape.
inline Array arange_of(const Shape& shape, DType dtype = float32) {
  return convert(reshape(arange(shape.size()), shape.to_vector()), dtype);
}

/// Float64 numbers between -1 and 1 along a sine.
inline Array wave(const Shape& shape, double phase = 0) { return sin(arange_of(shape, float64) * 1.7 + phase); }

}  // namespace lockstep::tests
