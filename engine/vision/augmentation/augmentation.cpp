#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include <lockstep/error.h>
#include <lockstep/vision/augmentation.h>

#include "engine/vision/augmentation/drawn_geometry.h"
#include "engine/vision/augmentation/pixels.h"

namespace lockstep::data {
namespace {

/// A window as wide as its image, of bytes: what is copied lies in one piece, of which the ends of lines that lie beside the
/// image are taken out. They are few, and one of each line is written at a time.
void crop_of_equal_width(const std::byte* from, std::byte* to, std::int64_t rows, std::int64_t line,
                         std::int64_t copied) {
  std::memcpy(to, from, static_cast<std::size_t>((rows - 1) * line + copied));
  for (std::int64_t at = copied; at < line; ++at) {
    for (std::int64_t row = 0; row + 1 < rows; ++row) to[row * line + at] = std::byte{0};
  }
}

}  // namespace

HostTable crop(const HostTable& image, std::int64_t top, std::int64_t left, std::int64_t height, std::int64_t width) {
  const Extents from = extents_of(image, "crop");
  HostTable window = blank(image.type.dtype, {height, width, from.channels}, "crop");
  const std::int64_t pixel = from.channels * static_cast<std::int64_t>(size_of(image.type.dtype));
  constexpr std::int64_t farthest = std::int64_t{1} << 40;  // all zeros, as from any place beyond
  top = std::clamp(top, -farthest, farthest);
  left = std::clamp(left, -farthest, farthest);
  const std::int64_t first_row = top < 0 ? (top <= -height ? height : -top) : 0;
  const std::int64_t first_column = left < 0 ? (left <= -width ? width : -left) : 0;
  const std::int64_t rows = top >= from.height ? 0 : std::min(height, from.height - top);
  const std::int64_t columns = left >= from.width ? 0 : std::min(width, from.width - left);
  if (columns <= first_column || rows <= first_row) return window;
  constexpr std::int64_t fewer_than_a_copy = 16;
  if (width == from.width && (width - columns + first_column) * pixel <= fewer_than_a_copy) {
    crop_of_equal_width(image.bytes.data() + ((first_row + top) * width + first_column + left) * pixel,
                        window.bytes.data() + (first_row * width + first_column) * pixel, rows - first_row,
                        width * pixel, (columns - first_column) * pixel);
    return window;
  }
  for (std::int64_t row = first_row; row < rows; ++row) {
    std::memcpy(window.bytes.data() + (row * width + first_column) * pixel,
                image.bytes.data() + ((row + top) * from.width + first_column + left) * pixel,
                static_cast<std::size_t>((columns - first_column) * pixel));
  }
  return window;
}

HostTable random_crop(const HostTable& image, std::int64_t height, std::int64_t width, std::int64_t padding,
                      const RowKey& key) {
  const Extents from = extents_of(image, "random_crop");
  const auto [top, left] = drawn_window(from, height, width, padding, key);
  return crop(image, top, left, height, width);
}

namespace {

/// A line of bytes the other way round, eight at a time from both ends until they meet; the last two may overlap.
void reverse_bytes(std::byte* line, std::int64_t width) {
  std::byte* end = line + width;
  for (; end - line >= 8; line += 8, end -= 8) {
    std::uint64_t front = 0, back = 0;
    std::memcpy(&front, line, 8);
    std::memcpy(&back, end - 8, 8);
    front = __builtin_bswap64(front);
    back = __builtin_bswap64(back);
    std::memcpy(line, &back, 8);
    std::memcpy(end - 8, &front, 8);
  }
  if (line < end) std::reverse(line, end);
}

}  // namespace

HostTable random_flip(HostTable image, const RowKey& key, double p) {
  const Extents of = extents_of(image, "random_flip");
  if (!(key.uniform() < p)) return image;
  const std::int64_t pixel = of.channels * static_cast<std::int64_t>(size_of(image.type.dtype));
  for (std::int64_t row = 0; row < of.height; ++row) {
    std::byte* line = image.bytes.data() + row * of.width * pixel;
    if (pixel == 1) {
      reverse_bytes(line, of.width);
      continue;
    }
    for (std::int64_t a = 0, b = of.width - 1; a < b; ++a, --b) {
      std::swap_ranges(line + a * pixel, line + (a + 1) * pixel, line + b * pixel);
    }
  }
  return image;
}

HostTable random_shift(const HostTable& image, std::int64_t most, const RowKey& key) {
  const Extents of = extents_of(image, "random_shift");
  const auto [top, left] = drawn_shift(most, key);
  return crop(image, top, left, of.height, of.width);
}

HostTable cutout(HostTable image, std::int64_t size, const RowKey& key) {
  const Extents of = extents_of(image, "cutout");
  if (size < 0 || size > (1 << 20)) {
    throw ValueError("[cutout] size is " + std::to_string(size) + "; give 0 to 2^20 pixels");
  }
  if (of.height == 0 || of.width == 0) return image;
  const std::int64_t pixel = of.channels * static_cast<std::int64_t>(size_of(image.type.dtype));
  const std::int64_t top = key.below(of.height, 0) - size / 2;
  const std::int64_t left = key.below(of.width, 1) - size / 2;
  const std::int64_t begin = std::clamp(left, std::int64_t{0}, of.width);
  const std::int64_t end = std::clamp(left + size, std::int64_t{0}, of.width);
  for (std::int64_t row = std::max(top, std::int64_t{0}); row < std::min(top + size, of.height); ++row) {
    std::byte* line = image.bytes.data() + row * of.width * pixel;
    std::fill(line + begin * pixel, line + end * pixel, std::byte{0});
  }
  return image;
}

namespace {

/// By channels of a number that the compiler knows, so that it can do several pixels at a time.
template <std::size_t channels, class T>
void normalize_channels(const T* from, std::size_t pixels, float unit, const std::vector<float>& mean,
                        const std::vector<float>& deviation, float* to) {
  float shift[channels], scale[channels];
  for (std::size_t c = 0; c < channels; ++c) {
    shift[c] = mean[c];
    scale[c] = 1.0F / deviation[c];
  }
  for (std::size_t i = 0; i < pixels; ++i) {
    for (std::size_t c = 0; c < channels; ++c) {
      to[i * channels + c] = (static_cast<float>(from[i * channels + c]) * unit - shift[c]) * scale[c];
    }
  }
}

}  // namespace

HostTable normalize(const HostTable& image, const std::vector<float>& mean, const std::vector<float>& deviation) {
  const Extents of = extents_of(image, "normalize");
  if (std::ssize(mean) != of.channels || std::ssize(deviation) != of.channels) {
    throw ShapeError("[normalize] " + std::to_string(mean.size()) + " means and " + std::to_string(deviation.size()) +
                     " deviations for " + to_string(image.type) + "; give one a channel");
  }
  for (std::size_t c = 0; c < deviation.size(); ++c) {
    if (deviation[c] != 0) continue;
    throw ValueError("[normalize] the deviation of channel " + std::to_string(c) + " is 0; divide by another number");
  }
  HostTable result{{DType::float32, image.type.shape, {}}, {}};
  result.bytes.resize(static_cast<std::size_t>(result.type.nbytes()));
  auto* to = reinterpret_cast<float*>(result.bytes.data());
  const auto pixels = static_cast<std::size_t>(of.height * of.width);
  const auto write = [&](const auto* from, float unit) {
    if (of.channels == 1) return normalize_channels<1>(from, pixels, unit, mean, deviation, to);
    if (of.channels == 3) return normalize_channels<3>(from, pixels, unit, mean, deviation, to);
    for (std::size_t i = 0; i < pixels; ++i) {
      for (std::size_t c = 0; c < mean.size(); ++c) {
        *to++ = (static_cast<float>(*from++) * unit - mean[c]) * (1.0F / deviation[c]);
      }
    }
  };
  if (image.type.dtype == DType::uint8) {
    write(reinterpret_cast<const std::uint8_t*>(image.bytes.data()), 1.0F / 255.0F);
  } else {
    write(reinterpret_cast<const float*>(image.bytes.data()), 1.0F);
  }
  return result;
}

namespace {

/// Where a line of `to` pixels reads one of `from` pixels: two neighbours and the weight of the second.
struct Tap {
  std::int64_t first = 0;
  std::int64_t second = 0;
  float weight = 0;
};

std::vector<Tap> taps_of(std::int64_t from, std::int64_t to) {
  std::vector<Tap> taps;
  for (std::int64_t i = 0; i < to; ++i) {
    const double at = (static_cast<double>(i) + 0.5) * static_cast<double>(from) / static_cast<double>(to) - 0.5;
    const double below = std::floor(at);
    const auto first = static_cast<std::int64_t>(below);
    taps.push_back({std::clamp(first, std::int64_t{0}, from - 1), std::clamp(first + 1, std::int64_t{0}, from - 1),
                    static_cast<float>(at - below)});
  }
  return taps;
}

template <class T>
void resample(const T* from, const Extents& size, const std::vector<Tap>& rows, const std::vector<Tap>& columns,
              T* to) {
  for (const Tap& row : rows) {
    const T* above = from + row.first * size.width * size.channels;
    const T* under = from + row.second * size.width * size.channels;
    for (const Tap& column : columns) {
      for (std::int64_t c = 0; c < size.channels; ++c) {
        const std::int64_t a = column.first * size.channels + c;
        const std::int64_t b = column.second * size.channels + c;
        const auto mixed = [&](const T* line) {
          return static_cast<float>(line[a]) * (1 - column.weight) + static_cast<float>(line[b]) * column.weight;
        };
        const float value = mixed(above) * (1 - row.weight) + mixed(under) * row.weight;
        *to++ = std::is_same_v<T, float> ? static_cast<T>(value) : static_cast<T>(std::lround(value));
      }
    }
  }
}

}  // namespace

HostTable resize(const HostTable& image, std::int64_t height, std::int64_t width) {
  const Extents from = extents_of(image, "resize");
  HostTable result = blank(image.type.dtype, {height, width, from.channels}, "resize");
  if (from.height == 0 || from.width == 0) {
    throw ShapeError("[resize] the image is " + to_string(image.type) + "; it has no pixel to read");
  }
  const std::vector<Tap> rows = taps_of(from.height, height);
  const std::vector<Tap> columns = taps_of(from.width, width);
  if (image.type.dtype == DType::uint8) {
    resample(reinterpret_cast<const std::uint8_t*>(image.bytes.data()), from, rows, columns,
             reinterpret_cast<std::uint8_t*>(result.bytes.data()));
  } else {
    resample(reinterpret_cast<const float*>(image.bytes.data()), from, rows, columns,
             reinterpret_cast<float*>(result.bytes.data()));
  }
  return result;
}

std::pair<HostTable, HostTable> limit_boxes(const HostTable& boxes, const HostTable& labels, std::int64_t most) {
  const std::string who = "limit_boxes";
  const Shape& shape = boxes.type.shape;
  if (shape.rank() != 2 || shape[1] != 4 || labels.type.shape != Shape{shape[0]}) {
    throw ShapeError("[" + who + "] boxes are " + to_string(boxes.type) + ", labels " + to_string(labels.type) +
                     "; expected [n, 4] and [n]");
  }
  const DType label = labels.type.dtype;
  if (boxes.type.dtype != DType::float32 || (label != DType::float32 && label != DType::int32)) {
    throw DtypeError("[" + who + "] boxes are " + to_string(boxes.type) + ", labels " + to_string(labels.type) +
                     "; expected float32, and int32 or float32");
  }
  if (most < 0 || most > (1 << 20)) {
    throw ValueError("[" + who + "] most is " + std::to_string(most) + "; give 0 to 2^20 boxes");
  }
  const auto limited = [&](const HostTable& table, Shape to, auto none) {
    std::vector<decltype(none)> values(static_cast<std::size_t>(ArrayType{table.type.dtype, to, {}}.size()), none);
    const auto given = elements<decltype(none)>(table);
    std::copy_n(given.begin(), std::min(values.size(), given.size()), values.begin());
    return host_table(values, to);
  };
  return {limited(boxes, {most, 4}, -1.0F),
          label == DType::int32 ? limited(labels, {most}, std::int32_t{-1}) : limited(labels, {most}, -1.0F)};
}

}  // namespace lockstep::data
