#pragma once

#include <complex>
#include <cstdint>
#include <type_traits>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <lockstep/types.h>

namespace lockstep::backends::aten {

using Half = c10::Half;
using BFloat16 = c10::BFloat16;

/// What the elements of T are computed in.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;

/// Calls f.template operator()<T>() for the C++ type of a float dtype.
template <class F>
auto with_float(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float16:
      return f.template operator()<Half>();
    case DType::bfloat16:
      return f.template operator()<BFloat16>();
    case DType::float64:
      return f.template operator()<double>();
    default:
      return f.template operator()<float>();
  }
}

/// The same for complex dtypes.
template <class F>
auto with_complex(DType dtype, F&& f) {
  return dtype == DType::complex64 ? f.template operator()<std::complex<float>>()
                                   : f.template operator()<std::complex<double>>();
}

/// The same for integer dtypes; bool is an integer of 8 bits here.
template <class F>
auto with_integer(DType dtype, F&& f) {
  switch (dtype) {
    case DType::int8:
      return f.template operator()<std::int8_t>();
    case DType::int16:
      return f.template operator()<std::int16_t>();
    case DType::int32:
      return f.template operator()<std::int32_t>();
    case DType::int64:
      return f.template operator()<std::int64_t>();
    case DType::uint16:
      return f.template operator()<std::uint16_t>();
    case DType::uint32:
      return f.template operator()<std::uint32_t>();
    case DType::uint64:
      return f.template operator()<std::uint64_t>();
    default:
      return f.template operator()<std::uint8_t>();
  }
}

/// The same for the unsigned integer as wide as `dtype`: for moves and for arithmetic modulo 2^n.
template <class F>
auto with_bits(DType dtype, F&& f) {
  switch (size_of(dtype)) {
    case 1:
      return f.template operator()<std::uint8_t>();
    case 2:
      return f.template operator()<std::uint16_t>();
    case 4:
      return f.template operator()<std::uint32_t>();
    default:
      return f.template operator()<std::uint64_t>();
  }
}

/// An element type for moves of any dtype, by its size.
struct Bits128 {
  std::uint64_t words[2];
};
template <class F>
auto with_moved(DType dtype, F&& f) {
  if (size_of(dtype) == sizeof(Bits128)) return f.template operator()<Bits128>();
  return with_bits(dtype, static_cast<F&&>(f));
}

/// float, integer (and bool) alike.
template <class F>
auto with_real(DType dtype, F&& f) {
  return is_float(dtype) ? with_float(dtype, f) : with_integer(dtype, f);
}

}  // namespace lockstep::backends::aten
