#if defined(__AVX512F__)

#include <cstdint>

#include <immintrin.h>

#include "backends/onednn/few_rows_blocks.h"
#include "backends/onednn/packed_products.h"
#include "backends/onednn/winograd_blocks.h"

namespace lockstep::backends::onednn {

namespace {

struct Lanes {
  static constexpr std::int64_t most_sums = 24, most_vectors = 4, dot_rows = 6;

  static Lanes zero() { return {_mm512_setzero_ps()}; }
  static Lanes all(float x) { return {_mm512_set1_ps(x)}; }
  static Lanes load(const float* from) { return {_mm512_loadu_ps(from)}; }
  static Lanes load(const float* from, std::int64_t count) { return {_mm512_maskz_loadu_ps(mask(count), from)}; }
  void store(float* to) const { _mm512_storeu_ps(to, values); }
  void store(float* to, std::int64_t count) const { _mm512_mask_storeu_ps(to, mask(count), values); }
  static Lanes add(Lanes a, Lanes b) { return {_mm512_add_ps(a.values, b.values)}; }
  static Lanes sub(Lanes a, Lanes b) { return {_mm512_sub_ps(a.values, b.values)}; }
  static Lanes mul(Lanes a, Lanes b) { return {_mm512_mul_ps(a.values, b.values)}; }
  static Lanes fma(Lanes a, Lanes b, Lanes c) { return {_mm512_fmadd_ps(a.values, b.values, c.values)}; }

  /// The sums of each: lanes number i and i + 8 are added, those number i and i + 4, and so on to one. Shuffles without
  /// a mask, which has all lanes here, have GNU C++ 12 warn of its own header.
  static void store_sums(const Lanes (&of)[4], float* to, std::int64_t count) {
    const __m512 first = halves_added(of[0].values, of[1].values), second = halves_added(of[2].values, of[3].values);
    const __m512 fours = _mm512_add_ps(_mm512_maskz_shuffle_f32x4(every, first, second, 0x88),
                                       _mm512_maskz_shuffle_f32x4(every, first, second, 0xdd));
    const __m512 twos = _mm512_add_ps(fours, _mm512_maskz_permute_ps(every, fours, 0x4e));
    const __m512 ones = _mm512_add_ps(twos, _mm512_maskz_permute_ps(every, twos, 0xb1));
    const __m512i fourths = _mm512_setr_epi32(0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12);
    _mm512_mask_storeu_ps(to, mask(count), _mm512_maskz_permutexvar_ps(every, fourths, ones));
  }

  static __m512 halves_added(__m512 x, __m512 y) {
    return _mm512_add_ps(_mm512_maskz_shuffle_f32x4(every, x, y, 0x44), _mm512_maskz_shuffle_f32x4(every, x, y, 0xee));
  }

  static constexpr __mmask16 every = 0xffff;
  static __mmask16 mask(std::int64_t count) { return static_cast<__mmask16>((1U << count) - 1); }

  __m512 values;
};

}  // namespace

void multiply_few_rows_avx512(const RowsProduct& p) { multiply_few_rows<Lanes>(p); }
void sum_products_avx512(const ProductsSum& p) { sum_products<Lanes>(p); }
WinogradLoops winograd_loops_avx512() { return winograd_loops<Lanes>(); }

}  // namespace lockstep::backends::onednn

#endif
