#include "engine/vision/augmentation/pixels.h"

#include <algorithm>
#include <cmath>

#include <lockstep/error.h>

namespace lockstep::data {

Extents extents_of(const HostTable& image, std::string_view who) {
  const Shape& shape = image.type.shape;
  if (shape.rank() != 3) {
    throw ShapeError("[" + std::string(who) + "] the image is " + to_string(image.type) +
                     "; expected [height, width, channels]");
  }
  if (image.type.dtype != DType::uint8 && image.type.dtype != DType::float32) {
    throw DtypeError("[" + std::string(who) + "] the image is " + to_string(image.type) +
                     "; expected uint8 or float32");
  }
  if (std::ssize(image.bytes) != image.type.nbytes()) {
    throw ShapeError("[" + std::string(who) + "] the image is " + to_string(image.type) + " with " +
                     std::to_string(image.bytes.size()) + " bytes; give it the bytes of all its elements");
  }
  return {shape[0], shape[1], shape[2]};
}

HostTable blank(DType dtype, const Extents& extents, std::string_view who) {
  if (extents.height < 1 || extents.width < 1 || extents.height > (1 << 20) || extents.width > (1 << 20)) {
    throw ValueError("[" + std::string(who) + "] an image of " + std::to_string(extents.height) + " x " +
                     std::to_string(extents.width) + "; extents are 1 to 2^20");
  }
  HostTable image{{dtype, {extents.height, extents.width, extents.channels}, {}}, {}};
  image.bytes.resize(static_cast<std::size_t>(image.type.nbytes()));
  return image;
}

Pixels pixels_of(const HostTable& image, const std::string& who) {
  Pixels pixels{extents_of(image, who), image.type.dtype, 255, {}};
  const auto count = static_cast<std::size_t>(image.type.size());
  if (image.type.dtype == DType::uint8) {
    const auto* from = reinterpret_cast<const std::uint8_t*>(image.bytes.data());
    pixels.values.assign(from, from + count);
  } else {
    const auto* from = reinterpret_cast<const float*>(image.bytes.data());
    pixels.top = 1;
    pixels.values.assign(from, from + count);
  }
  return pixels;
}

HostTable image_of(const Pixels& pixels) {
  const Extents& size = pixels.extents;
  HostTable image{{pixels.dtype, {size.height, size.width, size.channels}, {}}, {}};
  image.bytes.resize(static_cast<std::size_t>(image.type.nbytes()));
  if (pixels.dtype == DType::float32) {
    std::copy(pixels.values.begin(), pixels.values.end(), reinterpret_cast<float*>(image.bytes.data()));
    return image;
  }
  auto* to = reinterpret_cast<std::uint8_t*>(image.bytes.data());
  for (const float value : pixels.values) {
    // What is no number, which only an operation that overflows makes of bytes, is black.
    *to++ = value > 0 ? static_cast<std::uint8_t>(std::lround(std::min(value, 255.0F))) : std::uint8_t{0};
  }
  return image;
}

void check_colours(const Pixels& pixels, const std::string& who, bool grey) {
  const std::int64_t channels = pixels.extents.channels;
  if (channels == 3 || (grey && channels == 1)) return;
  throw ShapeError("[" + who + "] the image has " + std::to_string(channels) +
                   " channels; expected 3 (red, green, blue)" + (grey ? " or 1" : ""));
}

}  // namespace lockstep::data
