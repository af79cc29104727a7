#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <lockstep/types.h>

// Numbers at and just beside the middle of two neighbours of a 16-bit float, with what rounding them once gives: what goes
// through a wider float first comes out on the wrong side. Neighbours are enumerated by their bits, so nothing here rounds.
namespace lockstep::tests {

template <class T>
struct Halfway {
  std::vector<T> given;
  std::vector<double> expected;

  void add(T x, double rounded) {
    given.push_back(x);
    expected.push_back(rounded);
  }
};

/// The value of the non-negative bits of a float16 or bfloat16; behind the largest finite one comes the next power of two.
inline double value_of_bits(DType dtype, std::uint16_t bits) {
  const int digits = dtype == float16 ? 10 : 7, lowest = dtype == float16 ? -14 : -126;
  const int exponent = bits >> digits, fraction = bits & ((1 << digits) - 1);
  return exponent == 0 ? std::ldexp(fraction, lowest - digits)
                       : std::ldexp(fraction + (1 << digits), exponent - 1 + lowest - digits);
}

/// Every middle of two neighbours, those of the largest and of the power of two behind it among them, with its own
/// neighbours in float64 and numbers that float32 takes for the middle.
inline Halfway<double> halfway_doubles(DType dtype) {
  Halfway<double> list;
  const std::uint16_t infinity = dtype == float16 ? 0x7C00 : 0x7F80;
  const auto rounded = [&](int bits) {
    return bits == infinity ? std::numeric_limits<double>::infinity()
                            : value_of_bits(dtype, static_cast<std::uint16_t>(bits));
  };
  for (int bits = 0; bits < infinity; ++bits) {
    const double low = value_of_bits(dtype, static_cast<std::uint16_t>(bits));
    const double middle = (low + value_of_bits(dtype, static_cast<std::uint16_t>(bits + 1))) / 2;
    const double below = rounded(bits), above = rounded(bits + 1), even = bits % 2 == 0 ? below : above;
    for (const double sign : {1.0, -1.0}) {
      list.add(sign * middle, sign * even);
      list.add(sign * std::nextafter(middle, 0), sign * below);
      list.add(sign * std::nextafter(middle, 2 * middle), sign * above);
      list.add(sign * middle * (1 - 0x1p-30), sign * below);
      list.add(sign * middle * (1 + 0x1p-30), sign * above);
    }
  }
  return list;
}

/// A magnitude rounded to so many digits, ties to even; exact in a double.
inline double rounded_magnitude(std::uint64_t x, int digits) {
  const int dropped = 64 - std::countl_zero(x) - digits;
  if (dropped <= 0) return static_cast<double>(x);
  const std::uint64_t half = std::uint64_t{1} << (dropped - 1), rest = x & (2 * half - 1);
  std::uint64_t kept = x >> dropped;
  if (rest > half || (rest == half && kept % 2 == 1)) ++kept;
  return std::ldexp(static_cast<double>(kept), dropped);
}

/// Integers of T at and beside middles of neighbours in a float of so many digits (float16 11, bfloat16 8, float32 24,
/// float64 53), at each of their sizes.
template <class T>
Halfway<T> halfway_integers(DType dtype) {
  const int digits = dtype == float16 ? 11 : dtype == bfloat16 ? 8 : dtype == float32 ? 24 : 53;
  Halfway<T> list;
  const auto add = [&](std::uint64_t magnitude) {
    if (magnitude > static_cast<std::uint64_t>(std::numeric_limits<T>::max())) return;
    double rounded = rounded_magnitude(magnitude, digits);
    if (dtype == float16 && rounded > 65504) rounded = std::numeric_limits<double>::infinity();
    list.add(static_cast<T>(magnitude), rounded);
    if (std::is_signed_v<T>) list.add(static_cast<T>(-static_cast<T>(magnitude)), -rounded);
  };
  for (int dropped = 1; dropped + digits <= 64; ++dropped) {
    const std::uint64_t leading = std::uint64_t{1} << (digits - 1), half = std::uint64_t{1} << (dropped - 1);
    for (const std::uint64_t kept : {leading, leading + 1, leading + leading / 3, 2 * leading - 2, 2 * leading - 1}) {
      const std::uint64_t middle = (kept << dropped) + half;
      for (const std::uint64_t x : {middle - 1, middle, middle + 1, middle + half / 2, middle - half / 2}) add(x);
    }
  }
  add(std::numeric_limits<std::uint64_t>::max());
  add(static_cast<std::uint64_t>(std::numeric_limits<T>::max()));
  return list;
}

}  // namespace lockstep::tests
