#pragma once

#include <cstdint>

#include <lockstep/types.h>

namespace lockstep::backend::cpu {

/// Extents around one dimension of a row-major array.
struct Around {
  std::int64_t outer = 1;
  std::int64_t extent = 1;
  std::int64_t inner = 1;

  Around(const Shape& shape, int dim) : extent(shape[dim]) {
    for (int d = 0; d < dim; ++d) outer *= shape[d];
    for (int d = dim + 1; d < shape.rank(); ++d) inner *= shape[d];
  }
};

}  // namespace lockstep::backend::cpu
