#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <lockstep/backend/backend.h>

#include "backends/cpu/cut_kernel.h"
#include "backends/cpu/element_types.h"

namespace lockstep::backend::cpu {

/// An element type for sums of T.
template <class F>
auto with_summed(DType dtype, F&& f) {
  if (is_complex(dtype)) return with_complex(dtype, f);
  return is_float(dtype) ? with_float(dtype, f) : with_bits(dtype, f);
}

inline bool can_add(DType dtype) { return is_inexact(dtype) || is_integer(dtype); }

/// Sums of 16-bit floats are kept as float until all is added.
template <class T>
constexpr bool is_widened = !std::is_same_v<T, Wide<T>>;

inline std::size_t sum_scratch(const ArrayType& type) {
  return is_narrow_float(type.dtype) ? static_cast<std::size_t>(type.size()) * sizeof(float) : 0;
}

/// Elements of one type as those of another.
template <class From, class To>
void copy_as(const From* from, std::int64_t count, To* to) {
  if constexpr (std::is_same_v<From, To>) {
    std::copy_n(from, count, to);
  } else {
    std::transform(from, from + count, to, [](From x) { return static_cast<To>(x); });
  }
}

/// Where sums are kept: the result's own memory, or wider scratch.
template <class T>
Wide<T>* memory_of_sums(const KernelArguments& arguments) {
  return static_cast<Wide<T>*>(is_widened<T> ? arguments.scratch : arguments.outputs[0].data);
}

/// Zeros to add to.
template <class T>
Wide<T>* zeroed_sums(const KernelArguments& arguments) {
  Wide<T>* sums = memory_of_sums<T>(arguments);
  std::fill_n(sums, arguments.outputs[0].shape.size(), Wide<T>(0));
  return sums;
}

template <class T>
void finish_sums(const KernelArguments& arguments, const Wide<T>* sums) {
  if constexpr (is_widened<T>) {
    copy_as(sums, arguments.outputs[0].shape.size(), static_cast<T*>(arguments.outputs[0].data));
  }
}

/// Columns of a result made of rows of `width` elements, to which is added in the result's own memory, or in scratch that
/// has wider ones of these columns alone.
template <class T, class W>
class Columns {
 public:
  Columns(const KernelArguments& arguments, std::int64_t width, Range columns)
      : out_(static_cast<T*>(arguments.outputs[0].data) + columns.first),
        width_(width),
        count_(columns.size()),
        rows_(width == 0 ? 0 : arguments.outputs[0].shape.size() / width) {
    if constexpr (is_kept_apart) {
      sums_ = static_cast<W*>(arguments.scratch);
      pitch_ = count_;
    } else {
      sums_ = out_;
      pitch_ = width_;
    }
  }

  std::int64_t count() const { return count_; }
  /// Of these columns the first one's element in the row that begins at this offset in the result.
  W* at(std::int64_t offset) const {
    if constexpr (is_kept_apart) return sums_ + offset / width_ * pitch_;
    return sums_ + offset;
  }
  void set_to_zero() const {
    for (std::int64_t row = 0; row < rows_; ++row) std::fill_n(sums_ + row * pitch_, count_, W(0));
  }
  /// `first` is the element of these columns in an array of the result's shape, perhaps the result itself.
  void set_to(const T* first) const {
    if (is_kept_apart || first != out_) copy(first, width_, sums_, pitch_);
  }
  void finish() const {
    if constexpr (is_kept_apart) copy(sums_, pitch_, out_, width_);
  }

 private:
  static constexpr bool is_kept_apart = !std::is_same_v<T, W>;

  template <class From, class To>
  void copy(const From* from, std::int64_t from_pitch, To* to, std::int64_t to_pitch) const {
    if (count_ == width_) return copy_as(from, rows_ * count_, to);
    for (std::int64_t row = 0; row < rows_; ++row) copy_as(from + row * from_pitch, count_, to + row * to_pitch);
  }

  T* out_;
  W* sums_;
  std::int64_t width_, pitch_, count_, rows_;
};

}  // namespace lockstep::backend::cpu
