#include <algorithm>

#include <lockstep/error.h>
#include <lockstep/types.h>

#include "engine/core/join.h"

namespace lockstep {

namespace {

std::string list_of(std::span<const std::int64_t> dims) { return "[" + join(dims, ",") + "]"; }

void check_position(const Shape& shape, int i, int limit, const char* what) {
  if (i >= 0 && i < limit) return;
  throw ShapeError("Shape::" + std::string(what) + ": position " + std::to_string(i) + " of " + to_string(shape) +
                   ", expected 0 to " + std::to_string(limit - 1));
}

void check_rank(std::span<const std::int64_t> dims) {
  if (dims.size() <= static_cast<std::size_t>(Shape::max_rank)) return;
  throw ShapeError("shape " + list_of(dims) + " has rank " + std::to_string(dims.size()) + ", expected at most " +
                   std::to_string(Shape::max_rank) + "; merge dimensions with reshape");
}

void check_extent(std::int64_t extent) {
  if (extent >= 0) return;
  throw ShapeError("shape: got an extent of " + std::to_string(extent) + ", expected every extent >= 0");
}

}  // namespace

Shape::Shape(std::initializer_list<std::int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
Shape::Shape(const std::vector<std::int64_t>& dims) : Shape(std::span(dims)) {}

Shape::Shape(std::span<const std::int64_t> dims) {
  check_rank(dims);
  for (const std::int64_t extent : dims) {
    if (extent < 0) throw ShapeError("shape " + list_of(dims) + ": expected every extent >= 0");
  }
  std::copy(dims.begin(), dims.end(), dims_.begin());
  rank_ = static_cast<int>(dims.size());
}

std::int64_t Shape::dim(int i) const {
  if (i < -rank_ || i >= rank_) {
    throw ShapeError("Shape::dim: dimension " + std::to_string(i) + " of " + to_string(*this) + ", expected " +
                     std::to_string(-rank_) + " to " + std::to_string(rank_ - 1));
  }
  return (*this)[i < 0 ? i + rank_ : i];
}

std::int64_t Shape::size() const {
  if (std::find(begin(), end(), 0) != end()) return 0;
  std::int64_t product = 1;
  for (const std::int64_t extent : *this) {
    if (__builtin_mul_overflow(product, extent, &product)) {
      throw ShapeError("shape " + to_string(*this) + " has more elements than fit 63 bits");
    }
  }
  return product;
}

std::span<const std::int64_t> Shape::dims() const { return {dims_.data(), static_cast<std::size_t>(rank_)}; }
std::vector<std::int64_t> Shape::to_vector() const { return {begin(), end()}; }

void Shape::append(std::int64_t extent) { *this = insert(rank_, extent); }

Shape Shape::with(int i, std::int64_t extent) const {
  check_position(*this, i, rank_, "with");
  check_extent(extent);
  Shape result = *this;
  result.dims_[static_cast<std::size_t>(i)] = extent;
  return result;
}

Shape Shape::insert(int i, std::int64_t extent) const {
  check_position(*this, i, rank_ + 1, "insert");
  std::vector<std::int64_t> dims = to_vector();
  dims.insert(dims.begin() + i, extent);
  return Shape(dims);
}

Shape Shape::erase(int i) const {
  check_position(*this, i, rank_, "erase");
  std::vector<std::int64_t> dims = to_vector();
  dims.erase(dims.begin() + i);
  return Shape(dims);
}

bool Shape::operator==(const Shape& other) const { return std::equal(begin(), end(), other.begin(), other.end()); }

std::string to_string(const Shape& shape) { return list_of(shape.dims()); }

int normalize_axis(std::int64_t axis, int rank, std::string_view op) {
  if (axis >= -rank && axis < rank) return static_cast<int>(axis < 0 ? axis + rank : axis);
  const std::string expected =
      rank == 0 ? "but a scalar has no axes" : "expected " + std::to_string(-rank) + " to " + std::to_string(rank - 1);
  throw ShapeError(std::string(op) + ": axis " + std::to_string(axis) + " of an array of rank " + std::to_string(rank) +
                   ", " + expected);
}

Shape broadcast_shapes(const Shape& a, const Shape& b, std::string_view op) {
  const int rank = std::max(a.rank(), b.rank());
  std::vector<std::int64_t> dims(static_cast<std::size_t>(rank));
  for (int i = 0; i < rank; ++i) {
    const int in_a = i - (rank - a.rank());
    const int in_b = i - (rank - b.rank());
    const std::int64_t extent_a = in_a < 0 ? 1 : a[in_a];
    const std::int64_t extent_b = in_b < 0 ? 1 : b[in_b];
    if (extent_a != extent_b && extent_a != 1 && extent_b != 1) {
      throw ShapeError(std::string(op) + ": shapes " + to_string(a) + " and " + to_string(b) +
                       " do not broadcast; counted from the last dimension, extents must be equal or 1 (reshape or "
                       "expand_dims one of them)");
    }
    dims[static_cast<std::size_t>(i)] = extent_a == 1 ? extent_b : extent_a;
  }
  return Shape(dims);
}

std::vector<std::int64_t> row_major_strides(const Shape& shape) {
  std::vector<std::int64_t> strides(static_cast<std::size_t>(shape.rank()));
  std::int64_t stride = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[static_cast<std::size_t>(i)] = stride;
    stride *= shape[i];
  }
  return strides;
}

}  // namespace lockstep
