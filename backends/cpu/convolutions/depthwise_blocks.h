#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/cpu/products/gemv_blocks.h"

// The loops of depthwise.h, for each level of vector instructions: a place of an image has as many features as fill whole
// vectors, and images have all places that a window reads.
namespace lockstep::backend::cpu {

/// One image, its windows, and a result or its gradient.
struct Depthwise {
  std::int64_t width = 1;  ///< Of the image.
  std::int64_t y_height = 1, y_width = 1;
  std::int64_t window_height = 1, window_width = 1;
  std::int64_t stride_height = 1, stride_width = 1;
  std::int64_t dilation_height = 1, dilation_width = 1;
  std::int64_t features = 0;  ///< Of a place: whole vectors.

  /// Where the first window's place (i, j) lies, seen from y's place (a, b).
  std::int64_t at(std::int64_t a, std::int64_t b, std::int64_t i, std::int64_t j) const {
    const std::int64_t row = a * stride_height + i * dilation_height;
    return (row * width + b * stride_width + j * dilation_width) * features;
  }
};

constexpr std::int64_t most_depthwise_places = 6;

/// y(a, b) = the sum of x times the window over its places, row-major.
template <class Lanes>
void depthwise_correlate(const Depthwise& p, const float* x, const float* window, float* y) {
  for (std::int64_t f = 0; f < p.features; f += lanes) {
    for (std::int64_t a = 0; a < p.y_height; ++a) {
      for_each_row_block<most_depthwise_places>(p.y_width, [&](std::int64_t b, std::int64_t places) {
        with_constant<most_depthwise_places>(places, [&]<std::int64_t count>() {
          Lanes sums[count];
          unrolled<count>([&](auto n) __attribute__((always_inline)) { sums[n] = Lanes::zero(); });
          const float* factor = window + f;
          for (std::int64_t i = 0; i < p.window_height; ++i) {
            for (std::int64_t j = 0; j < p.window_width; ++j, factor += p.features) {
              const float* from = x + p.at(a, b, i, j) + f;
              const Lanes k = Lanes::load(factor);
              unrolled<count>([&](auto n) __attribute__((always_inline)) {
                sums[n] = Lanes::fma(Lanes::load(from + n * p.stride_width * p.features), k, sums[n]);
              });
            }
          }
          float* to = y + (a * p.y_width + b) * p.features + f;
          unrolled<count>([&](auto n) __attribute__((always_inline)) { sums[n].store(to + n * p.features); });
        });
      });
    }
  }
}

/// Adds to the window's gradient the sum of x times dy over all places of y, row-major.
template <class Lanes>
void depthwise_gradient(const Depthwise& p, const float* x, const float* dy, float* window) {
  for (std::int64_t f = 0; f < p.features; f += lanes) {
    for (std::int64_t i = 0; i < p.window_height; ++i) {
      for_each_row_block<most_depthwise_places>(p.window_width, [&](std::int64_t j, std::int64_t places) {
        with_constant<most_depthwise_places>(places, [&]<std::int64_t count>() {
          Lanes sums[count];
          unrolled<count>([&](auto n) __attribute__((always_inline)) { sums[n] = Lanes::zero(); });
          for (std::int64_t a = 0; a < p.y_height; ++a) {
            const float* from = x + p.at(a, 0, i, j) + f;
            const float* factor = dy + a * p.y_width * p.features + f;
            for (std::int64_t b = 0; b < p.y_width; ++b) {
              const Lanes d = Lanes::load(factor);
              unrolled<count>([&](auto n) __attribute__((always_inline)) {
                sums[n] = Lanes::fma(Lanes::load(from + n * p.dilation_width * p.features), d, sums[n]);
              });
              from += p.stride_width * p.features;
              factor += p.features;
            }
          }
          float* to = window + (i * p.window_width + j) * p.features + f;
          unrolled<count>([&](auto n) __attribute__((always_inline)) {
            Lanes::add(Lanes::load(to + n * p.features), sums[n]).store(to + n * p.features);
          });
        });
      });
    }
  }
}

/// The loops of one level.
struct DepthwiseLoops {
  void (*correlate)(const Depthwise& p, const float* x, const float* window, float* y);
  void (*gradient)(const Depthwise& p, const float* x, const float* dy, float* window);
};

template <class Lanes>
DepthwiseLoops depthwise_loops() {
  return {depthwise_correlate<Lanes>, depthwise_gradient<Lanes>};
}

DepthwiseLoops depthwise_loops_avx2();
DepthwiseLoops depthwise_loops_avx512();

}  // namespace lockstep::backend::cpu
