#pragma once

#include <string_view>
#include <vector>

#include <lockstep/vision/image.h>

namespace lockstep::image {

/// x at coordinates of its first dimensions, one array for each, of one shape; the others stay. With `batched`, dimension
/// 0 of x is that of the coordinates: [N, extents..., others...] at [N, places...] gives [N, places..., others...]. In
/// the dtype of x, integers rounded. Throws ValueError for another order, ShapeError for coordinates that do not fit.
Array samples(std::string_view op, const Array& x, const std::vector<Array>& coordinates, bool batched,
              const MapOptions& options);

}  // namespace lockstep::image
