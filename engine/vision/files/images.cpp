#include <utility>

#include <lockstep/error.h>
#include <lockstep/vision/image_files.h>

#include "engine/data/files/class_folders.h"
#include "engine/data/files/mapped_file.h"
#include "engine/vision/files/image_decoders.h"

namespace lockstep::data {
namespace {

void check_channels(int channels) {
  if (channels == 1 || channels == 3) return;
  throw ValueError("[read_image] channels is " + std::to_string(channels) + "; expected 1 (grey) or 3 (colours)");
}

class ImageFolder final : public Source {
 public:
  ImageFolder(const std::filesystem::path& folder, int channels)
      : channels_(channels), images_(labelled_files(folder, "image_folder", {".png", ".jpg", ".jpeg"}, "image")) {}
  std::int64_t rows() const override { return std::ssize(images_); }
  Row row(std::int64_t i, const RowKey&) const override {
    if (i < 0 || i >= rows()) {
      throw DataError("[image_folder] row " + std::to_string(i) + " of " + std::to_string(rows()) + " images");
    }
    const auto& [path, label] = images_[static_cast<std::size_t>(i)];
    return {{"x", read_image(path, channels_)}, {"y", host_table(std::vector<std::int32_t>{label}, Shape{})}};
  }

 private:
  int channels_;
  std::vector<std::pair<std::filesystem::path, std::int32_t>> images_;
};

}  // namespace

HostTable blank_image(std::uint64_t height, std::uint64_t width, int channels, std::uint64_t largest,
                      const std::string& file) {
  // Extents of 32 bits, so that this product has no more than 64.
  const std::uint64_t bytes = height * width * static_cast<std::uint64_t>(channels);
  if (height == 0 || width == 0 || height > (1U << 20) || width > (1U << 20) || bytes > (1U << 30) || bytes > largest) {
    throw DataError(
        "[read_image] " + file + " says " + std::to_string(height) + " x " + std::to_string(width) +
        " pixels; expected 1 to 2^20 of either, no more than 2^30 bytes, and no more than the file can hold");
  }
  return {{DType::uint8, {static_cast<std::int64_t>(height), static_cast<std::int64_t>(width), channels}, {}}, {}};
}

std::byte luma_of(const std::byte* colours) {
  constexpr std::uint32_t red = 19595, green = 38470, blue = 7471, half = 1U << 15;  // of 2^16
  const auto part = [&](int i) { return std::to_integer<std::uint32_t>(colours[i]); };
  return static_cast<std::byte>((red * part(0) + green * part(1) + blue * part(2) + half) >> 16);
}

HostTable grey_of(const HostTable& image) {
  HostTable grey{{DType::uint8, {image.type.shape[0], image.type.shape[1], 1}, {}}, {}};
  grey.bytes.resize(image.bytes.size() / 3);
  for (std::size_t i = 0; i < grey.bytes.size(); ++i) grey.bytes[i] = luma_of(&image.bytes[3 * i]);
  return grey;
}

HostTable decode_image(std::span<const std::byte> bytes, const std::string& file, int channels) {
  check_channels(channels);
  const std::string_view text = as_text(bytes);
  if (text.starts_with("\x89PNG\r\n\x1A\n")) return decode_png(bytes, file, channels);
  if (text.starts_with("\xFF\xD8\xFF")) return decode_jpeg(bytes, file, channels);
  throw DataError("[read_image] " + file + " begins neither as a PNG nor as a JPEG file; expected one of these");
}

HostTable read_image(const std::filesystem::path& path, int channels) {
  const MappedFile file(path, "read_image");
  return decode_image(file.bytes(), file.name(), channels);
}

std::vector<std::string> image_classes(const std::filesystem::path& folder) {
  return class_names(folder, "image_folder");
}

SourcePtr image_folder(const std::filesystem::path& folder, int channels) {
  check_channels(channels);
  return std::make_shared<ImageFolder>(folder, channels);
}

}  // namespace lockstep::data
