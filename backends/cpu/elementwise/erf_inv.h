#pragma once

// The inverse of the error function on float32: which of two neighbours a value is rounded to.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::backend::cpu {

/// The value for |x| < 1 in float64, within 1e-12 of its size. Single IEEE operations: the same bits on every processor.
double wide_erf_inv(float x);

/// The value for any x in float32.
float erf_inv(float x);

/// How far a float64 is from the middle between two float32s, 2^28 units apart from each; of normal numbers.
constexpr std::uint32_t from_middle(double value) {
  const auto rest = static_cast<std::uint32_t>(std::bit_cast<std::uint64_t>(value) & 0x1FFFFFFFU);
  return rest > 0x10000000U ? rest - 0x10000000U : 0x10000000U - rest;
}

/// Whether |x|'s value, whose neighbours are about equally far, is rounded to the larger one. The values of this op have
/// always been those of one library, which errs by up to 0.502 units in the last place: 59,000 of 201 million differ from
/// the nearest float32. For these |x| the table, a file beside this one, says what is so; its bytes are
///   - a filter of `filter_bits` bits: the exclusive or of three of them, chosen by |x|'s bits, is the answer for every
///     |x| of at least `smallest` whose value is nearer to the middle than `near`. A fuse filter (Graf and Lemire 2022)
///     whose entries are one bit wide;
///   - the bits of other |x|, in ascending order, 4 bytes each, little-endian, whose value is not rounded to the nearest;
///     all are nearer to the middle than `beyond`.
class ErfInvTable {
 public:
  static constexpr std::uint32_t smallest = 0x33800000U;  ///< 2^-24; below, every value is rounded to the nearest.
  static constexpr std::uint32_t near = 10U << 15U;
  static constexpr std::uint32_t beyond = 1U << 20U;
  static constexpr std::uint32_t segment_bits = 4096;
  static constexpr std::uint32_t segments = 74;
  static constexpr std::uint32_t filter_bits = segment_bits * segments;

  explicit ErfInvTable(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  /// The one in use.
  static const ErfInvTable& shared();

  std::span<const std::uint8_t> bytes() const { return bytes_; }
  bool is_rounded_up(std::uint32_t magnitude) const;
  bool is_exception(std::uint32_t magnitude) const;

  /// The filter's three bits for an |x|.
  static constexpr std::array<std::uint32_t, 3> places(std::uint32_t magnitude) {
    std::uint64_t hash = (magnitude ^ 0x5851F42D4C957F2DULL) * 0x9E3779B97F4A7C15ULL;
    hash = (hash ^ (hash >> 32U)) * 0xD6E8FEB86659FD93ULL;
    hash ^= hash >> 32U;
    const auto segment = static_cast<std::uint32_t>(((hash >> 36U) * (segments - 2)) >> 28U);
    std::array<std::uint32_t, 3> places{};
    for (std::uint32_t i = 0; i < 3; ++i) {
      places[i] = (segment + i) * segment_bits + static_cast<std::uint32_t>(hash >> (12U * i)) % segment_bits;
    }
    return places;
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

}  // namespace lockstep::backend::cpu
