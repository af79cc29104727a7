#if defined(__AVX2__)

#include <algorithm>
#include <array>
#include <cstdint>

#include <immintrin.h>

#include "backends/cpu/convolutions/depthwise_blocks.h"
#include "backends/cpu/convolutions/winograd_grads.h"
#include "backends/cpu/products/gemv_blocks.h"
#include "backends/cpu/products/packed_products.h"

namespace lockstep::backend::cpu {

namespace {

/// 16 lanes in two registers, so that sums have the order they have with AVX-512.
struct Avx2Lanes {
  static constexpr std::int64_t most_sums = 6, most_vectors = 1, dot_rows = 1;

  static Avx2Lanes zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static Avx2Lanes all(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  static Avx2Lanes load(const float* from) { return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)}; }
  static Avx2Lanes load(const float* from, std::int64_t count) {
    return {_mm256_maskload_ps(from, mask(count)), _mm256_maskload_ps(from + 8, mask(count - 8))};
  }
  void store(float* to) const {
    _mm256_storeu_ps(to, low);
    _mm256_storeu_ps(to + 8, high);
  }
  void store(float* to, std::int64_t count) const {
    _mm256_maskstore_ps(to, mask(count), low);
    _mm256_maskstore_ps(to + 8, mask(count - 8), high);
  }
  static Avx2Lanes load(const std::uint16_t* from) {
    return {widened(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))),
            widened(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 8)))};
  }
  static Avx2Lanes load(const std::uint16_t* from, std::int64_t count) {
    std::array<std::uint16_t, 16> all{};
    std::copy_n(from, count, all.data());
    return load(all.data());
  }
  void store(std::uint16_t* to) const {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), narrowed(low));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 8), narrowed(high));
  }
  void store(std::uint16_t* to, std::int64_t count) const {
    std::array<std::uint16_t, 16> all;
    store(all.data());
    std::copy_n(all.data(), count, to);
  }
  static Avx2Lanes add(Avx2Lanes a, Avx2Lanes b) {
    return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
  }
  static Avx2Lanes sub(Avx2Lanes a, Avx2Lanes b) {
    return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
  }
  static Avx2Lanes mul(Avx2Lanes a, Avx2Lanes b) {
    return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
  }
  static Avx2Lanes fma(Avx2Lanes a, Avx2Lanes b, Avx2Lanes c) {
    return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
  }

  static __m256 widened(__m128i narrow) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(narrow), 16));
  }
  /// As rounded_to_bfloat16, backends/bfloat16.h.
  static __m128i narrowed(__m256 wide) {
    const __m256i bits = _mm256_castps_si256(wide);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x00400000));
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(wide, wide, _CMP_UNORD_Q));
    const __m256i chosen = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, is_nan), 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(chosen), _mm256_extracti128_si256(chosen, 1));
  }

  /// The sums of each: lanes number i and i + 8 are added, those number i and i + 4, and so on to one.
  static void store_sums(const Avx2Lanes (&of)[4], float* to, std::int64_t count) {
    const auto fours = [](Avx2Lanes x, Avx2Lanes y) {
      const __m256 of_x = _mm256_add_ps(x.low, x.high), of_y = _mm256_add_ps(y.low, y.high);
      return _mm256_add_ps(_mm256_permute2f128_ps(of_x, of_y, 0x20), _mm256_permute2f128_ps(of_x, of_y, 0x31));
    };
    const __m256 first = fours(of[0], of[1]), second = fours(of[2], of[3]);
    const __m256 twos = _mm256_add_ps(_mm256_shuffle_ps(first, second, 0x44), _mm256_shuffle_ps(first, second, 0xee));
    const __m256 ones = _mm256_add_ps(_mm256_shuffle_ps(twos, twos, 0x88), _mm256_shuffle_ps(twos, twos, 0xdd));
    const __m128 sums = _mm_unpacklo_ps(_mm256_castps256_ps128(ones), _mm256_extractf128_ps(ones, 1));
    _mm_maskstore_ps(to, _mm256_castsi256_si128(mask(count)), sums);
  }

  static void transpose(Avx2Lanes (&rows)[16]) {
    __m256 quarters[2][2][8];  // by rows and columns
    for (int i = 0; i < 16; ++i) {
      quarters[i / 8][0][i % 8] = rows[i].low;
      quarters[i / 8][1][i % 8] = rows[i].high;
    }
    for (auto& row : quarters) {
      for (auto& quarter : row) transpose_quarter(quarter);
    }
    for (int i = 0; i < 16; ++i) {
      rows[i].low = quarters[0][i / 8][i % 8];
      rows[i].high = quarters[1][i / 8][i % 8];
    }
  }

  static void transpose_quarter(__m256 (&rows)[8]) {
    __m256 fours[8];  // number 4 g + j has column 4 l + j of rows 4 g to 4 g + 3 in its half number l
    for (int g = 0; g < 8; g += 4) {
      const __m256 low_ab = _mm256_unpacklo_ps(rows[g], rows[g + 1]),
                   high_ab = _mm256_unpackhi_ps(rows[g], rows[g + 1]);
      const __m256 low_cd = _mm256_unpacklo_ps(rows[g + 2], rows[g + 3]);
      const __m256 high_cd = _mm256_unpackhi_ps(rows[g + 2], rows[g + 3]);
      fours[g] = _mm256_shuffle_ps(low_ab, low_cd, 0x44);
      fours[g + 1] = _mm256_shuffle_ps(low_ab, low_cd, 0xee);
      fours[g + 2] = _mm256_shuffle_ps(high_ab, high_cd, 0x44);
      fours[g + 3] = _mm256_shuffle_ps(high_ab, high_cd, 0xee);
    }
    for (int j = 0; j < 4; ++j) {
      rows[j] = _mm256_permute2f128_ps(fours[j], fours[4 + j], 0x20);
      rows[4 + j] = _mm256_permute2f128_ps(fours[j], fours[4 + j], 0x31);
    }
  }

  /// The first `count` of 8 lanes.
  static __m256i mask(std::int64_t count) {
    const __m256i number = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(std::clamp<std::int64_t>(count, 0, 8))), number);
  }

  __m256 low, high;
};

}  // namespace

void multiply_gemv_avx2(const RowsProduct& p) { multiply_gemv<Avx2Lanes>(p); }
void sum_products_avx2(const ProductsSum& p) { sum_products<Avx2Lanes>(p); }
WinogradLoops winograd_loops_avx2(bool is_narrow) { return winograd_loops<Avx2Lanes>(is_narrow); }
DepthwiseLoops depthwise_loops_avx2() { return depthwise_loops<Avx2Lanes>(); }

}  // namespace lockstep::backend::cpu

#endif
