#pragma once

#include <array>
#include <cstdint>

#include <lockstep/export.h>
#include <lockstep/types.h>

namespace lockstep {

/// An operand of a kernel: memory somebody else owns. Strides count elements; broadcast dimensions have stride 0.
struct ArrayView {
  void* data = nullptr;
  DType dtype = DType::float32;
  Shape shape;
  std::array<std::int64_t, Shape::max_rank> strides{};

  bool is_contiguous() const;
};

/// A row-major view.
LOCKSTEP_API ArrayView contiguous_view(void* data, DType dtype, const Shape& shape);

}  // namespace lockstep
