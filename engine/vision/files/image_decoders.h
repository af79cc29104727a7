#pragma once

#include <cstddef>
#include <span>
#include <string>

#include <lockstep/batches.h>

namespace lockstep::data {

/// uint8 [height, width, channels]. Throw DataError, also where the library is not there.
HostTable decode_png(std::span<const std::byte> bytes, const std::string& file, int channels);
HostTable decode_jpeg(std::span<const std::byte> bytes, const std::string& file, int channels);

/// An image of this size without pixels. Throws DataError for one larger than 2^30 bytes, or than `largest`, what the file
/// can hold.
HostTable blank_image(std::uint64_t height, std::uint64_t width, int channels, std::uint64_t largest,
                      const std::string& file);

/// The luma of three colours, as JPEG files have it (ITU-R BT.601): 0.299 red, 0.587 green, 0.114 blue.
std::byte luma_of(const std::byte* colours);
/// A colour image as a grey one.
HostTable grey_of(const HostTable& image);

}  // namespace lockstep::data
