#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "backends/onednn/few_rows_blocks.h"

// The loops of winograd.h, for each level of vector instructions. With B^T d B for a tile d of 4 x 4 places of x,
// G g G^T for the window g and A^T m A for their product m, element by element, the tile's 2 x 2 places of y are
//
//   B^T = 1  0 -1  0    G = 1    0    0    A^T = 1 1  1 0
//         0  1  1  0        1/2  1/2  1/2        0 1 -1 1
//         0 -1  1  0        1/2 -1/2  1/2
//         0 -1  0  1        0    0    1
//
// and the window's gradient is G^T s G, where s sums B^T d B times A dy A^T over all tiles. Transformed arrays have 16
// planes, one for each element of a tile, of rows that are filled up with zeros to whole vectors.
namespace lockstep::backends::onednn {

/// A convolution of 3 x 3 windows with step 1 over channels-last images, in one array of x and y or in several ones.
struct Winograd {
  std::int64_t images, height, width, channels;  ///< Of x, in all arrays.
  std::int64_t y_height, y_width, features;
  std::int64_t low_height, low_width;  ///< Padding before x.
  bool turned = false;                 ///< The window, by half a turn; it is given as [3][3][feature][channel] then.
  std::int64_t images_an_array;
  std::int64_t tiles_at_once;  ///< So many that what is made of them stays in the second-level cache.

  std::int64_t rows_of_tiles() const { return (y_height + 1) / 2; }
  std::int64_t tiles_a_row() const { return (y_width + 1) / 2; }
  std::int64_t tiles() const { return images * rows_of_tiles() * tiles_a_row(); }
};

constexpr std::int64_t winograd_planes = 16;
constexpr std::size_t most_winograd_arrays = 64;
/// Columns of y that are made at once.
constexpr std::int64_t winograd_panel = 64;

/// Elements from one plane of transformed tiles to the next: an odd number of lines, so that planes share no set of the
/// first-level cache.
inline std::int64_t winograd_plane(const Winograd& w, std::int64_t row) {
  const std::int64_t elements = w.tiles_at_once * row;
  return elements / lanes % 2 == 0 ? elements + lanes : elements;
}

/// Whether the second-level cache cannot hold the transformed window.
inline bool is_large(const Winograd& w) { return w.channels * w.features > std::int64_t{1} << 14; }

/// Channels and features of a large window that are transformed at once.
constexpr std::int64_t winograd_part = 64;

/// Channels of the window that are transformed at once: all, for all tiles; some of a large one, again for each block of
/// tiles, which takes less time than to read them from further away.
inline std::int64_t winograd_depth(const Winograd& w) {
  return is_large(w) ? std::min(w.channels, winograd_part) : w.channels;
}

/// Of the transformed window: [panel][plane][channel][column].
inline std::int64_t winograd_kernel_floats(const Winograd& w) {
  const std::int64_t features = is_large(w) ? std::min(w.features, winograd_panel) : w.features;
  return winograd_planes * winograd_depth(w) * whole_vectors(features);
}

/// A row of x or y for tiles that reach beyond them.
inline std::int64_t winograd_zeros(const Winograd& w) {
  return whole_vectors(std::max(w.width * w.channels, w.y_width * w.features));
}

inline std::int64_t winograd_convolve_floats(const Winograd& w) {
  const std::int64_t row = whole_vectors(std::min(w.features, winograd_panel));
  return winograd_zeros(w) + winograd_kernel_floats(w) +
         winograd_planes * (winograd_plane(w, whole_vectors(w.channels)) + winograd_plane(w, row));
}

/// Some channels and features of the window.
struct WindowPart {
  std::int64_t channel, channels, feature, features;
};

/// Tiles side by side: `count` of a row from a column on, which are number `first` and so on of a block.
struct TileRun {
  std::int64_t image, row, column, count, first;
};

template <class Visit>
void for_each_run(const Winograd& w, std::int64_t first, std::int64_t count, Visit visit) {
  const std::int64_t columns = w.tiles_a_row();
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t tile = first + done, row = tile / columns, column = tile % columns;
    const std::int64_t n = std::min(columns - column, count - done);
    visit(TileRun{row / w.rows_of_tiles(), row % w.rows_of_tiles(), column, n, done});
    done += n;
  }
}

/// Calls visit(first element, access) for the vectors of a row of n elements.
template <class Lanes, class Visit>
[[gnu::always_inline]] inline void for_each_vector(std::int64_t n, Visit visit) {
  struct Whole {
    Lanes load(const float* from) const { return Lanes::load(from); }
    void store(Lanes value, float* to) const { value.store(to); }
  };
  struct Partial {
    std::int64_t count;
    Lanes load(const float* from) const { return Lanes::load(from, count); }
    void store(Lanes value, float* to) const { value.store(to, count); }
  };
  std::int64_t k = 0;
  for (; k + lanes <= n; k += lanes) visit(k, Whole{});
  if (k < n) visit(k, Partial{n - k});
}

/// Some channels of x, or features of y.
struct Columns {
  std::int64_t first, count;
};

/// B^T d B of `count` tiles from `first` on. Each column of places is transformed once for both tiles that share it.
template <class Lanes>
void transform_x(const Winograd& w, const float* const* x, const float* zeros, std::int64_t first, std::int64_t count,
                 const Columns& channels, float* planes) {
  const std::int64_t row = whole_vectors(channels.count), step = winograd_plane(w, row);
  for_each_run(
      w, first, count, [&](const TileRun& run) __attribute__((always_inline)) {
        const float* const image = x[run.image / w.images_an_array] + channels.first +
                                   run.image % w.images_an_array * w.height * w.width * w.channels;
        const float* from[4];
        for (std::int64_t i = 0; i < 4; ++i) {
          const std::int64_t r = run.row * 2 + i - w.low_height;
          from[i] = r >= 0 && r < w.height ? image + r * w.width * w.channels : zeros;
        }
        for_each_vector<Lanes>(
            channels.count, [&](std::int64_t k, auto access) __attribute__((always_inline)) {
              std::int64_t place = run.column * 2 - w.low_width;
              const auto take_column = [&](Lanes(&to)[4]) __attribute__((always_inline)) {
                if (place >= 0 && place < w.width) {
                  Lanes d[4];
                  unrolled<4>([&](auto i) __attribute__((always_inline)) {
                    d[i] = access.load(from[i] + place * w.channels + k);
                  });
                  to[0] = Lanes::sub(d[0], d[2]);
                  to[1] = Lanes::add(d[1], d[2]);
                  to[2] = Lanes::sub(d[2], d[1]);
                  to[3] = Lanes::sub(d[3], d[1]);
                } else {
                  unrolled<4>([&](auto i) __attribute__((always_inline)) { to[i] = Lanes::zero(); });
                }
                ++place;
              };
              Lanes d0[4], d1[4], d2[4], d3[4];
              take_column(d0);
              take_column(d1);
              float* to = planes + run.first * row + k;
              for (std::int64_t tile = 0; tile < run.count; ++tile, to += row) {
                take_column(d2);
                take_column(d3);
                unrolled<4>([&](auto i) __attribute__((always_inline)) {
                  Lanes::sub(d0[i], d2[i]).store(to + 4 * i * step);
                  Lanes::add(d1[i], d2[i]).store(to + (4 * i + 1) * step);
                  Lanes::sub(d2[i], d1[i]).store(to + (4 * i + 2) * step);
                  Lanes::sub(d3[i], d1[i]).store(to + (4 * i + 3) * step);
                  d0[i] = d2[i];
                  d1[i] = d3[i];
                });
              }
            });
      });
}

/// A^T m A of `count` tiles from `first` on into y.
template <class Lanes>
void transform_m(const Winograd& w, const float* planes, std::int64_t first, std::int64_t count, float* const* y,
                 const Columns& features) {
  const std::int64_t row = whole_vectors(features.count), step = winograd_plane(w, row);
  for_each_run(
      w, first, count, [&](const TileRun& run) __attribute__((always_inline)) {
        const std::int64_t image_row = run.image % w.images_an_array * w.y_height + run.row * 2;
        float* upper =
            y[run.image / w.images_an_array] + (image_row * w.y_width + run.column * 2) * w.features + features.first;
        float* lower = upper + w.y_width * w.features;
        const bool has_lower = run.row * 2 + 1 < w.y_height;
        const std::int64_t columns = w.y_width - run.column * 2;
        for_each_vector<Lanes>(
            features.count, [&](std::int64_t k, auto access) __attribute__((always_inline)) {
              const float* from = planes + run.first * row + k;
              for (std::int64_t tile = 0; tile < run.count; ++tile, from += row) {
                Lanes sums[2][4];
                unrolled<4>([&](auto j) __attribute__((always_inline)) {
                  Lanes m[4];
                  unrolled<4>([&](auto i)
                                  __attribute__((always_inline)) { m[i] = Lanes::load(from + (4 * i + j) * step); });
                  sums[0][j] = Lanes::add(Lanes::add(m[0], m[1]), m[2]);
                  sums[1][j] = Lanes::add(Lanes::sub(m[1], m[2]), m[3]);
                });
                const std::int64_t at = tile * 2 * w.features + k;
                const bool has_right = tile * 2 + 1 < columns;
                const auto put = [&](const Lanes(&s)[4], float* to) __attribute__((always_inline)) {
                  access.store(Lanes::add(Lanes::add(s[0], s[1]), s[2]), to);
                  if (has_right) access.store(Lanes::add(Lanes::sub(s[1], s[2]), s[3]), to + w.features);
                };
                put(sums[0], upper + at);
                if (has_lower) put(sums[1], lower + at);
              }
            });
      });
}

/// G g G^T of a window's nine places, given by load(place), into planes `step` apart.
template <class Lanes, class Load>
[[gnu::always_inline]] inline void transform_window(Load load, float* to, std::int64_t step) {
  const Lanes half = Lanes::all(0.5F);
  const auto fourths = [&](Lanes a, Lanes b, Lanes c, auto put) __attribute__((always_inline)) {
    const Lanes outer = Lanes::mul(Lanes::add(a, c), half), inner = Lanes::mul(b, half);
    put(0, a);
    put(1, Lanes::add(outer, inner));
    put(2, Lanes::sub(outer, inner));
    put(3, c);
  };
  Lanes columns[4][3];
  unrolled<3>([&](auto j) __attribute__((always_inline)) {
    fourths(
        load(j), load(3 + j),
        load(6 + j), [&](std::int64_t i, Lanes value) __attribute__((always_inline)) { columns[i][j] = value; });
  });
  unrolled<4>([&](auto i) __attribute__((always_inline)) {
    const auto put = [&](std::int64_t j, Lanes value) __attribute__((always_inline)) {
      value.store(to + (4 * i + j) * step);
    };
    fourths(columns[i][0], columns[i][1], columns[i][2], put);
  });
}

/// Of a part of the window [3][3][channel][feature].
template <class Lanes>
void transform_kernel(const Winograd& w, const float* kernel, const WindowPart& part, float* planes) {
  const std::int64_t place = w.channels * w.features, row = whole_vectors(part.features), step = part.channels * row;
  for (std::int64_t c = 0; c < part.channels; ++c) {
    for_each_vector<Lanes>(
        part.features, [&](std::int64_t k, auto access) __attribute__((always_inline)) {
          const float* from = kernel + (part.channel + c) * w.features + part.feature + k;
          const auto load = [&](std::int64_t i) __attribute__((always_inline)) {
            return access.load(from + i * place);
          };
          transform_window<Lanes>(load, planes + c * row + k, step);
        });
  }
}

/// Of a part of the window [3][3][feature][channel], turned.
template <class Lanes>
void transform_turned_kernel(const Winograd& w, const float* kernel, const WindowPart& part, float* planes) {
  const std::int64_t row = whole_vectors(part.features), step = part.channels * row;
  constexpr std::int64_t square = lanes * lanes;
  alignas(64) float places[9 * square];  // [place][channel][feature]
  for (std::int64_t c = 0; c < part.channels; c += lanes) {
    const std::int64_t channels = std::min(lanes, part.channels - c);
    for (std::int64_t f = 0; f < part.features; f += lanes) {
      const std::int64_t features = std::min(lanes, part.features - f);
      for (std::int64_t i = 0; i < 9; ++i) {
        const float* from = kernel + (i * w.features + part.feature + f) * w.channels + part.channel + c;
        Lanes rows[lanes];
        for (std::int64_t k = 0; k < lanes; ++k) {
          rows[k] = k < features ? Lanes::load(from + k * w.channels, channels) : Lanes::zero();
        }
        Lanes::transpose(rows);
        for (std::int64_t k = 0; k < lanes; ++k) rows[k].store(places + (8 - i) * square + k * lanes);
      }
      for (std::int64_t k = 0; k < channels; ++k) {
        const auto load = [&](std::int64_t i) __attribute__((always_inline)) {
          return Lanes::load(places + i * square + k * lanes);
        };
        transform_window<Lanes>(load, planes + (c + k) * row + f, step);
      }
    }
  }
}

/// Told which places of y, counted over images, are there: each once, in ascending order.
struct PlacesReader {
  void (*read)(void* self, std::int64_t first, std::int64_t count);
  void* self;
};

/// The places that are there once the tiles before number `tile` are.
inline std::int64_t winograd_places(const Winograd& w, std::int64_t tile) {
  const std::int64_t rows = tile / w.tiles_a_row(), image = rows / w.rows_of_tiles();
  return (image * w.y_height + rows % w.rows_of_tiles() * 2) * w.y_width;
}

/// Each y of its x; scratch of winograd_convolve_floats. `reader` may be null, and must be where there are several y.
template <class Lanes>
void winograd_convolve(const Winograd& w, const float* const* x, const float* kernel, float* const* y,
                       const PlacesReader* reader, float* scratch) {
  const std::int64_t x_row = whole_vectors(w.channels), x_plane = winograd_plane(w, x_row), depth = winograd_depth(w);
  float* kernel_planes = scratch + winograd_zeros(w);
  float* x_planes = kernel_planes + winograd_kernel_floats(w);
  float* y_planes = x_planes + winograd_planes * x_plane;
  std::fill(scratch, kernel_planes, 0.0F);
  const auto transform = w.turned ? transform_turned_kernel<Lanes> : transform_kernel<Lanes>;
  for (std::int64_t first = 0; first < w.tiles(); first += w.tiles_at_once) {
    const std::int64_t count = std::min(w.tiles_at_once, w.tiles() - first);
    transform_x<Lanes>(w, x, scratch, first, count, {0, w.channels}, x_planes);
    float* from = kernel_planes;
    for (std::int64_t panel = 0; panel < w.features; panel += winograd_panel) {
      const std::int64_t width = std::min(winograd_panel, w.features - panel), row = whole_vectors(width);
      for (std::int64_t c = 0; c < w.channels; c += depth) {
        const std::int64_t channels = std::min(depth, w.channels - c);
        if (first == 0 || is_large(w)) transform(w, kernel, {c, channels, panel, width}, from);
        for (std::int64_t plane = 0; plane < winograd_planes; ++plane) {
          multiply_by_columns<Lanes>({.a = x_planes + plane * x_plane + c,
                                      .b = from + plane * channels * row,
                                      .result = y_planes + plane * winograd_plane(w, row),
                                      .rows = count,
                                      .columns = row,
                                      .depth = channels,
                                      .a_row = x_row,
                                      .a_depth = 1,
                                      .b_depth = row,
                                      .b_column = 1,
                                      .result_row = row,
                                      .adds = c > 0});
        }
      }
      if (!is_large(w)) from += winograd_planes * w.channels * row;
      transform_m<Lanes>(w, y_planes, first, count, y, {panel, width});
    }
    if (reader != nullptr) {
      const std::int64_t before = winograd_places(w, first), places = winograd_places(w, first + count) - before;
      if (places > 0) reader->read(reader->self, before, places);
    }
  }
}

}  // namespace lockstep::backends::onednn
