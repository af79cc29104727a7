#pragma once

#include <cstdint>
#include <vector>

#include "backends/cpu/products/gemv_blocks.h"

// The loops of bfloat16_grads.h, for processors that multiply pairs of bfloat16. A word is a pair, what comes first
// in its lower half.
namespace lockstep::backend::cpu {

/// Images of which the kernel's gradient is made. Packed x: [image][16 channels][row][column][channel], a word being a
/// place and the one that the next window has in its stead, zeros beside them; packed dy: [image][16 features][row][pair
/// of columns][feature]. The gradient: [row][column][channel][feature], features filled up to whole vectors.
struct Bfloat16Grad {
  std::int64_t images = 1;
  std::int64_t height = 1, width = 1, channels = 1;  ///< Of x.
  std::int64_t y_height = 1, y_width = 1, features = 1;
  std::int64_t window_height = 1, window_width = 1;
  std::int64_t stride_height = 1, stride_width = 1;
  std::int64_t dilation_height = 1, dilation_width = 1;
  std::int64_t low_height = 0, low_width = 0;  ///< Padding before x.

  std::int64_t packed_width() const { return (y_width - 1) * stride_width + (window_width - 1) * dilation_width + 1; }
  std::int64_t pairs() const { return (y_width + 1) / 2; }
  std::int64_t x_row() const { return packed_width() * lanes; }
  std::int64_t x_block() const { return height * x_row(); }
  std::int64_t x_image() const { return whole_vectors(channels) / lanes * x_block(); }
  std::int64_t dy_row() const { return pairs() * lanes; }
  std::int64_t dy_block() const { return y_height * dy_row(); }
  std::int64_t dy_image() const { return whole_vectors(features) / lanes * dy_block(); }
  std::int64_t gradient() const { return window_height * window_width * channels * whole_vectors(features); }
};

void pack_pairs_of_x(const Bfloat16Grad& p, const std::uint16_t* x, std::uint32_t* to);
void pack_pairs_of_dy(const Bfloat16Grad& p, const std::uint16_t* dy, std::uint32_t* to);
/// Begins the sums, or adds to them: each is one chain over images and places of y, row-major.
void multiply_pairs(const Bfloat16Grad& p, const std::uint32_t* x, const std::uint32_t* dy, float* gradient,
                    bool begins);

/// Places of an image's result, each the sum of products of some places of x, as far from each other for all of them.
/// Weights: [16 features][place of x][pair of channels][feature].
struct Bfloat16Correlation {
  std::int64_t rows = 1, columns = 1;
  std::int64_t pairs = 1;                      ///< Of channels, of each place of x.
  std::int64_t features = 1;                   ///< Of each place of the result.
  std::int64_t from_row = 0, from_column = 0;  ///< Elements from one place to the next, of x
  std::int64_t to_row = 0, to_column = 0;      ///< and of the result.
  std::vector<std::int64_t> places;            ///< Elements from where x is given.

  std::int64_t weights_vector() const { return static_cast<std::int64_t>(places.size()) * pairs * lanes; }
  std::int64_t weights() const { return whole_vectors(features) / lanes * weights_vector(); }
};

void correlate_pairs(const Bfloat16Correlation& c, const std::uint16_t* x, const std::uint32_t* weights,
                     std::uint16_t* to);

}  // namespace lockstep::backend::cpu
