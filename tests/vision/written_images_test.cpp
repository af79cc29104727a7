#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/data.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/vision.h>

#include "tests/support/expect_error.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"

using namespace lockstep;
using data::HostTable;
using data::ImageForm;

namespace {

HostTable smooth(std::int64_t height, std::int64_t width, std::int64_t channels) {
  std::vector<std::uint8_t> values;
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      for (std::int64_t c = 0; c < channels; ++c) values.push_back(static_cast<std::uint8_t>(4 * y + 3 * x + 40 * c));
    }
  }
  return data::host_table(values, Shape{height, width, channels});
}

/// Where a library was not found when building, an error says so, and there is nothing else to test.
bool can_write(ImageForm form) {
  try {
    data::encode_image(smooth(1, 1, 3), form);
    return true;
  } catch (const DataError& error) {
    CHECK(tests::contains(error.what(), "Lockstep was built without lib"));
    return false;
  }
}

}  // namespace

TEST_CASE("a PNG file that was written holds the pixels, a JPEG file nearly") {
  const tests::TemporaryFolder folder;
  for (const std::int64_t channels : {1, 3}) {
    for (const auto& [height, width] : {std::pair{1, 1}, std::pair{5, 4}, std::pair{16, 17}}) {
      const HostTable image = smooth(height, width, channels);
      if (can_write(ImageForm::png)) {
        data::write_image(folder.path() / "image.PNG", image);
        const HostTable read = data::read_image(folder.path() / "image.PNG", static_cast<int>(channels));
        CHECK(read.type == image.type);
        CHECK(read.bytes == image.bytes);
      }
      if (!can_write(ImageForm::jpeg)) continue;
      data::write_image(folder.path() / "image.jpeg", image, 95);
      const HostTable read = data::read_image(folder.path() / "image.jpeg", static_cast<int>(channels));
      REQUIRE(read.type == image.type);
      for (std::size_t i = 0; i < image.bytes.size(); ++i) {
        CHECK(std::abs(static_cast<int>(read.bytes[i]) - static_cast<int>(image.bytes[i])) < 16);
      }
    }
  }
  if (!can_write(ImageForm::jpeg)) return tests::skip("a build without libjpeg");
  CHECK(data::encode_image(smooth(32, 32, 3), ImageForm::jpeg, 10).size() <
        data::encode_image(smooth(32, 32, 3), ImageForm::jpeg, 90).size());
}

TEST_CASE("floats are written as parts of white") {
  if (!can_write(ImageForm::png)) return tests::skip("a build without libpng");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const HostTable floats = data::host_table(std::vector<float>{-1, 0, 0.5F, 1, 2, nan}, Shape{2, 3, 1});
  const HostTable read = data::decode_image(data::encode_image(floats, ImageForm::png), "f", 1);
  CHECK(std::vector(data::elements<std::uint8_t>(read).begin(), data::elements<std::uint8_t>(read).end()) ==
        std::vector<std::uint8_t>{0, 0, 128, 255, 255, 0});
}

TEST_CASE("arrays become images as Keras' array_to_img makes them, and images arrays") {
  const auto bytes = [](const HostTable& image) {
    const auto values = data::elements<std::uint8_t>(image);
    return std::vector<int>(values.begin(), values.end());
  };
  const Array x = array({-1.0, 0.0, 0.5, 3.0}, {2, 2, 1});
  CHECK(bytes(data::array_to_image(x)) == std::vector<int>{0, 63, 95, 255});
  CHECK(bytes(data::array_to_image(array({1, 2, 300, -4}, {2, 2, 1}), false)) == std::vector<int>{1, 2, 255, 0});
  CHECK(bytes(data::array_to_image(full({2, 2, 1}, 7.0))) == std::vector<int>{0, 0, 0, 0});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(bytes(data::array_to_image(array({nan, 1.0, 2.0}, {1, 1, 3}))) == std::vector<int>{0, 0, 255});
  CHECK(data::array_to_image(zeros({0, 2, 3})).bytes.empty());
  const HostTable image = smooth(3, 4, 3);
  const Array back = data::image_to_array(image);
  CHECK(back.type() == ArrayType{float32, {3, 4, 3}, {}});
  CHECK(data::array_to_image(back, false).bytes == image.bytes);
}

TEST_CASE("images that cannot be written are refused") {
  using tests::expect_error;
  const HostTable image = smooth(2, 2, 3);
  const tests::TemporaryFolder folder;
  expect_error<DataError>([&] { data::write_image(folder.path() / "image.gif", image); },
                          "ends in \".gif\"; expected .png, .jpg or .jpeg");
  expect_error<ShapeError>([&] { data::encode_image(smooth(2, 2, 2), ImageForm::png); },
                           "[encode_image] the image has 2 channels");
  expect_error<ShapeError>([&] { data::encode_image(smooth(0, 2, 3), ImageForm::png); }, "u8[0,2,3]; extents are 1 to");
  expect_error<ShapeError>([&] { data::encode_image(smooth(1, 70000, 1), ImageForm::jpeg); }, "extents are 1 to 65500");
  expect_error<DtypeError>(
      [&] {
        data::encode_image(data::host_table(std::vector<double>{1}, Shape{1, 1, 1}), ImageForm::png);
      },
      "expected uint8 or float32");
  expect_error<ValueError>([&] { data::encode_image(image, ImageForm::jpeg, 0); }, "quality is 0; expected 1 to 100");
  expect_error<ShapeError>([&] { data::array_to_image(zeros({2, 2})); }, "[array_to_image] the array is f32[2,2]");
  if (!can_write(ImageForm::png)) return tests::skip("a build without libpng");
  expect_error<DataError>([&] { data::write_image(folder.path() / "absent" / "image.png", image); },
                          "image.png cannot be written");
}
