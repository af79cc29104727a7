#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/vision/augmentation/pixels.h"

namespace lockstep::data {

/// The bytes of a file of uint8 pixels, with one or three channels. Throw DataError where the library is not there.
std::vector<std::byte> encode_png(std::span<const std::uint8_t> pixels, const Extents& extents);
std::vector<std::byte> encode_jpeg(std::span<const std::uint8_t> pixels, const Extents& extents, int quality);

}  // namespace lockstep::data
