#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <lockstep/backend/round_up.h>

#include "backends/cpu/convolutions/winograd_tiles.h"
#include "backends/cpu/products/gemv_blocks.h"

// The loops of winograd.h, for each level of vector instructions and each size of tiles (winograd_tiles.h). Places of y
// come of the product, element by element, of a tile of x and the window, both transformed along both sides; the window's
// gradient of the sum over all tiles of the product of x's and dy's, transformed. Transformed arrays are float32 and have a
// plane for each element of a tile, of rows that are filled up with zeros to whole vectors.
namespace lockstep::backend::cpu {

/// A convolution of 3 x 3 windows with step 1 over channels-last images, in one array of x and y or in several ones.
struct Winograd {
  std::int64_t images, height, width, channels;  ///< Of x, in all arrays.
  std::int64_t y_height, y_width, features;
  std::int64_t low_height, low_width;  ///< Padding before x.
  bool turned = false;                 ///< The window, by half a turn; it is given as [3][3][feature][channel] then.
  std::int64_t images_an_array;
  std::int64_t places;         ///< Of y along a tile's side.
  std::int64_t tiles_at_once;  ///< So many that what is made of them stays in the second-level cache.

  std::int64_t planes() const { return (places + 2) * (places + 2); }
  std::int64_t rows_of_tiles() const { return ceil_div<std::int64_t>(y_height, places); }
  std::int64_t tiles_a_row() const { return ceil_div<std::int64_t>(y_width, places); }
  std::int64_t tiles() const { return images * rows_of_tiles() * tiles_a_row(); }
};

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
inline bool is_large(const Winograd& w) { return w.planes() * w.channels * w.features > std::int64_t{1} << 18; }

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
  return w.planes() * winograd_depth(w) * whole_vectors(features);
}

/// A row of x or y for tiles that reach beyond them.
inline std::int64_t winograd_zeros(const Winograd& w) {
  return whole_vectors(std::max(w.width * w.channels, w.y_width * w.features));
}

inline std::int64_t winograd_convolve_floats(const Winograd& w) {
  const std::int64_t row = whole_vectors(std::min(w.features, winograd_panel));
  return winograd_zeros(w) + winograd_kernel_floats(w) +
         w.planes() * (winograd_plane(w, whole_vectors(w.channels)) + winograd_plane(w, row));
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

/// A vector of a row.
template <class Lanes>
struct WholeVector {
  template <class Element>
  Lanes load(const Element* from) const {
    return Lanes::load(from);
  }
  template <class Element>
  void store(Lanes value, Element* to) const {
    value.store(to);
  }
};

/// The first elements of one.
template <class Lanes>
struct PartOfVector {
  template <class Element>
  Lanes load(const Element* from) const {
    return Lanes::load(from, count);
  }
  template <class Element>
  void store(Lanes value, Element* to) const {
    value.store(to, count);
  }

  std::int64_t count;
};

/// Calls visit(first element, access) for the vectors of a row of n elements.
template <class Lanes, class Visit>
[[gnu::always_inline]] inline void for_each_vector(std::int64_t n, Visit visit) {
  std::int64_t k = 0;
  for (; k + lanes <= n; k += lanes) visit(k, WholeVector<Lanes>{});
  if (k < n) visit(k, PartOfVector<Lanes>{n - k});
}

/// Some channels of x, or features of y.
struct WinogradColumns {
  std::int64_t first, count;
};

/// `count` tiles of x from `first` on, transformed. Each column of places is transformed once for both tiles that share
/// it.
template <class Lanes, class Tiles, class Element>
void transform_x(const Winograd& w, const void* const* x, const float* zeros, std::int64_t first, std::int64_t count,
                 const WinogradColumns& channels, float* planes) {
  constexpr std::int64_t n = Tiles::elements, m = Tiles::places, shared = n - m;
  const std::int64_t row = whole_vectors(channels.count), step = winograd_plane(w, row);
  for_each_run(
      w, first, count, [&](const TileRun& run) __attribute__((always_inline)) {
        const Element* const image = static_cast<const Element*>(x[run.image / w.images_an_array]) + channels.first +
                                     run.image % w.images_an_array * w.height * w.width * w.channels;
        const Element* from[n];
        for (std::int64_t i = 0; i < n; ++i) {
          const std::int64_t r = run.row * m + i - w.low_height;
          from[i] = r >= 0 && r < w.height ? image + r * w.width * w.channels : reinterpret_cast<const Element*>(zeros);
        }
        for_each_vector<Lanes>(
            channels.count, [&](std::int64_t k, auto access) __attribute__((always_inline)) {
              std::int64_t place = run.column * m - w.low_width;
              const auto take_column = [&](Lanes(&to)[n]) __attribute__((always_inline)) {
                if (place >= 0 && place < w.width) {
                  Lanes d[n];
                  unrolled<n>([&](auto i) __attribute__((always_inline)) {
                    d[i] = access.load(from[i] + place * w.channels + k);
                  });
                  Tiles::transform_x(d, to);
                } else {
                  unrolled<n>([&](auto i) __attribute__((always_inline)) { to[i] = Lanes::zero(); });
                }
                ++place;
              };
              Lanes columns[n][n];
              unrolled<shared>([&](auto j) __attribute__((always_inline)) { take_column(columns[j]); });
              float* to = planes + run.first * row + k;
              for (std::int64_t tile = 0; tile < run.count; ++tile, to += row) {
                unrolled<m>([&](auto j) __attribute__((always_inline)) { take_column(columns[shared + j]); });
                unrolled<n>([&](auto i) __attribute__((always_inline)) {
                  Lanes d[n], made[n];
                  unrolled<n>([&](auto j) __attribute__((always_inline)) { d[j] = columns[j][i]; });
                  Tiles::transform_x(d, made);
                  unrolled<n>([&](auto j) __attribute__((always_inline)) { made[j].store(to + (n * i + j) * step); });
                  unrolled<shared>([&](auto j) __attribute__((always_inline)) { columns[j][i] = d[m + j]; });
                });
              }
            });
      });
}

/// A matrix of `from` x `from` elements, load(row, column), transformed along both sides into one of `to` x `to`, handed to
/// put(row, column, value).
template <class Lanes, std::int64_t from, std::int64_t to, class Load, class Transform, class Put>
[[gnu::always_inline]] inline void transform_sides(Load load, Transform transform, Put put) {
  Lanes columns[to][from];
  unrolled<from>([&](auto j) __attribute__((always_inline)) {
    Lanes given[from], made[to];
    unrolled<from>([&](auto i) __attribute__((always_inline)) { given[i] = load(i, j); });
    transform(given, made);
    unrolled<to>([&](auto i) __attribute__((always_inline)) { columns[i][j] = made[i]; });
  });
  unrolled<to>([&](auto i) __attribute__((always_inline)) {
    Lanes made[to];
    transform(columns[i], made);
    unrolled<to>([&](auto j) __attribute__((always_inline)) { put(i, j, made[j]); });
  });
}

/// What products have made of `count` tiles from `first` on, transformed to places of y.
template <class Lanes, class Tiles, class Element>
void transform_m(const Winograd& w, const float* planes, std::int64_t first, std::int64_t count, void* const* y,
                 const WinogradColumns& features) {
  constexpr std::int64_t n = Tiles::elements, m = Tiles::places;
  const std::int64_t row = whole_vectors(features.count), step = winograd_plane(w, row);
  const std::int64_t y_row = w.y_width * w.features;
  for_each_run(
      w, first, count, [&](const TileRun& run) __attribute__((always_inline)) {
        const std::int64_t image_row = run.image % w.images_an_array * w.y_height + run.row * m;
        Element* const upper = static_cast<Element*>(y[run.image / w.images_an_array]) + image_row * y_row +
                               run.column * m * w.features + features.first;
        const std::int64_t rows = w.y_height - run.row * m, columns = w.y_width - run.column * m;
        for_each_vector<Lanes>(
            features.count, [&](std::int64_t k, auto access) __attribute__((always_inline)) {
              const float* from = planes + run.first * row + k;
              for (std::int64_t tile = 0; tile < run.count; ++tile, from += row) {
                Element* const to = upper + tile * m * w.features + k;
                const auto load = [&](std::int64_t i, std::int64_t j) __attribute__((always_inline)) {
                  return Lanes::load(from + (n * i + j) * step);
                };
                const auto put = [&](std::int64_t i, std::int64_t j, Lanes value) __attribute__((always_inline)) {
                  if (i < rows && tile * m + j < columns) access.store(value, to + i * y_row + j * w.features);
                };
                transform_sides<Lanes, n, m>(load, Tiles::template transform_m<Lanes>, put);
              }
            });
      });
}

/// A window's nine places, given by load(place), transformed into planes `step` apart.
template <class Lanes, class Tiles, class Load>
[[gnu::always_inline]] inline void transform_window(Load load, float* to, std::int64_t step) {
  constexpr std::int64_t n = Tiles::elements;
  const auto place = [&](std::int64_t i, std::int64_t j) __attribute__((always_inline)) { return load(3 * i + j); };
  const auto put = [&](std::int64_t i, std::int64_t j, Lanes value) __attribute__((always_inline)) {
    value.store(to + (n * i + j) * step);
  };
  transform_sides<Lanes, 3, n>(place, Tiles::template transform_window<Lanes>, put);
}

/// Of a part of the window [3][3][channel][feature].
template <class Lanes, class Tiles, class Element>
void transform_kernel(const Winograd& w, const Element* kernel, const WindowPart& part, float* planes) {
  const std::int64_t place = w.channels * w.features, row = whole_vectors(part.features), step = part.channels * row;
  for (std::int64_t c = 0; c < part.channels; ++c) {
    for_each_vector<Lanes>(
        part.features, [&](std::int64_t k, auto access) __attribute__((always_inline)) {
          const Element* from = kernel + (part.channel + c) * w.features + part.feature + k;
          const auto load = [&](std::int64_t i) __attribute__((always_inline)) {
            return access.load(from + i * place);
          };
          transform_window<Lanes, Tiles>(load, planes + c * row + k, step);
        });
  }
}

/// Of a part of the window [3][3][feature][channel], turned.
template <class Lanes, class Tiles, class Element>
void transform_turned_kernel(const Winograd& w, const Element* kernel, const WindowPart& part, float* planes) {
  const std::int64_t row = whole_vectors(part.features), step = part.channels * row;
  constexpr std::int64_t square = lanes * lanes;
  alignas(64) float places[9 * square];  // [place][channel][feature]
  for (std::int64_t c = 0; c < part.channels; c += lanes) {
    const std::int64_t channels = std::min(lanes, part.channels - c);
    for (std::int64_t f = 0; f < part.features; f += lanes) {
      const std::int64_t features = std::min(lanes, part.features - f);
      for (std::int64_t i = 0; i < 9; ++i) {
        const Element* from = kernel + (i * w.features + part.feature + f) * w.channels + part.channel + c;
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
        transform_window<Lanes, Tiles>(load, planes + (c + k) * row + f, step);
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
  return (image * w.y_height + rows % w.rows_of_tiles() * w.places) * w.y_width;
}

/// Each y of its x; scratch of winograd_convolve_floats. `reader` may be null, and must be where there are several y.
template <class Lanes, class Tiles, class Element>
void winograd_convolve(const Winograd& w, const void* const* x, const void* kernel, void* const* y,
                       const PlacesReader* reader, float* scratch) {
  const std::int64_t x_row = whole_vectors(w.channels), x_plane = winograd_plane(w, x_row), depth = winograd_depth(w);
  float* kernel_planes = scratch + winograd_zeros(w);
  float* x_planes = kernel_planes + winograd_kernel_floats(w);
  float* y_planes = x_planes + w.planes() * x_plane;
  std::fill(scratch, kernel_planes, 0.0F);
  const auto transform =
      w.turned ? transform_turned_kernel<Lanes, Tiles, Element> : transform_kernel<Lanes, Tiles, Element>;
  for (std::int64_t first = 0; first < w.tiles(); first += w.tiles_at_once) {
    const std::int64_t count = std::min(w.tiles_at_once, w.tiles() - first);
    transform_x<Lanes, Tiles, Element>(w, x, scratch, first, count, {0, w.channels}, x_planes);
    float* from = kernel_planes;
    for (std::int64_t panel = 0; panel < w.features; panel += winograd_panel) {
      const std::int64_t width = std::min(winograd_panel, w.features - panel), row = whole_vectors(width);
      for (std::int64_t c = 0; c < w.channels; c += depth) {
        const std::int64_t channels = std::min(depth, w.channels - c);
        if (first == 0 || is_large(w))
          transform(w, static_cast<const Element*>(kernel), {c, channels, panel, width}, from);
        for (std::int64_t plane = 0; plane < w.planes(); ++plane) {
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
      if (!is_large(w)) from += w.planes() * w.channels * row;
      transform_m<Lanes, Tiles, Element>(w, y_planes, first, count, y, {panel, width});
    }
    if (reader != nullptr) {
      const std::int64_t before = winograd_places(w, first), places = winograd_places(w, first + count) - before;
      if (places > 0) reader->read(reader->self, before, places);
    }
  }
}

}  // namespace lockstep::backend::cpu
