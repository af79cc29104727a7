#include "engine/vision/augmentation/pixel_colors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace lockstep::data {
namespace {

using Color = std::array<float, 3>;

/// Hue, saturation and value of red, green and blue of 0 to 1. NaN stays where it is.
Color hsv_of(Color rgb) {
  for (float& value : rgb) {
    if (std::abs(value) < std::numeric_limits<float>::epsilon()) value = 0;
  }
  const auto [r, g, b] = rgb;
  const float value = std::max({r, g, b}), range = value - std::min({r, g, b});
  const float norm = 1 / (6 * (range > 0 ? range : 1));
  float hue = value == g ? norm * (b - r) + 2.0F / 6 : norm * (r - g) + 4.0F / 6;
  if (value == r) hue = norm * (g - b);
  const float up = hue < 0 ? 1 : 0;
  return {(range > 0 ? hue : 0) + up, value > 0 ? range / value : 0, value};
}

Color rgb_of(const Color& hsv) {
  const auto [hue, saturation, value] = hsv;
  const float six = (hue - std::floor(hue)) * 6;
  const auto share = [](float x) { return std::clamp(x, 0.0F, 1.0F); };
  const Color full = {share(std::abs(six - 3) - 1), share(2 - std::abs(six - 2)), share(2 - std::abs(six - 4))};
  Color rgb;
  for (std::size_t c = 0; c < 3; ++c) rgb[c] = value * (1 - saturation + saturation * full[c]);
  return rgb;
}

/// Each pixel of three channels through a function of its hue, saturation and value.
template <class F>
void change_hsv(Pixels& pixels, F change) {
  for (std::size_t i = 0; i + 3 <= pixels.values.size(); i += 3) {
    float* pixel = &pixels.values[i];
    if (std::isnan(pixel[0] + pixel[1] + pixel[2])) {
      std::fill(pixel, pixel + 3, std::numeric_limits<float>::quiet_NaN());
      continue;
    }
    Color hsv = hsv_of({pixel[0] / pixels.top, pixel[1] / pixels.top, pixel[2] / pixels.top});
    change(hsv);
    const Color rgb = rgb_of(hsv);
    for (std::size_t c = 0; c < 3; ++c) pixel[c] = std::clamp(rgb[c], 0.0F, 1.0F) * pixels.top;
  }
}

}  // namespace

void hold_to_range(Pixels& pixels) {
  for (float& value : pixels.values) value = std::clamp(value, 0.0F, pixels.top);
}

void brighten(Pixels& pixels, double delta) {
  const float step = static_cast<float>(delta) * pixels.top;
  for (float& value : pixels.values) value += step;
  hold_to_range(pixels);
}

void stretch_contrast(Pixels& pixels, double factor) {
  const auto channels = static_cast<std::size_t>(pixels.extents.channels);
  const auto by = static_cast<float>(factor);
  for (std::size_t c = 0; c < channels; ++c) {
    double sum = 0;
    for (std::size_t i = c; i < pixels.values.size(); i += channels) sum += pixels.values[i];
    const auto mean =
        static_cast<float>(sum * static_cast<double>(channels) / static_cast<double>(pixels.values.size()));
    for (std::size_t i = c; i < pixels.values.size(); i += channels) {
      pixels.values[i] = (pixels.values[i] - mean) * by + mean;
    }
  }
  hold_to_range(pixels);
}

void turn_hue(Pixels& pixels, double turn) {
  const auto by = static_cast<float>(turn);
  change_hsv(pixels, [&](Color& hsv) { hsv[0] += by; });
}

void scale_saturation(Pixels& pixels, double factor) {
  const auto by = static_cast<float>(factor);
  change_hsv(pixels, [&](Color& hsv) { hsv[1] = std::min(hsv[1] * by, 1.0F); });
}

void fade(Pixels& pixels, double share) {
  const auto by = static_cast<float>(share);
  if (pixels.extents.channels == 3) {
    for (std::size_t i = 0; i + 3 <= pixels.values.size(); i += 3) {
      float* pixel = &pixels.values[i];
      const float grey = 0.2989F * pixel[0] + 0.5870F * pixel[1] + 0.1140F * pixel[2];
      for (std::size_t c = 0; c < 3; ++c) pixel[c] += by * (grey - pixel[c]);
    }
  }
  hold_to_range(pixels);
}

void invert_values(Pixels& pixels) {
  for (float& value : pixels.values) value = pixels.top - value;
}

void keep_bits(Pixels& pixels, int bits) {
  const unsigned mask = 0xFFU << (8 - bits);
  for (float& value : pixels.values) {
    if (std::isnan(value)) continue;
    const auto byte = static_cast<unsigned>(std::clamp(value / pixels.top * 255, 0.0F, 255.0F));
    value = static_cast<float>(byte & mask) / 255 * pixels.top;
  }
}

void solarize_values(Pixels& pixels, double threshold, double addition) {
  const float step = static_cast<float>(addition) * 255, least = static_cast<float>(threshold) * 255;
  for (float& value : pixels.values) {
    const float moved = std::clamp(value / pixels.top * 255 + step, 0.0F, 255.0F);
    value = (moved < least ? moved : 255 - moved) / 255 * pixels.top;
  }
}

void sharpen(Pixels& pixels, double factor) {
  const auto [height, width, channels] = pixels.extents;
  const std::vector<float> from = pixels.values;
  constexpr float edge = 1.0F / 13, middle = 5.0F / 13;
  const auto by = static_cast<float>(1 - factor);
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      for (std::int64_t c = 0; c < channels; ++c) {
        float smooth = 0;
        for (std::int64_t v = std::max<std::int64_t>(y - 1, 0); v <= std::min(y + 1, height - 1); ++v) {
          for (std::int64_t u = std::max<std::int64_t>(x - 1, 0); u <= std::min(x + 1, width - 1); ++u) {
            smooth += (v == y && u == x ? middle : edge) * from[pixels.at(v, u, c)];
          }
        }
        float& value = pixels.values[pixels.at(y, x, c)];
        value += by * (smooth - value);
      }
    }
  }
  hold_to_range(pixels);
}

namespace {

std::vector<float> gaussian_weights(std::int64_t size, double deviation) {
  std::vector<float> kernel;
  double sum = 0;
  for (std::int64_t i = 0; i < size; ++i) {
    const double x = (static_cast<double>(i) - static_cast<double>(size - 1) / 2) / deviation;
    sum += std::exp(-0.5 * x * x);
  }
  for (std::int64_t i = 0; i < size; ++i) {
    const double x = (static_cast<double>(i) - static_cast<double>(size - 1) / 2) / deviation;
    kernel.push_back(static_cast<float>(std::exp(-0.5 * x * x) / sum));
  }
  return kernel;
}

/// Lines of `count` elements, `stride` apart, that begin at each of the elements in between.
void convolve_lines(Pixels& pixels, std::int64_t count, std::int64_t stride, const std::vector<float>& kernel) {
  const std::int64_t half = std::ssize(kernel) / 2, block = count * stride;
  std::vector<float> line(static_cast<std::size_t>(count));
  for (std::int64_t first = 0; block > 0 && first < std::ssize(pixels.values); first += block) {
    for (std::int64_t start = first; start < first + stride; ++start) {
      for (std::int64_t i = 0; i < count; ++i) {
        line[static_cast<std::size_t>(i)] = pixels.values[static_cast<std::size_t>(start + i * stride)];
      }
      for (std::int64_t i = 0; i < count; ++i) {
        float sum = 0;
        for (std::int64_t k = std::max<std::int64_t>(half - i, 0); k < std::ssize(kernel) && i + k - half < count;
             ++k) {
          sum += kernel[static_cast<std::size_t>(k)] * line[static_cast<std::size_t>(i + k - half)];
        }
        pixels.values[static_cast<std::size_t>(start + i * stride)] = sum;
      }
    }
  }
}

}  // namespace

void blur(Pixels& pixels, const BlurWindow& window) {
  const auto [height, width, channels] = pixels.extents;
  convolve_lines(pixels, height, width * channels, gaussian_weights(window.height, window.vertical));
  convolve_lines(pixels, width, channels, gaussian_weights(window.width, window.horizontal));
}

}  // namespace lockstep::data
