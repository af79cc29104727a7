#pragma once

#include <cstdint>
#include <optional>

#include <lockstep/vision/augmentation_colors.h>

#include "engine/vision/augmentation/pixels.h"
#include "engine/vision/augmentation/sampling.h"

// What geometric augmentations draw: once for an image, its masks and its boxes. All throw ValueError for ranges outside
// of what the augmentation says.
namespace lockstep::data {

/// No given number is beyond it on either side.
inline constexpr double farthest = 1e6;

/// Where the window of random_crop or random_shift begins.
struct Corner {
  std::int64_t top = 0;
  std::int64_t left = 0;
};
Corner drawn_window(const Extents& of, std::int64_t height, std::int64_t width, std::int64_t padding,
                    const RowKey& key);
Corner drawn_shift(std::int64_t most, const RowKey& key);

// The places of the image that random_rotation and the others read.
Affine drawn_rotation(const Extents& of, Range turn, const RowKey& key);
Affine drawn_zoom(const Extents& of, Range height, std::optional<Range> width, const RowKey& key);
Affine drawn_shear(Range horizontal, Range vertical, const RowKey& key);
Affine drawn_translation(const Extents& of, Range height, Range width, const RowKey& key);

// Numbers that are given. Throw ValueError for those that no image can be moved by.
Affine checked_affine(const Affine& m);
Affine checked_rotation(const Extents& of, double turn);
Affine checked_zoom(const Extents& of, double height, double width);
Affine checked_shear(double horizontal, double vertical);

}  // namespace lockstep::data
