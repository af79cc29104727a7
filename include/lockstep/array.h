#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <iosfwd>
#include <iterator>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/call_site.h>
#include <lockstep/export.h>
#include <lockstep/types.h>

namespace lockstep {

class ArrayState;  // a buffer, or a value of an open trace
class Array;

namespace detail {
/// Where `array` was moved from, notes that it became a part of that argument of a compiled function.
LOCKSTEP_API void note_given_away(Array& array, std::size_t argument) noexcept;
/// What a moved array points to, owned by nobody: the note that its value was moved away.
LOCKSTEP_API extern const ArrayState* const moved_away;
}  // namespace detail

/// A handle: copies are cheap and share one immutable value, which is either a buffer ("concrete") or a value of an open
/// trace ("traced"). Moving an Array into a compiled function gives its buffer away; uses of what is left say so.
class LOCKSTEP_API Array {
 public:
  Array() = default;  ///< Holds nothing; every use but assignment throws ValueError.
  explicit Array(std::shared_ptr<const ArrayState> state) : state_(std::move(state)) {}
  Array(const Array&) = default;
  Array(Array&& other) noexcept : state_(std::move(other.state_)) {
    if (state_ != nullptr) other.state_ = {std::shared_ptr<const ArrayState>(), detail::moved_away};
  }
  Array& operator=(const Array&) = default;
  Array& operator=(Array&& other) noexcept {
    Array taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~Array() = default;
  void swap(Array& other) noexcept { state_.swap(other.state_); }

  bool has_value() const { return state_.use_count() != 0; }  // what is moved from points to a note nobody owns
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
  /// The elements in row-major order, T as in `to_vector`. Throws ShapeError unless there are as many as the span has.
  template <class T>
  void copy_to(std::span<T> values) const;
  /// The one element of an array of size 1, converted to T. Throws ShapeError for another size, TraceError if traced.
  template <class T>
  T item() const;
  /// Row-major bytes, little-endian, of a concrete array.
  std::vector<std::byte> to_bytes() const;

  /// Slice `i` of the first axis, without that axis; a negative i counts from the end. Throws ValueError outside.
  Array operator[](std::int64_t i) const;
  /// The elements converted to another dtype, as `convert` does.
  Array astype(DType dtype) const;

  /// Goes over the slices of the first axis: `for (const Array row : x)`.
  class Iterator;
  Iterator begin() const;
  Iterator end() const;

  /// A C++ branch on data does not stage: throws TraceError on a traced value, else the one element's truth.
  explicit operator bool() const;

  const std::shared_ptr<const ArrayState>& state() const { return state_; }

 private:
  friend void detail::note_given_away(Array& array, std::size_t argument) noexcept;

  std::shared_ptr<const ArrayState> state_;
};

class Array::Iterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = Array;
  using difference_type = std::int64_t;
  using pointer = void;
  using reference = Array;

  Iterator(Array array, std::int64_t i) : array_(std::move(array)), i_(i) {}
  Array operator*() const { return array_[i_]; }
  Iterator& operator++() {
    ++i_;
    return *this;
  }
  Iterator operator++(int) {
    Iterator before = *this;
    ++i_;
    return before;
  }
  /// Of iterators over one array.
  bool operator==(const Iterator& other) const { return i_ == other.i_; }

 private:
  Array array_;
  std::int64_t i_;
};

/// A rank-0 array of the scalar's own dtype (float for double literals stays float64: write 1.0f or pass a dtype).
template <class T>
Array array(T value);
/// A row-major array of given shape and dtype from raw bytes. Throws ShapeError if the byte count differs.
LOCKSTEP_API Array from_bytes(const ArrayType& type, std::span<const std::byte> bytes);

namespace detail {
/// A row-major array of elements that lie there. Throws ShapeError if the byte count differs.
LOCKSTEP_API Array from_elements(DType dtype, const Shape& shape, const void* elements, std::size_t bytes);
}  // namespace detail

/// A row-major array from a contiguous range. Throws ShapeError if the count differs from the shape's size.
template <class T>
Array array(std::span<const T> values, const Shape& shape) {
  return detail::from_elements(dtype_of<T>(), shape, values.data(), values.size_bytes());
}
template <class T>
Array array(const std::vector<T>& values, const Shape& shape) {
  if constexpr (std::is_same_v<T, bool>) {  // packed, so its elements have no addresses
    const auto bytes = std::make_unique<bool[]>(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) bytes[i] = values[i];
    return detail::from_elements(DType::bool_, shape, bytes.get(), values.size());
  } else {
    return detail::from_elements(dtype_of<T>(), shape, values.data(), values.size() * sizeof(T));
  }
}
template <class T>
Array array(const std::vector<T>& values) {
  return array(values, Shape{static_cast<std::int64_t>(values.size())});
}
template <class T>
Array array(std::initializer_list<T> values) {
  return detail::from_elements(dtype_of<T>(), Shape{static_cast<std::int64_t>(values.size())}, values.begin(),
                               values.size() * sizeof(T));
}
template <class T>
Array array(std::span<const T> values) {
  return array(values, Shape{static_cast<std::int64_t>(values.size())});
}
template <class T, std::size_t N>
Array array(const std::array<T, N>& values) {
  return detail::from_elements(dtype_of<T>(), Shape{static_cast<std::int64_t>(N)}, values.data(), N * sizeof(T));
}
template <class T>
Array array(std::initializer_list<T> values, const Shape& shape) {
  return detail::from_elements(dtype_of<T>(), shape, values.begin(), values.size() * sizeof(T));
}
template <class T>
Array array(T value) {
  return detail::from_elements(dtype_of<T>(), Shape{}, &value, sizeof(T));
}

namespace detail {
/// How many rows there are, and how long each is.
struct LOCKSTEP_API RowCount {
  std::int64_t rows = 0;
  std::int64_t length = 0;
  /// One more. Throws ShapeError naming it where its length is not that of the first.
  void add(std::size_t row_length);
};
/// Rows of one length, one after the other: [rows..., the rest of the rows' shape].
template <class T, class Rows>
Array stacked_rows(const Rows& rows) {
  std::vector<T> values;
  RowCount count;
  for (const auto& row : rows) {
    count.add(row.size());
    values.insert(values.end(), row.begin(), row.end());
  }
  return array(values, Shape{count.rows, count.length});
}
}  // namespace detail

/// A matrix, `array({{1, 2}, {3, 4}})`, from braces or nested vectors. Throws ShapeError for rows of unequal length.
template <class T>
Array array(std::initializer_list<std::initializer_list<T>> rows) {
  return detail::stacked_rows<T>(rows);
}
template <class T>
Array array(const std::vector<std::vector<T>>& rows) {
  return detail::stacked_rows<T>(rows);
}
/// Rank 3, `array({{{1}, {2}}, {{3}, {4}}})`. Throws ShapeError likewise.
template <class T>
Array array(std::initializer_list<std::initializer_list<std::initializer_list<T>>> planes) {
  std::vector<T> values;
  detail::RowCount in_all, in_planes;
  for (const auto& plane : planes) in_planes.add(plane.size());
  for (const auto& plane : planes) {
    for (const auto& row : plane) {
      in_all.add(row.size());
      values.insert(values.end(), row.begin(), row.end());
    }
  }
  return array(values, Shape{in_planes.rows, in_planes.length, in_all.length});
}

/// How arrays are printed; the defaults are numpy's.
struct PrintOptions {
  int precision = 8;              ///< Most digits behind the point.
  std::int64_t threshold = 1000;  ///< Arrays of more elements are summarised,
  std::int64_t edge_items = 3;    ///< with so many at either end of a dimension.
  std::int64_t line_width = 75;
  bool suppress_small = false;  ///< Whether small numbers are written without an exponent.
  std::string separator = " ";
  int indent = 0;  ///< Of the lines after the first.
};
/// The elements in nested brackets, laid out as numpy does; a traced value prints its type.
LOCKSTEP_API std::string to_string(const Array& array, const PrintOptions& options = {});
/// The same with its dtype: "Array([1., 2.], dtype=float32)".
LOCKSTEP_API std::string repr(const Array& array, PrintOptions options = {});
/// Writes `to_string(array)`.
LOCKSTEP_API std::ostream& operator<<(std::ostream& stream, const Array& array);

/// An argument of a numpy-like function: an Array, or a C++ scalar whose dtype is weak. It knows where it was converted:
/// errors of the call say file and line.
class LOCKSTEP_API Operand {
 public:
  Operand(const Array& array, const detail::SourceLocation& at = detail::SourceLocation::current())  // NOLINT: implicit
      : array_(array), site_(at) {}
  template <class T>
  requires std::is_arithmetic_v<T> Operand(
      T value, const detail::SourceLocation& at = detail::SourceLocation::current())  // NOLINT: implicit by design
      : is_scalar_(true),
        kind_(std::is_same_v<T, bool> ? ScalarKind::boolean
              : std::is_integral_v<T> ? ScalarKind::integer
                                      : ScalarKind::real),
        is_above_int64_(is_above_int64(value)),
        real_(static_cast<double>(value)),
        integer_(static_cast<std::int64_t>(value)),
        site_(at) {}

  bool is_scalar() const { return is_scalar_; }
  const Array& array() const { return array_; }
  ScalarKind kind() const { return kind_; }
  double real() const { return real_; }
  std::int64_t integer() const { return integer_; }
  /// Whether the integer is 2^63 or more; `integer` has its bits then.
  bool is_above_int64() const { return is_above_int64_; }

 private:
  template <class T>
  static constexpr bool is_above_int64(T value) {
    if constexpr (std::is_unsigned_v<T> && sizeof(T) == sizeof(std::int64_t)) {
      return value > static_cast<T>(std::numeric_limits<std::int64_t>::max());
    } else {
      return false;
    }
  }

  Array array_;
  bool is_scalar_ = false;
  ScalarKind kind_ = ScalarKind::real;
  bool is_above_int64_ = false;
  double real_ = 0;
  std::int64_t integer_ = 0;
  detail::CallSite site_;
};

/// An Array as the argument of a function that takes no scalars there; as Operand, it knows where it was converted.
class LOCKSTEP_API ArrayOperand : public Array {
 public:
  ArrayOperand(const Array& array, const detail::SourceLocation& at = detail::SourceLocation::current())  // NOLINT
      : Array(array), site_(at) {}

 private:
  detail::CallSite site_;
};

/// Several Arrays as one argument: a braced list, a vector, a span, which must live as long as the call. As Operand, it knows
/// where it was converted.
class LOCKSTEP_API ArrayOperands : public std::span<const Array> {
 public:
  ArrayOperands(std::initializer_list<Array> arrays,
                const detail::SourceLocation& at = detail::SourceLocation::current());  // NOLINT: implicit by design
  ArrayOperands(const std::vector<Array>& arrays,
                const detail::SourceLocation& at = detail::SourceLocation::current());  // NOLINT: implicit by design
  template <class Range>
  requires std::is_convertible_v<const Range&, std::span<const Array>> ArrayOperands(
      const Range& arrays, const detail::SourceLocation& at = detail::SourceLocation::current())  // NOLINT: implicit
      : std::span<const Array>(arrays), site_(at) {}

 private:
  detail::CallSite site_;
};

}  // namespace lockstep
