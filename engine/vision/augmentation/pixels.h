#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/batches.h>

// Images as the augmentations compute them.
namespace lockstep::data {

struct Extents {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 0;
};

/// Throws ShapeError unless it is [height, width, channels] with all its bytes, DtypeError unless it is uint8 or float32.
Extents extents_of(const HostTable& image, std::string_view who);

/// Zeros of this dtype. Throws ValueError for extents below 1, or that no memory holds.
HostTable blank(DType dtype, const Extents& extents, std::string_view who);

/// An image as float32, row-major, channels last. White is `top`: 255 of uint8, 1 of float32.
struct Pixels {
  Extents extents;
  DType dtype = DType::uint8;
  float top = 255;
  std::vector<float> values;

  std::size_t at(std::int64_t y, std::int64_t x, std::int64_t c) const {
    return static_cast<std::size_t>((y * extents.width + x) * extents.channels + c);
  }
};
/// Throws as extents_of does.
Pixels pixels_of(const HostTable& image, const std::string& who);
/// In the dtype that it came in; of uint8 rounded, and held to 0 to 255.
HostTable image_of(const Pixels& pixels);

/// Throws ShapeError unless the image has three channels, or, where grey ones are allowed, one.
void check_colours(const Pixels& pixels, const std::string& who, bool grey = false);

}  // namespace lockstep::data
