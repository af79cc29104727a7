#include <fmt/format.h>

#include <lockstep/array.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>

namespace lockstep {

Array Array::operator[](std::int64_t i) const {
  if (ndim() == 0) {
    throw ShapeError(fmt::format("operator[]: {} has no axis to take element {} of; read its one element by item",
                                 to_string(type()), i));
  }
  const std::int64_t extent = dim(0);
  const std::int64_t at = i < 0 ? i + extent : i;
  if (at < 0 || at >= extent) {
    throw ValueError(fmt::format("operator[]: index {} is out of range for the first axis of {}; it takes {} to {}", i,
                                 to_string(type()), -extent, extent - 1));
  }
  return squeeze(slice_in_dim(*this, at, at + 1, 0), {0});
}

Array Array::astype(DType dtype) const { return convert(*this, dtype); }

Array::Iterator Array::begin() const {
  if (ndim() == 0) {
    throw ShapeError(
        fmt::format("iteration: {} has no axis to go over; read its one element by item", to_string(type())));
  }
  return {*this, 0};
}

Array::Iterator Array::end() const { return {*this, dim(0)}; }

}  // namespace lockstep
