#include <algorithm>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/data.h>
#include <lockstep/error.h>
#include <lockstep/vision.h>

#include "tests/support/expect_error.h"

using namespace lockstep;
using data::HostTable;
using data::RowKey;

namespace {

/// Pixel (row, column) of channel c holds 100 row + 10 column + c + 1.
template <class T>
HostTable counted_image(std::int64_t height, std::int64_t width, std::int64_t channels) {
  std::vector<T> values;
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      for (std::int64_t c = 0; c < channels; ++c) values.push_back(static_cast<T>(100 * y + 10 * x + c + 1));
    }
  }
  return data::host_table(values, Shape{height, width, channels});
}

template <class T>
T element_at(const HostTable& image, std::int64_t y, std::int64_t x, std::int64_t c = 0) {
  const Shape& shape = image.type.shape;
  return data::elements<T>(image)[static_cast<std::size_t>((y * shape[1] + x) * shape[2] + c)];
}

}  // namespace

TEST_CASE_TEMPLATE("a crop is a window, with zeros outside", T, float, std::uint8_t) {
  const HostTable whole = counted_image<T>(2, 4, 2);
  for (std::int64_t top = -4; top <= 3; ++top) {
    for (std::int64_t left = -5; left <= 5; ++left) {
      const HostTable window = data::crop(whole, top, left, 3, 2);
      REQUIRE(window.type.shape == Shape{3, 2, 2});
      for (std::int64_t y = 0; y < 3; ++y) {
        for (std::int64_t x = 0; x < 2; ++x) {
          const bool inside = y + top >= 0 && y + top < 2 && x + left >= 0 && x + left < 4;
          REQUIRE(element_at<T>(window, y, x, 1) == (inside ? element_at<T>(whole, y + top, x + left, 1) : T{0}));
        }
      }
    }
  }
  // As wide as its image, where lines are copied in one piece.
  for (const std::int64_t width : {1, 3, 4, 9, 40}) {
    const HostTable image = counted_image<T>(5, width, 1);
    for (std::int64_t top = -6; top <= 6; ++top) {
      for (std::int64_t left = -width - 1; left <= width + 1; ++left) {
        for (const std::int64_t height : {3, 5, 7}) {
          const HostTable window = data::crop(image, top, left, height, width);
          for (std::int64_t y = 0; y < height; ++y) {
            for (std::int64_t x = 0; x < width; ++x) {
              const bool inside = y + top >= 0 && y + top < 5 && x + left >= 0 && x + left < width;
              REQUIRE(element_at<T>(window, y, x) == (inside ? element_at<T>(image, y + top, x + left) : T{0}));
            }
          }
        }
      }
    }
  }
  const HostTable far = data::crop(whole, INT64_MIN, INT64_MAX, 1, 1);
  CHECK(element_at<T>(far, 0, 0) == 0);
}

TEST_CASE("what is drawn depends on the key alone, and reaches all there is") {
  const HostTable whole = counted_image<float>(4, 4, 1);
  std::set<std::vector<std::byte>> crops, shifts, holes, flips;
  for (std::int64_t i = 0; i < 400; ++i) {
    const RowKey key(1, 0, i);
    const HostTable cropped = data::random_crop(whole, 4, 4, 1, key);
    CHECK(cropped.bytes == data::random_crop(whole, 4, 4, 1, RowKey(1, 0, i)).bytes);
    crops.insert(cropped.bytes);
    shifts.insert(data::random_shift(whole, 1, key).bytes);
    holes.insert(data::cutout(whole, 1, key).bytes);
    flips.insert(data::random_flip(whole, key).bytes);
  }
  CHECK(crops.size() == 9);
  CHECK(shifts.size() == 9);
  CHECK(crops == shifts);
  CHECK(holes.size() == 16);
  CHECK(flips.size() == 2);
  CHECK(data::random_flip(whole, RowKey(1, 0, 0), 0).bytes == whole.bytes);
  const HostTable flipped = data::random_flip(counted_image<std::uint8_t>(2, 3, 2), RowKey(1, 0, 0), 1);
  CHECK(element_at<std::uint8_t>(flipped, 1, 0, 1) == 100 + 20 + 2);
  CHECK(element_at<std::uint8_t>(flipped, 1, 1, 0) == 100 + 10 + 1);
}

TEST_CASE("a flip turns lines of every width round") {
  for (std::int64_t width = 1; width <= 50; ++width) {
    const HostTable whole = counted_image<std::uint8_t>(2, width, 1);
    const HostTable flipped = data::random_flip(whole, RowKey(1, 0, 0), 1);
    for (std::int64_t y = 0; y < 2; ++y) {
      for (std::int64_t x = 0; x < width; ++x) {
        REQUIRE(element_at<std::uint8_t>(flipped, y, x) == element_at<std::uint8_t>(whole, y, width - 1 - x));
      }
    }
  }
}

TEST_CASE("cutout clears a square that may reach over the edge") {
  std::set<std::ptrdiff_t> cleared;
  for (std::int64_t i = 0; i < 200; ++i) {
    const HostTable holed = data::cutout(counted_image<float>(5, 5, 1), 3, RowKey(2, 0, i));
    const auto values = data::elements<float>(holed);
    cleared.insert(std::count(values.begin(), values.end(), 0.0F));
  }
  CHECK(cleared == std::set<std::ptrdiff_t>{4, 6, 9});
  const HostTable all = data::cutout(counted_image<float>(5, 5, 1), 100, RowKey(2, 0, 0));
  CHECK(std::count(all.bytes.begin(), all.bytes.end(), std::byte{0}) == std::ssize(all.bytes));
}

TEST_CASE("normalize takes mean and deviation of each channel") {
  const HostTable floats = data::normalize(counted_image<float>(1, 2, 2), {1, 2}, {2, 4});
  CHECK(std::vector(data::elements<float>(floats).begin(), data::elements<float>(floats).end()) ==
        std::vector<float>{0, 0, 5, 2.5F});
  const HostTable bytes =
      data::normalize(data::host_table(std::vector<std::uint8_t>{0, 255}, Shape{1, 2, 1}), {0.5F}, {0.5F});
  CHECK(data::elements<float>(bytes)[0] == -1);
  CHECK(data::elements<float>(bytes)[1] == doctest::Approx(1));
  const HostTable five = data::normalize(counted_image<float>(1, 1, 5), {0, 0, 0, 0, 1}, {1, 1, 1, 2, 2});
  CHECK(std::vector(data::elements<float>(five).begin(), data::elements<float>(five).end()) ==
        std::vector<float>{1, 2, 3, 2, 2});
}

TEST_CASE("resize keeps a plane, an image of its own size, and the middle of two pixels") {
  const HostTable whole = counted_image<float>(3, 4, 2);
  CHECK(data::resize(whole, 3, 4).bytes == whole.bytes);
  const HostTable larger = data::resize(whole, 6, 8);
  CHECK(element_at<float>(larger, 2, 3) == doctest::Approx(100 * 0.75 + 10 * 1.25 + 1));
  const HostTable half = data::resize(data::host_table(std::vector<std::uint8_t>{10, 21}, Shape{1, 2, 1}), 1, 1);
  CHECK(element_at<std::uint8_t>(half, 0, 0) == 16);
}

TEST_CASE("augmentations refuse what is no image, and sizes that cannot be") {
  const RowKey key(0, 0, 0);
  const HostTable whole = counted_image<float>(4, 4, 1);
  const HostTable flat = data::host_table(std::vector<float>{1, 2}, Shape{2});
  const HostTable doubles = data::host_table(std::vector<double>{1}, Shape{1, 1, 1});
  tests::expect_error<ShapeError>([&] { data::crop(flat, 0, 0, 1, 1); }, "[crop] the image is f32[2]");
  tests::expect_error<ShapeError>([&] { data::random_flip(flat, key); }, "expected [height, width, channels]");
  tests::expect_error<DtypeError>([&] { data::cutout(doubles, 1, key); }, "f64[1,1,1]; expected uint8 or float32");
  HostTable cut = whole;
  cut.bytes.resize(3);
  tests::expect_error<ShapeError>([&] { data::normalize(cut, {0}, {1}); }, "with 3 bytes");
  tests::expect_error<ValueError>([&] { data::crop(whole, 0, 0, 0, 1); }, "an image of 0 x 1");
  tests::expect_error<ValueError>([&] { data::random_crop(whole, 9, 4, 2, key); }, "a window of 9 x 4", "padding 2");
  tests::expect_error<ValueError>([&] { data::random_crop(whole, 1, 1, -1, key); }, "padding -1");
  tests::expect_error<ValueError>([&] { data::random_shift(whole, -1, key); }, "most is -1");
  tests::expect_error<ValueError>([&] { data::cutout(whole, -1, key); }, "size is -1");
  tests::expect_error<ShapeError>([&] { data::normalize(whole, {0, 0}, {1}); }, "2 means and 1 deviations");
  tests::expect_error<ValueError>([&] { data::normalize(whole, {0}, {0}); }, "the deviation of channel 0 is 0");
  tests::expect_error<ValueError>([&] { data::resize(whole, 0, 4); }, "an image of 0 x 4");
}
