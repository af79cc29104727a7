#include "engine/core/checked_sizes.h"

#include <algorithm>
#include <string>

#include <lockstep/error.h>

namespace lockstep {

namespace {

[[noreturn]] void too_large(std::string_view op, std::int64_t a, const char* sign, std::int64_t b) {
  throw ShapeError(std::string(op) + ": " + std::to_string(a) + sign + std::to_string(b) +
                   " does not fit 63 bits; expected extents of arrays that memory holds; give smaller ones");
}

}  // namespace

std::int64_t checked_sum(std::int64_t a, std::int64_t b, std::string_view op) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) too_large(op, a, " + ", b);
  return sum;
}

std::int64_t checked_product(std::int64_t a, std::int64_t b, std::string_view op) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) too_large(op, a, " * ", b);
  return product;
}

void check_size(std::string_view op, const ArrayType& type) {
  std::int64_t left = most_bytes / static_cast<std::int64_t>(size_of(type.dtype));
  for (const std::int64_t extent : type.shape) {
    left /= std::max<std::int64_t>(extent, 1);
    if (left > 0) continue;
    throw ShapeError(std::string(op) + ": " + to_string(type) +
                     " has more than 2^56 bytes (extents of 0 counted as 1); "
                     "expected an array that memory holds; give smaller extents");
  }
}

}  // namespace lockstep
