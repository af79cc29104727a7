#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include <lockstep/vision/augmentation_geometry.h>

#include "engine/vision/augmentation/pixels.h"

// Pixels read at other places.
namespace lockstep::data {

/// Throws ValueError for another order, ShapeError for an image without pixels.
void check_resampling(const Pixels& pixels, const Resampling& how, const std::string& who);

struct Point {
  double x = 0;
  double y = 0;
};
/// Each pixel is the one at the place that the function gives for it.
Pixels sampled(const Pixels& pixels, const Resampling& how,
               const std::function<Point(std::int64_t x, std::int64_t y)>& place);

using Affine = std::array<double, 6>;
Pixels affinely(const Pixels& pixels, const Affine& m, const Resampling& how);
Affine rotation(const Extents& extents, double turn);
Affine zooming(const Extents& extents, double height, double width);
Affine shearing(double horizontal, double vertical);
Affine translation(const Extents& extents, double height, double width);

}  // namespace lockstep::data
