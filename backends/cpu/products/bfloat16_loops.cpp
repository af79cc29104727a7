#include "backends/cpu/products/bfloat16_loops.h"

#if defined(__AVX512BF16__)

#include <cstring>

#include <immintrin.h>

#include <lockstep/backend/round_up.h>

namespace lockstep::backend::cpu {

namespace {

__mmask16 mask(std::int64_t count) { return static_cast<__mmask16>(count >= lanes ? 0xffff : (1U << count) - 1); }

/// A word each of up to 16 elements.
__m512i widened(const std::uint16_t* from, __mmask16 exist) {
  return _mm512_maskz_cvtepu16_epi32(0xffff, _mm256_maskz_loadu_epi16(exist, from));
}

__m512i pairs_of(__m512i first, __m512i second) {
  return _mm512_or_si512(first, _mm512_maskz_slli_epi32(0xffff, second, 16));
}

/// A row of x, from its first place on: columns that are there in pairs, zeros elsewhere.
void pack_row(const Bfloat16Grad& p, const std::uint16_t* from, __mmask16 exist, std::uint32_t* to) {
  const std::int64_t columns = p.packed_width(), step = p.stride_width;
  const auto place = [&](std::int64_t column) {
    return column < 0 || column >= p.width ? _mm512_setzero_si512() : widened(from + column * p.channels, exist);
  };
  const auto pack_edge = [&](std::int64_t first, std::int64_t end) {
    for (std::int64_t q = first; q < end; ++q) {
      const std::int64_t column = q - p.low_width;
      _mm512_storeu_si512(to + q * lanes, pairs_of(place(column), place(column + step)));
    }
  };
  // Between these, both of a pair are there.
  const std::int64_t low = std::clamp<std::int64_t>(p.low_width, 0, columns);
  const std::int64_t end = std::clamp<std::int64_t>(p.low_width + p.width - step, low, columns);
  pack_edge(0, low);
  const std::uint16_t* at = from + (low - p.low_width) * p.channels;
  __m512i next = low < end ? widened(at, exist) : _mm512_setzero_si512();
  for (std::int64_t q = low; q < end; ++q, at += p.channels) {
    const __m512i first = step == 1 ? next : widened(at, exist);
    next = widened(at + step * p.channels, exist);
    _mm512_storeu_si512(to + q * lanes, pairs_of(first, next));
  }
  pack_edge(end, columns);
}

/// Rows of y, and those of x that a row of the window leads them to, which are all there.
struct RowsMet {
  std::int64_t y = 0, x = 0, count = 0;
};

RowsMet rows_of(const Bfloat16Grad& p, std::int64_t window_row) {
  const std::int64_t reach = window_row * p.dilation_height - p.low_height, step = p.stride_height;
  const std::int64_t first = reach < 0 ? (step - 1 - reach) / step : 0;
  const std::int64_t end = reach < p.height ? std::min(p.y_height, ceil_div(p.height - reach, step)) : 0;
  return {first, first * step + reach, std::max<std::int64_t>(end - first, 0)};
}

/// The gradient's rows of `channels` channels and `vectors` vectors of features for one place of the window.
template <std::int64_t channels, std::int64_t vectors>
void multiply_pairs(const Bfloat16Grad& p, std::int64_t rows, const std::uint32_t* x, const std::uint32_t* dy,
                    float* gradient, bool begins) {
  const std::int64_t row = whole_vectors(p.features);
  __m512 sums[channels][vectors];
  const auto each = [](auto visit) __attribute__((always_inline)) {
    unrolled<channels>([&](auto i) __attribute__((always_inline)) {
      unrolled<vectors>([&](auto j) __attribute__((always_inline)) { visit(i, j); });
    });
  };
  each([&](auto i, auto j) __attribute__((always_inline)) {
    sums[i][j] = begins ? _mm512_setzero_ps() : _mm512_loadu_ps(gradient + i * row + j * lanes);
  });
  const auto add = [&](const std::uint32_t* from, const std::uint32_t* factor, __m512i halves)
      __attribute__((always_inline)) {
    __m512i factors[vectors];
    unrolled<vectors>([&](auto j) __attribute__((always_inline)) {
      factors[j] = _mm512_loadu_si512(factor + j * p.dy_block());
    });
    unrolled<channels>([&](auto i) __attribute__((always_inline)) {
      const __m512i pair = _mm512_and_si512(_mm512_set1_epi32(static_cast<int>(from[i])), halves);
      unrolled<vectors>([&](auto j) __attribute__((always_inline)) {
        sums[i][j] =
            _mm512_dpbf16_ps(sums[i][j], reinterpret_cast<__m512bh>(factors[j]), reinterpret_cast<__m512bh>(pair));
      });
    });
  };
  const std::int64_t step = 2 * p.stride_width * lanes, whole = p.y_width / 2;
  for (std::int64_t image = 0; image < p.images; ++image) {
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::uint32_t* from = x + image * p.x_image() + r * p.stride_height * p.x_row();
      const std::uint32_t* factor = dy + image * p.dy_image() + r * p.dy_row();
      for (std::int64_t pair = 0; pair < whole; ++pair, from += step, factor += lanes) {
        add(from, factor, _mm512_set1_epi32(-1));
      }
      // The last column's partner is no place of dy, and may be an infinity of x.
      if (p.y_width % 2 != 0) add(from, factor, _mm512_set1_epi32(0xffff));
    }
  }
  each([&](auto i, auto j)
           __attribute__((always_inline)) { _mm512_storeu_ps(gradient + i * row + j * lanes, sums[i][j]); });
}

/// All features of the gradient's row of up to `most` channels for one place of the window.
template <std::int64_t most, std::int64_t vectors>
void multiply_channels(const Bfloat16Grad& p, std::int64_t rows, const std::uint32_t* x, const std::uint32_t* dy,
                       float* gradient, std::int64_t count, bool begins) {
  for_each_row_block<most>(count, [&](std::int64_t i, std::int64_t channels) {
    with_constant<most>(channels, [&]<std::int64_t constant>() {
      multiply_pairs<constant, vectors>(p, rows, x + i, dy, gradient + i * whole_vectors(p.features), begins);
    });
  });
}

__m512i pair_at(const std::uint16_t* from) {
  int pair;
  std::memcpy(&pair, from, sizeof(pair));
  return _mm512_set1_epi32(pair);
}

/// Some columns of a row of the result, some vectors of features; `last` of the last one exist.
template <std::int64_t columns, std::int64_t vectors>
void correlate_block(const Bfloat16Correlation& c, const std::uint16_t* x, const std::uint32_t* weights,
                     std::uint16_t* to, std::int64_t last) {
  const std::int64_t step = c.from_column, pairs = c.pairs, vector = c.weights_vector();
  __m512 sums[columns][vectors];
  const auto each = [](auto visit) __attribute__((always_inline)) {
    unrolled<columns>([&](auto i) __attribute__((always_inline)) {
      unrolled<vectors>([&](auto j) __attribute__((always_inline)) { visit(i, j); });
    });
  };
  each([&](auto i, auto j) __attribute__((always_inline)) { sums[i][j] = _mm512_setzero_ps(); });
  for (const std::int64_t place : c.places) {
    // Of each fourth column: addresses of all would take more registers than there are.
    const std::uint16_t* from[(columns + 3) / 4];
    unrolled<(columns + 3) / 4>([&](auto i) __attribute__((always_inline)) { from[i] = x + place + i * 4 * step; });
    for (std::int64_t pair = 0; pair < pairs; ++pair, weights += lanes) {
      __m512i factors[vectors];
      unrolled<vectors>([&](auto j)
                            __attribute__((always_inline)) { factors[j] = _mm512_loadu_si512(weights + j * vector); });
      unrolled<columns>([&](auto i) __attribute__((always_inline)) {
        const __m512i both = pair_at(from[i / 4] + i % 4 * step);
        unrolled<vectors>([&](auto j) __attribute__((always_inline)) {
          sums[i][j] =
              _mm512_dpbf16_ps(sums[i][j], reinterpret_cast<__m512bh>(factors[j]), reinterpret_cast<__m512bh>(both));
        });
      });
      unrolled<(columns + 3) / 4>([&](auto i) __attribute__((always_inline)) { from[i] += 2; });
    }
  }
  each([&](auto i, auto j) __attribute__((always_inline)) {
    const auto rounded = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(sums[i][j]));
    _mm256_mask_storeu_epi16(to + i * c.to_column + j * lanes, j < vectors - 1 ? 0xffff : mask(last), rounded);
  });
}

template <std::int64_t most, std::int64_t vectors>
void correlate_row(const Bfloat16Correlation& c, const std::uint16_t* x, const std::uint32_t* weights,
                   std::uint16_t* to, std::int64_t last) {
  for_each_row_block<most>(c.columns, [&](std::int64_t i, std::int64_t columns) {
    with_constant<most>(columns, [&]<std::int64_t constant>() {
      correlate_block<constant, vectors>(c, x + i * c.from_column, weights, to + i * c.to_column, last);
    });
  });
}

}  // namespace

void pack_pairs_of_x(const Bfloat16Grad& given, const std::uint16_t* x, std::uint32_t* to) {
  const Bfloat16Grad p = given;  // stores of vectors might write to it
  const std::int64_t row_words = p.x_row();
  for (std::int64_t image = 0; image < p.images; ++image, x += p.height * p.width * p.channels) {
    for (std::int64_t c = 0; c < p.channels; c += lanes) {
      const __mmask16 exist = mask(p.channels - c);
      for (std::int64_t r = 0; r < p.height; ++r, to += row_words) {
        pack_row(p, x + r * p.width * p.channels + c, exist, to);
      }
    }
  }
}

void pack_pairs_of_dy(const Bfloat16Grad& given, const std::uint16_t* dy, std::uint32_t* to) {
  const Bfloat16Grad p = given;  // stores of vectors might write to it
  for (std::int64_t image = 0; image < p.images; ++image, dy += p.y_height * p.y_width * p.features) {
    for (std::int64_t f = 0; f < p.features; f += lanes) {
      const __mmask16 exist = mask(p.features - f);
      for (std::int64_t r = 0; r < p.y_height; ++r) {
        const std::uint16_t* from = dy + r * p.y_width * p.features + f;
        for (std::int64_t pair = 0; pair < p.y_width / 2; ++pair, to += lanes, from += 2 * p.features) {
          _mm512_storeu_si512(to, pairs_of(widened(from, exist), widened(from + p.features, exist)));
        }
        if (p.y_width % 2 == 0) continue;
        _mm512_storeu_si512(to, widened(from, exist));
        to += lanes;
      }
    }
  }
}

void multiply_pairs(const Bfloat16Grad& p, const std::uint32_t* x, const std::uint32_t* dy, float* gradient,
                    bool begins) {
  const std::int64_t row = whole_vectors(p.features), vectors = row / lanes;
  for (std::int64_t c = 0; c < p.channels; c += lanes) {
    const std::int64_t channels = std::min(lanes, p.channels - c);
    for (std::int64_t i = 0; i < p.window_height; ++i) {
      const RowsMet rows = rows_of(p, i);
      const std::uint32_t* factor = dy + rows.y * p.dy_row();
      for (std::int64_t j = 0; j < p.window_width; ++j) {
        const std::uint32_t* from = x + c / lanes * p.x_block() + rows.x * p.x_row() + j * p.dilation_width * lanes;
        float* to = gradient + ((i * p.window_width + j) * p.channels + c) * row;
        std::int64_t v = 0;
        for (; v + 2 <= vectors; v += 2) {
          multiply_channels<8, 2>(p, rows.count, from, factor + v * p.dy_block(), to + v * lanes, channels, begins);
        }
        if (v < vectors)
          multiply_channels<16, 1>(p, rows.count, from, factor + v * p.dy_block(), to + v * lanes, channels, begins);
      }
    }
  }
}

void correlate_pairs(const Bfloat16Correlation& c, const std::uint16_t* x, const std::uint32_t* weights,
                     std::uint16_t* to) {
  for (std::int64_t f = 0; f < c.features;) {
    const std::int64_t vectors = c.features - f > lanes ? 2 : 1;
    const auto correlate = vectors == 2 ? correlate_row<12, 2> : correlate_row<24, 1>;
    for (std::int64_t r = 0; r < c.rows; ++r) {
      correlate(c, x + r * c.from_row, weights, to + r * c.to_row + f, c.features - f - (vectors - 1) * lanes);
    }
    f += vectors * lanes;
    weights += vectors * c.weights_vector();
  }
}

}  // namespace lockstep::backend::cpu

#endif
