#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace lockstep::backend::cpu {

// The elements of 16-bit float arrays. Arithmetic is float32's, each result rounded to the nearest, ties to even; every
// NaN becomes one quiet NaN. Without branches, so that loops over them vectorise.

/// 1 sign, 8 exponent and 7 mantissa bits.
struct Bfloat16 {
  std::uint16_t bits;

  Bfloat16() = default;
  explicit constexpr Bfloat16(float x) : bits(rounded(x)) {}
  constexpr operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }  // NOLINT: widens

 private:
  static constexpr std::uint16_t rounded(float x) {
    const auto wide = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t nearest = (wide + 0x7FFFU + ((wide >> 16) & 1U)) >> 16;
    return static_cast<std::uint16_t>(x != x ? 0x7FC0U : nearest);
  }
};

/// 1 sign, 5 exponent and 10 mantissa bits. A NaN keeps its sign.
struct Float16 {
  std::uint16_t bits;

  Float16() = default;
  explicit constexpr Float16(float x) : bits(rounded(x)) {}
  constexpr operator float() const { return widened(bits); }  // NOLINT: widens

 private:
  /// The difference of the exponents' biases, where a float32 has its exponent.
  static constexpr std::uint32_t rebias = (127U - 15U) << 23;

  static constexpr float widened(std::uint16_t half) {
    const std::uint32_t sign = (half & 0x8000U) << 16;
    const std::uint32_t magnitude = half & 0x7FFFU;
    const std::uint32_t normal = (magnitude << 13) + rebias;
    const std::uint32_t quiet = magnitude > 0x7C00U ? 0x00400000U : 0U;
    const std::uint32_t special = (normal + rebias) | quiet;
    const auto denormal = std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<int>(magnitude)) * 0x1p-24F);
    const std::uint32_t finite = magnitude < 0x0400U ? denormal : normal;
    return std::bit_cast<float>((magnitude >= 0x7C00U ? special : finite) | sign);
  }

  static constexpr std::uint16_t rounded(float x) {
    const auto wide = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t magnitude = wide & 0x7FFFFFFFU;
    const std::uint32_t normal = (magnitude - rebias + 0x0FFFU + ((magnitude >> 13) & 1U)) >> 13;
    // The last bit of numbers from a half on is worth that of float16's denormal ones.
    const std::uint32_t denormal = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3F000000U;
    std::uint32_t half = magnitude < 0x38800000U ? denormal : normal;  // 2^-14
    half = magnitude >= 0x477FF000U ? 0x7C00U : half;                  // 65520
    half = magnitude > 0x7F800000U ? 0x7E00U : half;
    return static_cast<std::uint16_t>(half | ((wide >> 16) & 0x8000U));
  }
};

template <class T>
concept NarrowFloat = std::is_same_v<T, Bfloat16> || std::is_same_v<T, Float16>;

template <NarrowFloat T>
constexpr T operator+(T a, T b) {
  return T(static_cast<float>(a) + static_cast<float>(b));
}
template <NarrowFloat T>
constexpr T operator-(T a, T b) {
  return T(static_cast<float>(a) - static_cast<float>(b));
}
template <NarrowFloat T>
constexpr T operator*(T a, T b) {
  return T(static_cast<float>(a) * static_cast<float>(b));
}
template <NarrowFloat T>
constexpr T operator/(T a, T b) {
  return T(static_cast<float>(a) / static_cast<float>(b));
}
template <NarrowFloat T>
constexpr T operator-(T x) {
  return T(-static_cast<float>(x));
}

}  // namespace lockstep::backend::cpu
