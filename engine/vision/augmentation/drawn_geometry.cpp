#include "engine/vision/augmentation/drawn_geometry.h"

#include <string>

#include <lockstep/error.h>

#include "engine/vision/augmentation/draws.h"

namespace lockstep::data {
Corner drawn_window(const Extents& of, std::int64_t height, std::int64_t width, std::int64_t padding,
                    const RowKey& key) {
  constexpr std::int64_t most = 1 << 20;
  if (padding < 0 || padding > most || height < 1 || width < 1 || height > of.height + 2 * padding ||
      width > of.width + 2 * padding) {
    throw ValueError("[random_crop] a window of " + std::to_string(height) + " x " + std::to_string(width) +
                     " of an image of " + std::to_string(of.height) + " x " + std::to_string(of.width) +
                     " with padding " + std::to_string(padding) + "; it must fit in");
  }
  return {key.below(of.height + 2 * padding - height + 1, 0) - padding,
          key.below(of.width + 2 * padding - width + 1, 1) - padding};
}

Corner drawn_shift(std::int64_t most, const RowKey& key) {
  if (most < 0 || most > (1 << 20)) {
    throw ValueError("[random_shift] most is " + std::to_string(most) + "; give 0 to 2^20 pixels");
  }
  return {key.below(2 * most + 1, 0) - most, key.below(2 * most + 1, 1) - most};
}

Affine drawn_rotation(const Extents& of, Range turn, const RowKey& key) {
  check_range(turn, -1, 1, "random_rotation", "turn");
  return rotation(of, drawn(turn, key));
}

Affine drawn_zoom(const Extents& of, Range height, std::optional<Range> width, const RowKey& key) {
  check_range(height, -1, 1, "random_zoom", "height");
  if (width) check_range(*width, -1, 1, "random_zoom", "width");
  const double tall = 1 + drawn(height, key, 0), wide = width ? 1 + drawn(*width, key, 1) : tall;
  return zooming(of, tall, wide);
}

Affine drawn_shear(Range horizontal, Range vertical, const RowKey& key) {
  check_range(horizontal, -1, 1, "random_shear", "horizontal");
  check_range(vertical, -1, 1, "random_shear", "vertical");
  const double side = key.uniform(0) > 0.5 ? -1 : 1;
  return shearing(side * drawn(horizontal, key, 1), side * drawn(vertical, key, 2));
}

Affine drawn_translation(const Extents& of, Range height, Range width, const RowKey& key) {
  check_range(height, -1, 1, "random_translation", "height");
  check_range(width, -1, 1, "random_translation", "width");
  return translation(of, drawn(height, key, 0), drawn(width, key, 1));
}

Affine checked_affine(const Affine& m) {
  for (const double number : m) check_between(number, -farthest, farthest, "affine_transform", "a number of m");
  return m;
}

Affine checked_rotation(const Extents& of, double turn) {
  check_between(turn, -farthest, farthest, "rotate", "turn");
  return rotation(of, turn);
}

Affine checked_zoom(const Extents& of, double height, double width) {
  check_between(height, 1 / farthest, farthest, "zoom", "height");
  check_between(width, 1 / farthest, farthest, "zoom", "width");
  return zooming(of, height, width);
}

Affine checked_shear(double horizontal, double vertical) {
  check_between(horizontal, -farthest, farthest, "shear", "horizontal");
  check_between(vertical, -farthest, farthest, "shear", "vertical");
  return shearing(horizontal, vertical);
}

}  // namespace lockstep::data
