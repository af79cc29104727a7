#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "backends/cpu/convolutions/winograd_blocks.h"

// The loops of winograd.h for the window's gradient, that of one array and the sum of several ones'.
namespace lockstep::backend::cpu {

/// What of the window's gradient is added up at once: all, or where the second-level cache holds all that is made of the
/// tiles, so much that it holds the sums too.
inline WindowPart winograd_sums(const Winograd& w) {
  constexpr std::int64_t most_floats_a_plane = 33000;
  const bool holds_all = w.tiles() * (w.channels + w.features) <= most_floats_a_plane;
  if (w.tiles() > w.tiles_at_once || !holds_all) return {0, w.channels, 0, w.features};
  constexpr std::int64_t most_features = 512, most_products = 4096, fewest_channels = 12;
  const std::int64_t features = std::min(w.features, most_features);
  return {0, std::min(w.channels, std::max(most_products / features, fewest_channels)), 0, features};
}

inline std::int64_t winograd_sums_floats(const Winograd& w) {
  const WindowPart part = winograd_sums(w);
  return w.planes() * part.channels * whole_vectors(part.features);
}

inline std::int64_t winograd_kernel_grad_floats(const Winograd& w) {
  return winograd_zeros(w) + winograd_sums_floats(w) +
         w.planes() * (winograd_plane(w, whole_vectors(w.channels)) + winograd_plane(w, whole_vectors(w.features)));
}

/// `count` tiles of dy from `first` on, transformed.
template <class Lanes, class Tiles, class Element>
void transform_dy(const Winograd& w, const void* dy, const float* zeros, std::int64_t first, std::int64_t count,
                  const WinogradColumns& features, float* planes) {
  constexpr std::int64_t n = Tiles::elements, m = Tiles::places;
  const std::int64_t row = whole_vectors(features.count), step = winograd_plane(w, row);
  for_each_run(
      w, first, count, [&](const TileRun& run) __attribute__((always_inline)) {
        const std::int64_t y_row = w.y_width * w.features;
        const Element* const upper =
            static_cast<const Element*>(dy) + (run.image * w.y_height + run.row * m) * y_row + features.first;
        const Element* from[m];
        for (std::int64_t i = 0; i < m; ++i) {
          from[i] = run.row * m + i < w.y_height ? upper + i * y_row : reinterpret_cast<const Element*>(zeros);
        }
        for_each_vector<Lanes>(
            features.count, [&](std::int64_t k, auto access) __attribute__((always_inline)) {
              float* to = planes + run.first * row + k;
              for (std::int64_t tile = 0; tile < run.count; ++tile, to += row) {
                const std::int64_t place = (run.column + tile) * m;
                const auto load = [&](std::int64_t i, std::int64_t j) __attribute__((always_inline)) {
                  return place + j < w.y_width ? access.load(from[i] + (place + j) * w.features + k) : Lanes::zero();
                };
                const auto put = [&](std::int64_t i, std::int64_t j, Lanes value) __attribute__((always_inline)) {
                  value.store(to + (n * i + j) * step);
                };
                transform_sides<Lanes, m, n>(load, Tiles::template transform_dy<Lanes>, put);
              }
            });
      });
}

/// The gradient of a part of the window, handed to put(place, channel, feature, access, value).
template <class Lanes, class Tiles, class Put>
[[gnu::always_inline]] inline void transform_sums(const float* planes, std::int64_t channels, std::int64_t features,
                                                  Put put) {
  constexpr std::int64_t n = Tiles::elements;
  const std::int64_t row = whole_vectors(features), step = channels * row;
  for (std::int64_t c = 0; c < channels; ++c) {
    for_each_vector<Lanes>(
        features, [&](std::int64_t k, auto access) __attribute__((always_inline)) {
          const float* from = planes + c * row + k;
          const auto load = [&](std::int64_t i, std::int64_t j) __attribute__((always_inline)) {
            return Lanes::load(from + (n * i + j) * step);
          };
          const auto put_place = [&](std::int64_t i, std::int64_t j, Lanes value) __attribute__((always_inline)) {
            put(3 * i + j, c, k, access, value);
          };
          transform_sides<Lanes, n, 3>(load, Tiles::template transform_sums<Lanes>, put_place);
        });
  }
}

/// The window's gradient; scratch of winograd_kernel_grad_floats.
template <class Lanes, class Tiles, class Element>
void winograd_kernel_grad(const Winograd& w, const void* x, const void* dy, float* kernel, float* scratch) {
  const std::int64_t x_row = whole_vectors(w.channels), x_plane = winograd_plane(w, x_row);
  const std::int64_t y_row = whole_vectors(w.features), y_plane = winograd_plane(w, y_row);
  const WindowPart most = winograd_sums(w);
  float* sums = scratch + winograd_zeros(w);
  float* x_planes = sums + winograd_sums_floats(w);
  float* y_planes = x_planes + w.planes() * x_plane;
  std::fill(scratch, sums, 0.0F);
  for (std::int64_t first = 0; first < w.tiles(); first += w.tiles_at_once) {
    const std::int64_t count = std::min(w.tiles_at_once, w.tiles() - first);
    transform_x<Lanes, Tiles, Element>(w, &x, scratch, first, count, {0, w.channels}, x_planes);
    transform_dy<Lanes, Tiles, Element>(w, dy, scratch, first, count, {0, w.features}, y_planes);
    for (std::int64_t c = 0; c < w.channels; c += most.channels) {
      for (std::int64_t f = 0; f < w.features; f += most.features) {
        const WindowPart part{c, std::min(most.channels, w.channels - c), f, std::min(most.features, w.features - f)};
        const std::int64_t row = whole_vectors(part.features);
        for (std::int64_t plane = 0; plane < w.planes(); ++plane) {
          multiply_by_columns<Lanes>({.a = x_planes + plane * x_plane + c,
                                      .b = y_planes + plane * y_plane + f,
                                      .result = sums + plane * part.channels * row,
                                      .rows = part.channels,
                                      .columns = row,
                                      .depth = count,
                                      .a_row = 1,
                                      .a_depth = x_row,
                                      .b_depth = y_row,
                                      .b_column = 1,
                                      .result_row = row,
                                      .adds = first > 0});
        }
        if (first + count < w.tiles()) continue;
        const auto put = [&](std::int64_t place, std::int64_t channel, std::int64_t feature, auto access, Lanes value)
            __attribute__((always_inline)) {
          const std::int64_t at = place * w.channels + part.channel + channel;
          access.store(value, kernel + at * w.features + part.feature + feature);
        };
        transform_sums<Lanes, Tiles>(sums, part.channels, part.features, put);
      }
    }
  }
}

/// The sum of several arrays' gradients, all of one shape, by the tree of a psum: S(0, V) with S(a, b) = S(a, m) + S(m, b).
struct WinogradSum {
  Winograd one;         ///< With all tiles at once.
  std::int64_t arrays;  ///< A power of two.
  WindowPart part;      ///< Of the window.
  std::int64_t features_at_once;

  /// Partial sums that there are at once.
  std::int64_t levels() const { return std::bit_width(static_cast<std::uint64_t>(arrays)) - 1; }
  std::int64_t row() const { return whole_vectors(std::min(part.features, features_at_once)); }
};

/// Channels of the window whose gradients are summed at once.
constexpr std::int64_t winograd_channels_at_once = 16;

inline std::int64_t winograd_sum_floats(const WinogradSum& s) {
  const std::int64_t block = winograd_channels_at_once * s.row();
  return winograd_zeros(s.one) +
         s.one.planes() *
             (s.arrays * winograd_plane(s.one, s.row()) + winograd_plane(s.one, winograd_channels_at_once) + block) +
         9 * s.levels() * block;
}

/// Adds what array number i gives for a block of the window to the partial sums, the last one's to all of them.
template <class Lanes, class Tiles>
void add_to_tree(const WinogradSum& s, std::int64_t i, const float* sums, const WinogradColumns& channels,
                 const WinogradColumns& features, float* levels, float* kernel) {
  const std::int64_t row = whole_vectors(features.count), place_step = winograd_channels_at_once * row;
  const auto number = static_cast<std::uint64_t>(i);
  const std::int64_t there = std::popcount(number), left = there - std::countr_one(number);
  const bool is_last = i == s.arrays - 1;
  const auto put = [&](std::int64_t place, std::int64_t channel, std::int64_t feature, auto access, Lanes value)
      __attribute__((always_inline)) {
    float* const level = levels + place * place_step + channel * row + feature;
    for (std::int64_t l = there; l-- > left;) value = Lanes::add(Lanes::load(level + 9 * l * place_step), value);
    if (is_last) {
      const std::int64_t at = place * s.one.channels + channels.first + channel;
      access.store(value, kernel + at * s.one.features + features.first + feature);
    } else {
      value.store(level + 9 * left * place_step);
    }
  };
  transform_sums<Lanes, Tiles>(sums, channels.count, features.count, put);
}

/// Block by block of the window, so that what is added lies in the second-level cache and the sum alone is written to
/// memory; scratch of winograd_sum_floats.
template <class Lanes, class Tiles>
void winograd_sum_kernel_grads(const WinogradSum& s, const void* const* x, const void* const* dy, float* kernel,
                               float* scratch) {
  const Winograd& w = s.one;
  const std::int64_t most_row = s.row(), x_plane = winograd_plane(w, winograd_channels_at_once);
  const std::int64_t y_planes_an_array = w.planes() * winograd_plane(w, most_row);
  float* y_planes = scratch + winograd_zeros(w);
  float* x_planes = y_planes + s.arrays * y_planes_an_array;
  float* sums = x_planes + w.planes() * x_plane;
  float* levels = sums + w.planes() * winograd_channels_at_once * most_row;
  std::fill(scratch, y_planes, 0.0F);
  for (std::int64_t f = 0; f < s.part.features; f += s.features_at_once) {
    const WinogradColumns features{s.part.feature + f, std::min(s.features_at_once, s.part.features - f)};
    const std::int64_t row = whole_vectors(features.count), y_plane = winograd_plane(w, row);
    for (std::int64_t i = 0; i < s.arrays; ++i) {
      transform_dy<Lanes, Tiles, float>(w, dy[i], scratch, 0, w.tiles(), features, y_planes + i * y_planes_an_array);
    }
    for (std::int64_t c = 0; c < s.part.channels; c += winograd_channels_at_once) {
      const WinogradColumns channels{s.part.channel + c, std::min(winograd_channels_at_once, s.part.channels - c)};
      for (std::int64_t i = 0; i < s.arrays; ++i) {
        transform_x<Lanes, Tiles, float>(w, x + i, scratch, 0, w.tiles(), channels, x_planes);
        for (std::int64_t plane = 0; plane < w.planes(); ++plane) {
          multiply_by_columns<Lanes>({.a = x_planes + plane * x_plane,
                                      .b = y_planes + i * y_planes_an_array + plane * y_plane,
                                      .result = sums + plane * channels.count * row,
                                      .rows = channels.count,
                                      .columns = row,
                                      .depth = w.tiles(),
                                      .a_row = 1,
                                      .a_depth = winograd_channels_at_once,
                                      .b_depth = row,
                                      .b_column = 1,
                                      .result_row = row});
        }
        add_to_tree<Lanes, Tiles>(s, i, sums, channels, features, levels, kernel);
      }
    }
  }
}

/// The loops of one level and element of x and y.
struct WinogradLoops {
  void (*convolve)(const Winograd& w, const void* const* x, const void* kernel, void* const* y,
                   const PlacesReader* reader, float* scratch);
  void (*kernel_grad)(const Winograd& w, const void* x, const void* dy, float* kernel, float* scratch);
  void (*sum_kernel_grads)(const WinogradSum& s, const void* const* x, const void* const* dy, float* kernel,
                           float* scratch);  ///< Null for bfloat16.
};

/// float32 in tiles of 2 x 2 places of y, or bfloat16 in tiles of 4 x 4.
template <class Lanes>
WinogradLoops winograd_loops(bool is_narrow) {
  using Bfloat16 = std::uint16_t;
  if (is_narrow) {
    return {winograd_convolve<Lanes, TilesOf4, Bfloat16>, winograd_kernel_grad<Lanes, TilesOf4, Bfloat16>, nullptr};
  }
  return {winograd_convolve<Lanes, TilesOf2, float>, winograd_kernel_grad<Lanes, TilesOf2, float>,
          winograd_sum_kernel_grads<Lanes, TilesOf2>};
}

WinogradLoops winograd_loops_avx2(bool is_narrow);
WinogradLoops winograd_loops_avx512(bool is_narrow);

}  // namespace lockstep::backend::cpu
