#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include <lockstep/backend.h>

#include "backends/aten/element_types.h"

namespace lockstep::backends::aten {

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
  return is_float(type.dtype) && size_of(type.dtype) < sizeof(float)
             ? static_cast<std::size_t>(type.size()) * sizeof(float)
             : 0;
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
    std::copy_n(sums, arguments.outputs[0].shape.size(), static_cast<T*>(arguments.outputs[0].data));
  }
}

}  // namespace lockstep::backends::aten
