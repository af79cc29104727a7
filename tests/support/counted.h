#pragma once

#include <lockstep/ops.h>

namespace lockstep::tests {

/// Float64 numbers between -1 and 1 without a pattern: sin(7 i) of element i.
inline Array counted(const Shape& shape) {
  return sin(convert(reshape(arange(shape.size()), shape.to_vector()), float64) * 7);
}

}  // namespace lockstep::tests
