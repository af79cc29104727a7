#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "engine/vision/augmentation/pixel_colors.h"

namespace lockstep::data {
namespace {

constexpr std::size_t levels = 256;

/// The level of a value in parts of 255, of so many levels; that of what is no number is 0.
std::size_t level_of(float value, std::size_t count) {
  const auto last = static_cast<float>(count - 1);
  const float scaled = value * last / 255;
  return scaled > 0 ? static_cast<std::size_t>(std::min(scaled, last)) : 0;
}

/// By level, what stands for it; nothing where all values are of one level.
std::vector<float> equalizing(const std::vector<std::int64_t>& histogram) {
  std::int64_t total = 0, first = 0;
  for (const std::int64_t count : histogram) {
    if (first == 0) first = count;
    total += count;
  }
  if (total == first) return {};
  std::vector<float> replaced;
  std::int64_t below = 0;
  for (const std::int64_t count : histogram) {
    below += count;
    const double part = static_cast<double>(std::max<std::int64_t>(below - first, 0)) * 255;
    replaced.push_back(static_cast<float>(std::nearbyint(part / static_cast<double>(total - first))));
  }
  return replaced;
}

}  // namespace

void stretch_channels(Pixels& pixels) {
  const auto channels = static_cast<std::size_t>(pixels.extents.channels);
  for (std::size_t c = 0; c < channels; ++c) {
    float low = 0, high = 0;
    bool any = false, is_number = true;
    for (std::size_t i = c; i < pixels.values.size(); i += channels) {
      const float value = pixels.values[i];
      low = any ? std::min(low, value) : value;
      high = any ? std::max(high, value) : value;
      is_number = is_number && std::isfinite(value);
      any = true;
    }
    if (!is_number || !(high > low)) continue;
    const float scale = pixels.top / (high - low), offset = -low * scale;
    for (std::size_t i = c; i < pixels.values.size(); i += channels) {
      pixels.values[i] = std::clamp(pixels.values[i] * scale + offset, 0.0F, pixels.top);
    }
  }
}

void equalize_channels(Pixels& pixels, int bins) {
  const auto channels = static_cast<std::size_t>(pixels.extents.channels), count = static_cast<std::size_t>(bins);
  for (std::size_t c = 0; c < channels; ++c) {
    std::vector<std::int64_t> histogram(count, 0);
    const auto level = [&](float value) { return level_of(value / pixels.top * 255, count); };
    for (std::size_t i = c; i < pixels.values.size(); i += channels) {
      if (!std::isnan(pixels.values[i])) ++histogram[level(pixels.values[i])];
    }
    const std::vector<float> replaced = equalizing(histogram);
    for (std::size_t i = c; !replaced.empty() && i < pixels.values.size(); i += channels) {
      float& value = pixels.values[i];
      if (!std::isnan(value)) value = replaced[level(value)] / 255 * pixels.top;
    }
  }
}

// ---- by tiles

namespace {

/// Mirrored with the edge repeated, as often as it takes.
std::int64_t mirrored_index(std::int64_t index, std::int64_t size) {
  const std::int64_t place = index % (2 * size);
  return place < size ? place : 2 * size - 1 - place;
}

/// Tiles along one dimension.
struct Cut {
  std::int64_t tiles = 0;
  std::int64_t length = 0;  ///< Of a tile, the last of which may reach beyond the image.
  /// The two tiles whose middles an element lies between, and the share of the second one.
  struct Between {
    std::int64_t first = 0, second = 0;
    float share = 0;
  };
  Between between(std::int64_t i) const {
    const float size = static_cast<float>(length);
    const float place = (static_cast<float>(i) - size / 2) / size;
    const float below = std::floor(place);
    const auto first = static_cast<std::int64_t>(below);
    return {std::clamp(first, std::int64_t{0}, tiles - 1), std::clamp(first + 1, std::int64_t{0}, tiles - 1),
            place - below};
  }
};

std::size_t level_at(const Pixels& pixels, std::int64_t y, std::int64_t x, std::int64_t c) {
  return level_of(pixels.values[pixels.at(y, x, c)] / pixels.top * 255, levels);
}

/// By level, what stands for it in one tile.
std::vector<float> of_tile(const Pixels& pixels, const Cut& rows, const Cut& columns, std::int64_t row,
                           std::int64_t column, std::int64_t c, double clip_limit) {
  std::vector<float> counts(levels, 0.0F);
  const std::int64_t top = row * rows.length, left = column * columns.length;
  for (std::int64_t y = top; y < top + rows.length; ++y) {
    for (std::int64_t x = left; x < left + columns.length; ++x) {
      ++counts[level_at(pixels, mirrored_index(y, pixels.extents.height), mirrored_index(x, pixels.extents.width), c)];
    }
  }
  const auto size = static_cast<float>(rows.length * columns.length);
  if (clip_limit > 0) {
    const float limit = static_cast<float>(clip_limit) * size / levels;
    float excess = 0;
    for (float& count : counts) {
      excess += std::max(count - limit, 0.0F);
      count = std::min(count, limit);
    }
    for (float& count : counts) count += excess / levels;
  }
  float below = 0;
  const float first = counts[0], others = size - first == 0 ? 1 : size - first;
  for (float& count : counts) {
    below += count;
    count = std::clamp((below - first) * 255 / others, 0.0F, 255.0F);
  }
  return counts;
}

}  // namespace

void equalize_tiles(Pixels& pixels, const AdaptiveEqualization& options) {
  const auto [height, width, channels] = pixels.extents;
  if (pixels.values.empty()) return;
  const Cut rows{options.rows, (height + options.rows - 1) / options.rows};
  const Cut columns{options.columns, (width + options.columns - 1) / options.columns};
  Pixels result = pixels;
  for (std::int64_t c = 0; c < channels; ++c) {
    std::vector<std::vector<float>> replaced;
    for (std::int64_t row = 0; row < rows.tiles; ++row) {
      for (std::int64_t column = 0; column < columns.tiles; ++column) {
        replaced.push_back(of_tile(pixels, rows, columns, row, column, c, options.clip_limit));
      }
    }
    for (std::int64_t y = 0; y < height; ++y) {
      const Cut::Between v = rows.between(y);
      for (std::int64_t x = 0; x < width; ++x) {
        float& value = result.values[result.at(y, x, c)];
        if (std::isnan(value)) continue;
        const Cut::Between u = columns.between(x);
        const std::size_t level = level_at(pixels, y, x, c);
        const auto of = [&](std::int64_t row, std::int64_t column) {
          return replaced[static_cast<std::size_t>(row * columns.tiles + column)][level];
        };
        const float above = of(v.first, u.first) * (1 - u.share) + of(v.first, u.second) * u.share;
        const float under = of(v.second, u.first) * (1 - u.share) + of(v.second, u.second) * u.share;
        value = (above * (1 - v.share) + under * v.share) / 255 * pixels.top;
      }
    }
  }
  pixels = std::move(result);
}

}  // namespace lockstep::data
