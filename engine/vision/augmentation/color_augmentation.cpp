#include <cmath>
#include <limits>
#include <string>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/vision/augmentation_colors.h>

#include "engine/vision/augmentation/draws.h"
#include "engine/vision/augmentation/pixel_colors.h"

namespace lockstep::data {
namespace {

constexpr double largest = std::numeric_limits<float>::max();

/// Read, changed by a function of pixels and written.
template <class F>
HostTable image_changed(const HostTable& image, const std::string& who, F change) {
  Pixels pixels = pixels_of(image, who);
  change(pixels);
  return image_of(pixels);
}

double as_scale(double s) { return s / (1 - s + 1e-7); }

double drawn_turn(const Range& factor, const RowKey& key) {
  return (key.uniform(1) > 0.5 ? -0.5 : 0.5) * drawn(factor, key);
}

void check_window(std::int64_t height, std::int64_t width, const std::string& who) {
  if (height > 0 && width > 0 && height % 2 == 1 && width % 2 == 1 && height < (1 << 16) && width < (1 << 16)) return;
  throw ValueError(fmt::format("[{}] the window is {} x {}; expected odd numbers of 1 to 65535", who, height, width));
}

}  // namespace

HostTable adjust_brightness(const HostTable& image, double delta) {
  check_between(delta, -1, 1, "adjust_brightness", "delta");
  return image_changed(image, "adjust_brightness", [&](Pixels& pixels) { brighten(pixels, delta); });
}

HostTable random_brightness(const HostTable& image, Range delta, const RowKey& key) {
  check_range(delta, -1, 1, "random_brightness", "delta");
  return image_changed(image, "random_brightness", [&](Pixels& pixels) { brighten(pixels, drawn(delta, key)); });
}

HostTable adjust_contrast(const HostTable& image, double factor) {
  check_between(factor, 0, largest, "adjust_contrast", "factor");
  return image_changed(image, "adjust_contrast", [&](Pixels& pixels) { stretch_contrast(pixels, factor); });
}

HostTable random_contrast(const HostTable& image, Range factor, const RowKey& key) {
  check_range(factor, 0, largest, "random_contrast", "factor");
  return image_changed(image, "random_contrast", [&](Pixels& pixels) { stretch_contrast(pixels, drawn(factor, key)); });
}

HostTable adjust_saturation(const HostTable& image, double factor) {
  check_between(factor, 0, largest, "adjust_saturation", "factor");
  return image_changed(image, "adjust_saturation", [&](Pixels& pixels) {
    check_colours(pixels, "adjust_saturation");
    scale_saturation(pixels, factor);
  });
}

HostTable random_saturation(const HostTable& image, Range s, const RowKey& key) {
  check_range(s, 0, 1, "random_saturation", "s");
  return image_changed(image, "random_saturation", [&](Pixels& pixels) {
    check_colours(pixels, "random_saturation");
    scale_saturation(pixels, as_scale(drawn(s, key)));
  });
}

HostTable adjust_hue(const HostTable& image, double turn) {
  check_between(turn, -1, 1, "adjust_hue", "turn");
  return image_changed(image, "adjust_hue", [&](Pixels& pixels) {
    check_colours(pixels, "adjust_hue");
    turn_hue(pixels, turn);
  });
}

HostTable random_hue(const HostTable& image, Range factor, const RowKey& key) {
  check_range(factor, 0, 1, "random_hue", "factor");
  return image_changed(image, "random_hue", [&](Pixels& pixels) {
    check_colours(pixels, "random_hue");
    turn_hue(pixels, drawn_turn(factor, key));
  });
}

HostTable fade_colors(const HostTable& image, double share) {
  check_between(share, 0, 1, "fade_colors", "share");
  return image_changed(image, "fade_colors", [&](Pixels& pixels) {
    check_colours(pixels, "fade_colors", true);
    fade(pixels, share);
  });
}

HostTable random_color_degeneration(const HostTable& image, Range share, const RowKey& key) {
  check_range(share, 0, 1, "random_color_degeneration", "share");
  return image_changed(image, "random_color_degeneration", [&](Pixels& pixels) {
    check_colours(pixels, "random_color_degeneration", true);
    fade(pixels, drawn(share, key));
  });
}

HostTable random_grayscale(const HostTable& image, const RowKey& key, double p) {
  const bool is_grey = happens(p, "random_grayscale", key);
  return image_changed(image, "random_grayscale", [&](Pixels& pixels) {
    check_colours(pixels, "random_grayscale", true);
    if (is_grey) fade(pixels, 1);
  });
}

HostTable random_color_jitter(const HostTable& image, const ColorJitter& jitter, const RowKey& key) {
  const std::string who = "random_color_jitter";
  check_range(jitter.brightness, -1, 1, who, "brightness");
  check_range(jitter.contrast, 0, largest, who, "contrast");
  check_range(jitter.saturation, 0, 1, who, "saturation");
  check_range(jitter.hue, 0, 1, who, "hue");
  return image_changed(image, who, [&](Pixels& pixels) {
    check_colours(pixels, who, true);
    if (const double by = drawn(jitter.brightness, key.fold_in(0)); by != 0) brighten(pixels, by);
    if (const double by = drawn(jitter.contrast, key.fold_in(1)); by != 1) stretch_contrast(pixels, by);
    if (pixels.extents.channels == 1) return;
    if (const double by = drawn(jitter.saturation, key.fold_in(2)); by != 0.5) scale_saturation(pixels, as_scale(by));
    if (const double by = drawn_turn(jitter.hue, key.fold_in(3)); by != 0) turn_hue(pixels, by);
  });
}

HostTable invert(const HostTable& image) { return image_changed(image, "invert", invert_values); }

HostTable random_invert(const HostTable& image, const RowKey& key, double p) {
  const bool is_inverted = happens(p, "random_invert", key);
  return image_changed(image, "random_invert", [&](Pixels& pixels) {
    if (is_inverted) invert_values(pixels);
  });
}

HostTable posterize(const HostTable& image, int bits) {
  check_between(bits, 1, 8, "posterize", "bits");
  return image_changed(image, "posterize", [&](Pixels& pixels) { keep_bits(pixels, bits); });
}

HostTable random_posterization(const HostTable& image, int least, int most, const RowKey& key) {
  check_between(least, 1, 8, "random_posterization", "least");
  check_between(most, least, 8, "random_posterization", "most");
  const auto bits = least + static_cast<int>(key.below(most - least + 1));
  return image_changed(image, "random_posterization", [&](Pixels& pixels) { keep_bits(pixels, bits); });
}

HostTable solarize(const HostTable& image, double threshold, double addition) {
  check_between(threshold, 0, 1, "solarize", "threshold");
  check_between(addition, 0, 1, "solarize", "addition");
  return image_changed(image, "solarize", [&](Pixels& pixels) { solarize_values(pixels, threshold, addition); });
}

HostTable random_solarization(const HostTable& image, Range threshold, Range addition, const RowKey& key) {
  check_range(threshold, 0, 1, "random_solarization", "threshold");
  check_range(addition, 0, 1, "random_solarization", "addition");
  return image_changed(image, "random_solarization", [&](Pixels& pixels) {
    solarize_values(pixels, drawn(threshold, key, 0), drawn(addition, key, 1));
  });
}

HostTable auto_contrast(const HostTable& image) { return image_changed(image, "auto_contrast", stretch_channels); }

HostTable equalize(const HostTable& image, int bins) {
  check_between(bins, 2, 1 << 16, "equalize", "bins");
  return image_changed(image, "equalize", [&](Pixels& pixels) { equalize_channels(pixels, bins); });
}

HostTable equalize_adaptively(const HostTable& image, const AdaptiveEqualization& options) {
  const std::string who = "equalize_adaptively";
  check_between(static_cast<double>(options.rows), 1, 1 << 10, who, "rows");
  check_between(static_cast<double>(options.columns), 1, 1 << 10, who, "columns");
  check_between(options.clip_limit, 0, largest, who, "clip_limit");
  return image_changed(image, who, [&](Pixels& pixels) { equalize_tiles(pixels, options); });
}

HostTable adjust_sharpness(const HostTable& image, double factor) {
  check_between(factor, 0, largest, "adjust_sharpness", "factor");
  return image_changed(image, "adjust_sharpness", [&](Pixels& pixels) { sharpen(pixels, factor); });
}

HostTable random_sharpness(const HostTable& image, Range factor, const RowKey& key) {
  check_range(factor, 0, 1, "random_sharpness", "factor");
  return image_changed(image, "random_sharpness", [&](Pixels& pixels) { sharpen(pixels, 2 * drawn(factor, key)); });
}

HostTable gaussian_blur(const HostTable& image, const BlurWindow& window) {
  check_window(window.height, window.width, "gaussian_blur");
  check_between(window.vertical, 1e-6, largest, "gaussian_blur", "the vertical deviation");
  check_between(window.horizontal, 1e-6, largest, "gaussian_blur", "the horizontal deviation");
  return image_changed(image, "gaussian_blur", [&](Pixels& pixels) { blur(pixels, window); });
}

HostTable random_gaussian_blur(const HostTable& image, std::int64_t height, std::int64_t width, Range deviation,
                               const RowKey& key, double p) {
  check_window(height, width, "random_gaussian_blur");
  check_range(deviation, 0, largest, "random_gaussian_blur", "the deviation");
  const bool is_blurred = happens(p, "random_gaussian_blur", key, 2);
  return image_changed(image, "random_gaussian_blur", [&](Pixels& pixels) {
    if (!is_blurred) return;
    blur(pixels, {height, width, drawn(deviation, key, 0) + 1e-6, drawn(deviation, key, 1) + 1e-6});
    hold_to_range(pixels);
  });
}

}  // namespace lockstep::data
