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

/// Sums of 16-bit floats are kept as float until all is added.
template <class T>
constexpr bool is_widened = !std::is_same_v<T, Wide<T>>;

inline std::size_t sum_scratch(const ArrayType& type) {
  return is_float(type.dtype) && size_of(type.dtype) < sizeof(float)
             ? static_cast<std::size_t>(type.size()) * sizeof(float)
             : 0;
}

/// Zeros to add to: the result's own memory, or wider scratch.
template <class T>
Wide<T>* zeroed_sums(const KernelArguments& arguments) {
  void* sums = is_widened<T> ? arguments.scratch : arguments.outputs[0].data;
  const std::int64_t size = arguments.outputs[0].shape.size();
  std::fill_n(static_cast<Wide<T>*>(sums), size, Wide<T>(0));
  return static_cast<Wide<T>*>(sums);
}

template <class T>
void finish_sums(const KernelArguments& arguments, const Wide<T>* sums) {
  if constexpr (is_widened<T>) {
    std::copy_n(sums, arguments.outputs[0].shape.size(), static_cast<T*>(arguments.outputs[0].data));
  }
}

}  // namespace lockstep::backends::aten
