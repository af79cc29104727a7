#include <algorithm>
#include <cmath>
#include <string>

#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/vision/image_files.h>

#include "engine/files/open_file.h"
#include "engine/vision/augmentation/pixels.h"
#include "engine/vision/files/image_encoders.h"

namespace lockstep::data {
namespace {

ImageForm form_of(const std::filesystem::path& path) {
  std::string ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c); });
  if (ending == ".png") return ImageForm::png;
  if (ending == ".jpg" || ending == ".jpeg") return ImageForm::jpeg;
  throw DataError("[write_image] " + path.string() + " ends in \"" + ending + "\"; expected .png, .jpg or .jpeg");
}

}  // namespace

std::vector<std::byte> encode_image(const HostTable& image, ImageForm form, int quality) {
  Pixels pixels = pixels_of(image, "encode_image");
  check_colours(pixels, "encode_image", true);
  const std::int64_t longest = form == ImageForm::jpeg ? 65500 : 1 << 20;
  const auto [height, width, channels] = pixels.extents;
  if (height < 1 || width < 1 || height > longest || width > longest) {
    throw ShapeError("[encode_image] the image is " + to_string(image.type) + "; extents are 1 to " +
                     std::to_string(longest));
  }
  if (quality < 1 || quality > 100) {
    throw ValueError("[encode_image] quality is " + std::to_string(quality) + "; expected 1 to 100");
  }
  if (pixels.dtype == DType::float32) {
    for (float& value : pixels.values) value *= 255;
    pixels.dtype = DType::uint8;
  }
  const HostTable bytes = image_of(pixels);
  const auto values = elements<std::uint8_t>(bytes);
  return form == ImageForm::png ? encode_png(values, pixels.extents) : encode_jpeg(values, pixels.extents, quality);
}

void write_image(const std::filesystem::path& path, const HostTable& image, int quality) {
  const std::vector<std::byte> bytes = encode_image(image, form_of(path), quality);
  files::with_error<DataError>("write_image", [&] { files::replace_file(path, bytes); });
}

HostTable array_to_image(const Array& x, bool stretch) {
  if (x.ndim() != 3 || (x.dim(-1) != 1 && x.dim(-1) != 3)) {
    throw ShapeError("[array_to_image] the array is " + to_string(x.type()) +
                     "; expected [height, width, channels] with 1 or 3 channels");
  }
  std::vector<float> values = convert(x, float32).to_vector<float>();
  if (stretch) {
    float low = 0, high = 0;
    bool any = false;
    for (const float value : values) {
      if (!std::isfinite(value)) continue;
      low = any ? std::min(low, value) : value;
      high = any ? std::max(high, value) : value;
      any = true;
    }
    const float range = high - low;
    for (float& value : values) value = range != 0 ? (value - low) / range * 255 : value - low;
  }
  std::vector<std::uint8_t> bytes;
  for (const float value : values) {
    bytes.push_back(value > 0 ? static_cast<std::uint8_t>(std::min(value, 255.0F)) : std::uint8_t{0});
  }
  return host_table(bytes, x.shape());
}

Array image_to_array(const HostTable& image) {
  return array(pixels_of(image, "image_to_array").values, image.type.shape);
}

}  // namespace lockstep::data
