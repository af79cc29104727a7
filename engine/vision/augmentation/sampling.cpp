#include "engine/vision/augmentation/sampling.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include <fmt/format.h>

#include <lockstep/error.h>

namespace lockstep::data {
namespace {

using image::Outside;

/// The element that stands at a place; nothing where the fill does.
std::optional<std::int64_t> element_at(double place, std::int64_t size, Outside outside) {
  constexpr double far = 1e15;  // beyond it there is no next whole number for certain
  if (!(std::abs(place) < far)) return std::nullopt;
  const auto index = static_cast<std::int64_t>(place);
  const auto modulo = [&](std::int64_t n) { return ((index % n) + n) % n; };
  switch (outside) {
    case Outside::nearest:
      return std::clamp(index, std::int64_t{0}, size - 1);
    case Outside::wrap:
      return modulo(size);
    case Outside::mirror: {
      if (size == 1) return 0;
      const std::int64_t there = modulo(2 * size - 2);
      return there < size ? there : 2 * size - 2 - there;
    }
    case Outside::reflect: {
      const std::int64_t there = modulo(2 * size);
      return there < size ? there : 2 * size - 1 - there;
    }
    case Outside::constant:
      break;
  }
  return index < 0 || index >= size ? std::nullopt : std::optional(index);
}

/// A neighbour along one dimension, and its share.
struct PixelNeighbour {
  std::optional<std::int64_t> element;
  float share = 0;
};

struct PixelNeighbours {
  std::array<PixelNeighbour, 2> both;
  std::size_t count = 0;
};

PixelNeighbours neighbours_around(double place, std::int64_t size, const Resampling& how) {
  if (how.order == 0) return {{{{element_at(std::round(place), size, how.outside), 1.0F}}}, 1};
  // The vanishing line of a projection lies nowhere in the image.
  if (!std::isfinite(place)) return {{{{std::nullopt, 1.0F}}}, 1};
  const double low = std::floor(place);
  const auto share = static_cast<float>(place - low);
  return {{{{element_at(low, size, how.outside), 1 - share}, {element_at(low + 1, size, how.outside), share}}}, 2};
}

}  // namespace

void check_resampling(const Pixels& pixels, const Resampling& how, const std::string& who) {
  if (how.order != 0 && how.order != 1) {
    throw ValueError(fmt::format("[{}] order is {}; expected 0 (the nearest pixel) or 1 (linear)", who, how.order));
  }
  if (pixels.values.empty()) {
    throw ShapeError(fmt::format("[{}] the image is {} x {} with {} channels; it has no pixel to read", who,
                                 pixels.extents.height, pixels.extents.width, pixels.extents.channels));
  }
}

Pixels sampled(const Pixels& pixels, const Resampling& how,
               const std::function<Point(std::int64_t, std::int64_t)>& place) {
  Pixels result = pixels;
  const auto [height, width, channels] = pixels.extents;
  float* to = result.values.data();
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x, to += channels) {
      const Point from = place(x, y);
      const PixelNeighbours rows = neighbours_around(from.y, height, how),
                            columns = neighbours_around(from.x, width, how);
      std::fill(to, to + channels, 0.0F);
      for (std::size_t r = 0; r < rows.count; ++r) {
        for (std::size_t c = 0; c < columns.count; ++c) {
          const PixelNeighbour &row = rows.both[r], &column = columns.both[c];
          const float share = row.share * column.share;
          const bool is_inside = row.element && column.element;
          const float* pixel = is_inside ? &pixels.values[pixels.at(*row.element, *column.element, 0)] : nullptr;
          for (std::int64_t k = 0; k < channels; ++k) {
            to[k] += share * (is_inside ? pixel[k] : static_cast<float>(how.fill));
          }
        }
      }
    }
  }
  return result;
}

Pixels affinely(const Pixels& pixels, const Affine& m, const Resampling& how) {
  return sampled(pixels, how, [&](std::int64_t column, std::int64_t row) {
    const auto x = static_cast<double>(column), y = static_cast<double>(row);
    return Point{m[0] * x + m[1] * y + m[2], m[3] * x + m[4] * y + m[5]};
  });
}

Affine rotation(const Extents& extents, double turn) {
  const double angle = 2 * std::numbers::pi * turn, cosine = std::cos(angle), sine = std::sin(angle);
  const double x = static_cast<double>(extents.width - 1) / 2, y = static_cast<double>(extents.height - 1) / 2;
  return {cosine, -sine, x - x * cosine + y * sine, sine, cosine, y - x * sine - y * cosine};
}

Affine zooming(const Extents& extents, double height, double width) {
  const double x = static_cast<double>(extents.width - 1) / 2, y = static_cast<double>(extents.height - 1) / 2;
  return {width, 0, x * (1 - width), 0, height, y * (1 - height)};
}

Affine shearing(double horizontal, double vertical) { return {1, horizontal, 0, vertical, 1, 0}; }

Affine translation(const Extents& extents, double height, double width) {
  return {1, 0, -width * static_cast<double>(extents.width), 0, 1, -height * static_cast<double>(extents.height)};
}

}  // namespace lockstep::data
