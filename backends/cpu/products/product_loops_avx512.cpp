#if defined(__AVX512F__)

#include <cstdint>

#include <immintrin.h>

#include "backends/cpu/convolutions/depthwise_blocks.h"
#include "backends/cpu/convolutions/winograd_grads.h"
#include "backends/cpu/products/gemv_blocks.h"
#include "backends/cpu/products/packed_products.h"

namespace lockstep::backend::cpu {

namespace {

struct Avx512Lanes {
  static constexpr std::int64_t most_sums = 24, most_vectors = 4, dot_rows = 6;

  static Avx512Lanes zero() { return {_mm512_setzero_ps()}; }
  static Avx512Lanes all(float x) { return {_mm512_set1_ps(x)}; }
  static Avx512Lanes load(const float* from) { return {_mm512_loadu_ps(from)}; }
  static Avx512Lanes load(const float* from, std::int64_t count) { return {_mm512_maskz_loadu_ps(mask(count), from)}; }
  void store(float* to) const { _mm512_storeu_ps(to, values); }
  void store(float* to, std::int64_t count) const { _mm512_mask_storeu_ps(to, mask(count), values); }
  static Avx512Lanes load(const std::uint16_t* from) { return widened(_mm256_loadu_epi16(from)); }
  static Avx512Lanes load(const std::uint16_t* from, std::int64_t count) {
    return widened(_mm256_maskz_loadu_epi16(mask(count), from));
  }
  void store(std::uint16_t* to) const { _mm256_storeu_epi16(to, narrowed()); }
  void store(std::uint16_t* to, std::int64_t count) const { _mm256_mask_storeu_epi16(to, mask(count), narrowed()); }
  static Avx512Lanes add(Avx512Lanes a, Avx512Lanes b) { return {_mm512_add_ps(a.values, b.values)}; }
  static Avx512Lanes sub(Avx512Lanes a, Avx512Lanes b) { return {_mm512_sub_ps(a.values, b.values)}; }
  static Avx512Lanes mul(Avx512Lanes a, Avx512Lanes b) { return {_mm512_mul_ps(a.values, b.values)}; }
  static Avx512Lanes fma(Avx512Lanes a, Avx512Lanes b, Avx512Lanes c) {
    return {_mm512_fmadd_ps(a.values, b.values, c.values)};
  }

  /// The sums of each: lanes number i and i + 8 are added, those number i and i + 4, and so on to one. Shuffles without
  /// a mask, which has all lanes here, have GNU C++ 12 warn of its own header.
  static void store_sums(const Avx512Lanes (&of)[4], float* to, std::int64_t count) {
    const __m512 first = halves_added(of[0].values, of[1].values), second = halves_added(of[2].values, of[3].values);
    const __m512 fours = _mm512_add_ps(_mm512_maskz_shuffle_f32x4(every, first, second, 0x88),
                                       _mm512_maskz_shuffle_f32x4(every, first, second, 0xdd));
    const __m512 twos = _mm512_add_ps(fours, _mm512_maskz_permute_ps(every, fours, 0x4e));
    const __m512 ones = _mm512_add_ps(twos, _mm512_maskz_permute_ps(every, twos, 0xb1));
    const __m512i fourths = _mm512_setr_epi32(0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12);
    _mm512_mask_storeu_ps(to, mask(count), _mm512_maskz_permutexvar_ps(every, fourths, ones));
  }

  static void transpose(Avx512Lanes (&rows)[16]) {
    const auto pairs = [](__m512 x, __m512 y, bool high) {
      const __m512d a = _mm512_castps_pd(x), b = _mm512_castps_pd(y);
      return _mm512_castpd_ps(high ? _mm512_maskz_unpackhi_pd(0xff, a, b) : _mm512_maskz_unpacklo_pd(0xff, a, b));
    };
    __m512 fours[16];  // number 4 g + j has column 4 l + j of rows 4 g to 4 g + 3 in its fourth number l
    for (int g = 0; g < 16; g += 4) {
      const __m512 a = rows[g].values, b = rows[g + 1].values, c = rows[g + 2].values, d = rows[g + 3].values;
      const __m512 low_ab = _mm512_maskz_unpacklo_ps(every, a, b), high_ab = _mm512_maskz_unpackhi_ps(every, a, b);
      const __m512 low_cd = _mm512_maskz_unpacklo_ps(every, c, d), high_cd = _mm512_maskz_unpackhi_ps(every, c, d);
      fours[g] = pairs(low_ab, low_cd, false);
      fours[g + 1] = pairs(low_ab, low_cd, true);
      fours[g + 2] = pairs(high_ab, high_cd, false);
      fours[g + 3] = pairs(high_ab, high_cd, true);
    }
    for (int j = 0; j < 4; ++j) {
      const __m512 even_low = _mm512_maskz_shuffle_f32x4(every, fours[j], fours[4 + j], 0x88);
      const __m512 even_high = _mm512_maskz_shuffle_f32x4(every, fours[8 + j], fours[12 + j], 0x88);
      const __m512 odd_low = _mm512_maskz_shuffle_f32x4(every, fours[j], fours[4 + j], 0xdd);
      const __m512 odd_high = _mm512_maskz_shuffle_f32x4(every, fours[8 + j], fours[12 + j], 0xdd);
      rows[j].values = _mm512_maskz_shuffle_f32x4(every, even_low, even_high, 0x88);
      rows[4 + j].values = _mm512_maskz_shuffle_f32x4(every, odd_low, odd_high, 0x88);
      rows[8 + j].values = _mm512_maskz_shuffle_f32x4(every, even_low, even_high, 0xdd);
      rows[12 + j].values = _mm512_maskz_shuffle_f32x4(every, odd_low, odd_high, 0xdd);
    }
  }

  static __m512 halves_added(__m512 x, __m512 y) {
    return _mm512_add_ps(_mm512_maskz_shuffle_f32x4(every, x, y, 0x44), _mm512_maskz_shuffle_f32x4(every, x, y, 0xee));
  }

  static Avx512Lanes widened(__m256i narrow) {
    return {_mm512_castsi512_ps(_mm512_maskz_slli_epi32(every, _mm512_maskz_cvtepu16_epi32(every, narrow), 16))};
  }
  /// As rounded_to_bfloat16, backends/bfloat16.h.
  __m256i narrowed() const {
    const __m512i bits = _mm512_castps_si512(values), half = _mm512_set1_epi32(0x7fff);
    const __m512i odd = _mm512_and_epi32(_mm512_maskz_srli_epi32(every, bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, half), odd);
    const __mmask16 is_nan = _mm512_cmp_ps_mask(values, values, _CMP_UNORD_Q);
    const __m512i chosen = _mm512_mask_or_epi32(rounded, is_nan, bits, _mm512_set1_epi32(0x00400000));
    return _mm512_maskz_cvtepi32_epi16(every, _mm512_maskz_srli_epi32(every, chosen, 16));
  }

  static constexpr __mmask16 every = 0xffff;
  static __mmask16 mask(std::int64_t count) { return static_cast<__mmask16>((1U << count) - 1); }

  __m512 values;
};

}  // namespace

void multiply_gemv_avx512(const RowsProduct& p) { multiply_gemv<Avx512Lanes>(p); }
void sum_products_avx512(const ProductsSum& p) { sum_products<Avx512Lanes>(p); }
WinogradLoops winograd_loops_avx512(bool is_narrow) { return winograd_loops<Avx512Lanes>(is_narrow); }
DepthwiseLoops depthwise_loops_avx512() { return depthwise_loops<Avx512Lanes>(); }

}  // namespace lockstep::backend::cpu

#endif
