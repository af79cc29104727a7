#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <lockstep/export.h>
#include <lockstep/types.h>

namespace lockstep {

class ArrayState;  // a buffer, or a value of an open trace

/// A handle: copies are cheap and share one immutable value, which is either a buffer ("concrete") or a value of an open
/// trace ("traced"). Moving an Array into a function that donates gives its buffer away.
class LOCKSTEP_API Array {
 public:
  Array();  ///< Holds nothing; every use but assignment throws ValueError.
  explicit Array(std::shared_ptr<const ArrayState> state);
  Array(const Array&);
  Array(Array&&) noexcept;
  Array& operator=(const Array&);
  Array& operator=(Array&&) noexcept;
  ~Array();

  bool has_value() const { return state_ != nullptr; }
  bool is_traced() const;
  const ArrayType& type() const;
  DType dtype() const { return type().dtype; }
  const Shape& shape() const { return type().shape; }
  int ndim() const { return shape().rank(); }
  std::int64_t size() const { return shape().size(); }
  std::int64_t dim(int i) const { return shape().dim(i); }

  /// Row-major copy of the elements. T must be the element type (a key gives uint32 pairs; float16 and bfloat16 are read
  /// as float). Throws DtypeError for another T, TraceError for a traced value.
  template <class T>
  std::vector<T> to_vector() const;
  /// The one element of an array of size 1, converted to T. Throws ShapeError for another size, TraceError if traced.
  template <class T>
  T item() const;
  /// Row-major bytes, little-endian, of a concrete array.
  std::vector<std::byte> to_bytes() const;

  /// A C++ branch on data does not stage: throws TraceError on a traced value, else the one element's truth.
  explicit operator bool() const;

  const std::shared_ptr<const ArrayState>& state() const { return state_; }

 private:
  std::shared_ptr<const ArrayState> state_;
};

/// A rank-0 array of the scalar's own dtype (float for double literals stays float64: write 1.0f or pass a dtype).
template <class T>
Array array(T value);
/// A row-major array of given shape and dtype from raw bytes. Throws ShapeError if the byte count differs.
LOCKSTEP_API Array from_bytes(const ArrayType& type, std::span<const std::byte> bytes);

/// A row-major array from a contiguous range. Throws ShapeError if the count differs from the shape's size.
template <class T>
Array array(std::span<const T> values, const Shape& shape) {
  return from_bytes({dtype_of<T>(), shape, {}}, std::as_bytes(values));
}
template <class T>
Array array(const std::vector<T>& values, const Shape& shape) {
  if constexpr (std::is_same_v<T, bool>) {  // packed, so its elements have no addresses
    const auto bytes = std::make_unique<bool[]>(values.size());
    std::copy(values.begin(), values.end(), bytes.get());
    return array(std::span<const bool>(bytes.get(), values.size()), shape);
  } else {
    return array(std::span<const T>(values), shape);
  }
}
template <class T>
Array array(const std::vector<T>& values) {
  return array(values, Shape{static_cast<std::int64_t>(values.size())});
}
template <class T>
Array array(std::initializer_list<T> values) {
  return array(std::span<const T>(values.begin(), values.size()), Shape{static_cast<std::int64_t>(values.size())});
}
template <class T>
Array array(T value) {
  return array(std::span<const T>(&value, 1), Shape{});
}

/// Values, nested brackets, dtype; a traced value prints its type.
LOCKSTEP_API std::string to_string(const Array& array);

/// An argument of a numpy-like function: an Array, or a C++ scalar whose dtype is weak.
class LOCKSTEP_API Operand {
 public:
  Operand(const Array& array) : array_(array) {}  // NOLINT: implicit by design
  template <class T>
  requires std::is_arithmetic_v<T> Operand(T value)  // NOLINT: implicit by design
      : is_scalar_(true),
        kind_(std::is_same_v<T, bool> ? ScalarKind::boolean
              : std::is_integral_v<T> ? ScalarKind::integer
                                      : ScalarKind::real),
        real_(static_cast<double>(value)),
        integer_(static_cast<std::int64_t>(value)) {}

  bool is_scalar() const { return is_scalar_; }
  const Array& array() const { return array_; }
  ScalarKind kind() const { return kind_; }
  double real() const { return real_; }
  std::int64_t integer() const { return integer_; }

 private:
  Array array_;
  bool is_scalar_ = false;
  ScalarKind kind_ = ScalarKind::real;
  double real_ = 0;
  std::int64_t integer_ = 0;
};

}  // namespace lockstep
