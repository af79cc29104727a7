#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <type_traits>

#include <lockstep/types.h>

#include "backends/cpu/narrow_floats.h"

namespace lockstep::backend::cpu {

/// What the elements of T are computed in.
template <class T>
using Wide = std::conditional_t<NarrowFloat<T>, float, T>;

/// The float next to x whose last bit is 1, or x itself where it is a float: rounded again, to fewer digits, it gives what
/// x rounded once does. Boldo and Melquiond 2008, round to odd.
inline float rounded_to_odd(double x) {
  const float nearest = static_cast<float>(x);
  const double there = static_cast<double>(nearest);
  const auto bits = std::bit_cast<std::uint32_t>(nearest);
  if (there == x || x != x || (bits & 1U) != 0) return nearest;
  return std::bit_cast<float>(std::abs(there) < std::abs(x) ? bits + 1 : bits - 1);
}

/// An integer likewise: the last of the 24 leading bits tells whether there are ones behind it.
template <class T>
requires std::is_integral_v<T>
float rounded_to_odd(T x) {
  if constexpr (sizeof(T) <= 2) return static_cast<float>(x);  // exact
  const bool negative = std::is_signed_v<T> && x < T{0};
  std::uint64_t magnitude = static_cast<std::uint64_t>(x);
  if (negative) magnitude = std::uint64_t{0} - magnitude;
  const int dropped = std::max(0, 40 - std::countl_zero(magnitude));
  const std::uint64_t kept = magnitude >> dropped;
  const std::uint64_t rest = magnitude & ((std::uint64_t{1} << dropped) - 1);
  const float result = std::ldexp(static_cast<float>(kept | (rest != 0 ? 1U : 0U)), dropped);
  return negative ? -result : result;
}

/// A number rounded once to an element of T.
template <class T, class From>
T rounded(From x) {
  if constexpr (std::is_same_v<T, Wide<T>>) {
    return static_cast<T>(x);
  } else if constexpr (std::is_same_v<From, float>) {
    return static_cast<T>(x);
  } else {
    return static_cast<T>(rounded_to_odd(x));
  }
}

/// Calls f.template operator()<T>() for the C++ type of a float dtype.
template <class F>
auto with_float(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float16:
      return f.template operator()<Float16>();
    case DType::bfloat16:
      return f.template operator()<Bfloat16>();
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

}  // namespace lockstep::backend::cpu
