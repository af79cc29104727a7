#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/data.h>
#include <lockstep/error.h>
#include <lockstep/vision.h>

#include "tests/data/draw.h"
#include "tests/support/expect_error.h"

// tests/golden/images holds the values against Keras'.
using namespace lockstep;
using data::HostTable;
using data::Range;
using data::RowKey;
using tests::Draw;

namespace {

template <class T>
HostTable image_of(std::int64_t height, std::int64_t width, std::int64_t channels) {
  std::vector<T> values;
  for (std::int64_t i = 0; i < height * width * channels; ++i) {
    const auto byte = static_cast<double>((37 * i + 11 * (i / 7)) % 256);
    values.push_back(static_cast<T>(std::is_same_v<T, float> ? byte / 255 : byte));
  }
  return data::host_table(values, Shape{height, width, channels});
}

/// Everything that is drawn, so that most rows come out changed.
std::map<std::string, Draw> color_draws() {
  return {
      {"brightness",
       [](auto& x, auto& key) {
         return data::random_brightness(x, {-0.5, 0.5}, key);
       }},
      {"contrast",
       [](auto& x, auto& key) {
         return data::random_contrast(x, {0.2, 1.8}, key);
       }},
      {"saturation",
       [](auto& x, auto& key) {
         return data::random_saturation(x, {0, 0.9}, key);
       }},
      {"hue",
       [](auto& x, auto& key) {
         return data::random_hue(x, {0, 1}, key);
       }},
      {"degeneration",
       [](auto& x, auto& key) {
         return data::random_color_degeneration(x, {0, 1}, key);
       }},
      {"grayscale", [](auto& x, auto& key) { return data::random_grayscale(x, key); }},
      {"jitter",
       [](auto& x, auto& key) {
         return data::random_color_jitter(
             x, {.brightness = {-0.2, 0.2}, .contrast = {0.8, 1.2}, .saturation = {0.4, 0.6}, .hue = {0, 0.2}}, key);
       }},
      {"invert", [](auto& x, auto& key) { return data::random_invert(x, key); }},
      {"posterization", [](auto& x, auto& key) { return data::random_posterization(x, 1, 8, key); }},
      {"solarization",
       [](auto& x, auto& key) {
         return data::random_solarization(x, {0, 1}, {0, 1}, key);
       }},
      {"sharpness",
       [](auto& x, auto& key) {
         return data::random_sharpness(x, {0, 1}, key);
       }},
      {"blur",
       [](auto& x, auto& key) {
         return data::random_gaussian_blur(x, 3, 5, {0.1, 2}, key, 0.8);
       }},
  };
}

float least(const HostTable& image) {
  const auto values = data::elements<float>(image);
  return *std::min_element(values.begin(), values.end());
}
float largest(const HostTable& image) {
  const auto values = data::elements<float>(image);
  return *std::max_element(values.begin(), values.end());
}

}  // namespace

TEST_CASE("what is drawn of colours depends on the key alone, differs by row and stays in the range") {
  for (const auto& [name, draw] : color_draws()) {
    CAPTURE(name);
    const HostTable bytes = image_of<std::uint8_t>(6, 5, 3), floats = image_of<float>(6, 5, 3);
    std::set<std::vector<std::byte>> results;
    for (std::int64_t row = 0; row < 40; ++row) {
      const HostTable changed = draw(bytes, RowKey(3, 1, row));
      CHECK(changed.type == bytes.type);
      CHECK(changed.bytes == draw(bytes, RowKey(3, 1, row)).bytes);
      results.insert(changed.bytes);
      const HostTable other = draw(floats, RowKey(3, 1, row));
      CHECK(other.type == floats.type);
      CHECK(least(other) >= 0);
      CHECK(largest(other) <= 1);
    }
    CHECK(results.size() >= (name == "grayscale" || name == "invert" ? 2U : name == "posterization" ? 6U : 20U));
  }
}

TEST_CASE("bytes and floats of one image are changed alike") {
  const HostTable bytes = image_of<std::uint8_t>(6, 5, 3), floats = image_of<float>(6, 5, 3);
  for (const auto& [name, draw] : color_draws()) {
    if (name == "posterization" || name == "solarization") continue;  // which jump at a value
    for (std::int64_t row = 0; row < 10; ++row) {
      const HostTable a = draw(bytes, RowKey(4, 0, row)), b = draw(floats, RowKey(4, 0, row));
      for (std::size_t i = 0; i < a.bytes.size(); ++i) {
        CAPTURE(name);
        const double byte = data::elements<std::uint8_t>(a)[i], part = 255 * data::elements<float>(b)[i];
        REQUIRE(std::abs(byte - part) < 0.51);
      }
    }
  }
}

TEST_CASE("changes that leave an image alone, and those that undo themselves") {
  const HostTable image = image_of<std::uint8_t>(6, 5, 3);
  CHECK(data::adjust_brightness(image, 0).bytes == image.bytes);
  CHECK(data::adjust_contrast(image, 1).bytes == image.bytes);
  CHECK(data::adjust_saturation(image, 1).bytes == image.bytes);
  CHECK(data::adjust_hue(image, 0).bytes == image.bytes);
  CHECK(data::adjust_hue(image, 1).bytes == image.bytes);
  CHECK(data::fade_colors(image, 0).bytes == image.bytes);
  CHECK(data::posterize(image, 8).bytes == image.bytes);
  CHECK(data::adjust_sharpness(image, 1).bytes == image.bytes);
  CHECK(data::gaussian_blur(image, {.height = 1, .width = 1}).bytes == image.bytes);
  CHECK(data::random_color_jitter(image, {}, RowKey(0, 0, 0)).bytes == image.bytes);
  CHECK(data::random_grayscale(image, RowKey(0, 0, 0), 0).bytes == image.bytes);
  CHECK(data::invert(data::invert(image)).bytes == image.bytes);
  CHECK(data::invert(image).bytes == data::solarize(image).bytes);
  const HostTable grey = data::fade_colors(image, 1);
  CHECK(data::adjust_saturation(grey, 3).bytes == grey.bytes);
  const HostTable flat = data::host_table(std::vector<std::uint8_t>(12, 77), Shape{2, 2, 3});
  CHECK(data::auto_contrast(flat).bytes == flat.bytes);
  CHECK(data::equalize(flat).bytes == flat.bytes);
  CHECK(data::fade_colors(image_of<std::uint8_t>(2, 2, 1), 1).bytes == image_of<std::uint8_t>(2, 2, 1).bytes);
}

TEST_CASE("equalization spreads values over the range, in each channel by itself") {
  std::vector<std::uint8_t> values;
  for (int i = 0; i < 64; ++i) {
    values.push_back(static_cast<std::uint8_t>(100 + i / 8));
    values.push_back(static_cast<std::uint8_t>(i));
  }
  const HostTable equal = data::equalize(data::host_table(values, Shape{8, 8, 2}));
  const auto spread = data::elements<std::uint8_t>(equal);
  for (std::size_t i = 0; i < 64; ++i) {
    CHECK(spread[2 * i] == std::lround(static_cast<double>(i / 8) * 255 / 7));
    CHECK(spread[2 * i + 1] == std::lround(static_cast<double>(i) * 255 / 63));
  }
  const HostTable contrast = data::auto_contrast(data::host_table(values, Shape{8, 8, 2}));
  CHECK(data::elements<std::uint8_t>(contrast)[0] == 0);
  CHECK(data::elements<std::uint8_t>(contrast)[126] == 255);
}

TEST_CASE("images without pixels, of one pixel, and of what is no number") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const RowKey key(0, 0, 1);
  for (const auto& [name, draw] : color_draws()) {
    CAPTURE(name);
    const HostTable none = data::host_table(std::vector<float>{}, Shape{0, 4, 3});
    CHECK(draw(none, key).type == none.type);
    CHECK(draw(image_of<std::uint8_t>(1, 1, 3), key).bytes.size() == 3);
    const HostTable odd = data::host_table(std::vector<float>{nan, nan, nan, 0.5F, 0.25F, 1}, Shape{1, 2, 3});
    CHECK(std::isnan(data::elements<float>(draw(odd, key))[0]));
    CHECK_NOTHROW(draw(data::host_table(std::vector<float>{inf, -inf, 0.5F}, Shape{1, 1, 3}), key));
  }
  const HostTable odd = data::host_table(std::vector<float>{nan, 0.5F, 0.25F, 1}, Shape{2, 2, 1});
  for (const HostTable& changed : {data::auto_contrast(odd), data::equalize(odd), data::equalize_adaptively(odd)}) {
    CHECK(std::isnan(data::elements<float>(changed)[0]));
  }
  CHECK(data::equalize_adaptively(data::host_table(std::vector<float>{}, Shape{0, 0, 3})).bytes.empty());
}

TEST_CASE("changes of colours refuse what is no image, and numbers outside of their range") {
  using tests::expect_error;
  const RowKey key(0, 0, 0);
  const HostTable image = image_of<float>(4, 4, 3), grey = image_of<float>(4, 4, 1);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  expect_error<ShapeError>(
      [&] {
        data::invert(data::host_table(std::vector<float>{1, 2}, Shape{2}));
      },
      "[invert] the image is f32[2]; expected [height, width, channels]");
  expect_error<DtypeError>(
      [&] {
        data::equalize(data::host_table(std::vector<double>{1}, Shape{1, 1, 1}));
      },
      "[equalize] the image is f64[1,1,1]; expected uint8 or float32");
  expect_error<ShapeError>([&] { data::adjust_hue(grey, 0.5); }, "[adjust_hue] the image has 1 channels; expected 3");
  expect_error<ShapeError>([&] { data::random_hue(grey, {0, 1}, key); }, "[random_hue] the image has 1 channels");
  expect_error<ShapeError>([&] { data::adjust_saturation(grey, 1); }, "[adjust_saturation]");
  expect_error<ShapeError>([&] { data::random_saturation(grey, {0, 1}, key); }, "[random_saturation]");
  expect_error<ShapeError>([&] { data::fade_colors(image_of<float>(2, 2, 2), 1); }, "has 2 channels", "or 1");
  expect_error<ValueError>([&] { data::adjust_brightness(image, 1.5); }, "delta is 1.5; expected -1 to 1");
  expect_error<ValueError>([&] { data::adjust_brightness(image, nan); }, "delta is nan");
  expect_error<ValueError>(
      [&] {
        data::random_brightness(image, {0.5, 0.1}, key);
      },
      "[random_brightness] delta is drawn from {0.5, 0.1}; expected a range of -1 to 1");
  expect_error<ValueError>([&] { data::adjust_contrast(image, -1); }, "factor is -1");
  expect_error<ValueError>([&] { data::random_contrast(image, {nan, 1}, key); }, "factor is drawn from {nan, 1}");
  expect_error<ValueError>([&] { data::adjust_saturation(image, -0.5); }, "factor is -0.5");
  expect_error<ValueError>([&] { data::random_saturation(image, {0, 2}, key); }, "s is drawn from {0, 2}");
  expect_error<ValueError>([&] { data::adjust_hue(image, 2); }, "turn is 2; expected -1 to 1");
  expect_error<ValueError>([&] { data::random_hue(image, {-1, 0}, key); }, "factor is drawn from {-1, 0}");
  expect_error<ValueError>([&] { data::fade_colors(image, 2); }, "share is 2");
  expect_error<ValueError>([&] { data::random_color_degeneration(image, {0, 2}, key); }, "share is drawn from {0, 2}");
  expect_error<ValueError>([&] { data::random_grayscale(image, key, 2); }, "[random_grayscale] p is 2");
  expect_error<ValueError>([&] { data::random_invert(image, key, nan); }, "[random_invert] p is nan");
  expect_error<ValueError>([&] { data::random_color_jitter(image, {.hue = {0, 2}}, key); }, "hue is drawn from {0, 2}");
  expect_error<ValueError>([&] { data::posterize(image, 0); }, "bits is 0; expected 1 to 8");
  expect_error<ValueError>([&] { data::random_posterization(image, 0, 4, key); }, "least is 0");
  expect_error<ValueError>([&] { data::random_posterization(image, 5, 4, key); }, "most is 4; expected 5 to 8");
  expect_error<ValueError>([&] { data::solarize(image, 2); }, "threshold is 2");
  expect_error<ValueError>([&] { data::solarize(image, 0, -1); }, "addition is -1");
  expect_error<ValueError>([&] { data::random_solarization(image, {0, 1}, {0, 2}, key); }, "addition is drawn from");
  expect_error<ValueError>([&] { data::equalize(image, 1); }, "bins is 1; expected 2 to 65536");
  expect_error<ValueError>([&] { data::equalize_adaptively(image, {.rows = 0}); }, "rows is 0");
  expect_error<ValueError>([&] { data::equalize_adaptively(image, {.columns = -1}); }, "columns is -1");
  expect_error<ValueError>([&] { data::equalize_adaptively(image, {.clip_limit = -1}); }, "clip_limit is -1");
  expect_error<ValueError>([&] { data::adjust_sharpness(image, -1); }, "factor is -1");
  expect_error<ValueError>([&] { data::random_sharpness(image, {0, 3}, key); }, "factor is drawn from {0, 3}");
  expect_error<ValueError>([&] { data::gaussian_blur(image, {.height = 2}); }, "the window is 2 x 3; expected odd");
  expect_error<ValueError>([&] { data::gaussian_blur(image, {.vertical = 0}); }, "the vertical deviation is 0");
  expect_error<ValueError>([&] { data::gaussian_blur(image, {.horizontal = nan}); }, "the horizontal deviation is nan");
  expect_error<ValueError>([&] { data::random_gaussian_blur(image, 3, 4, {0, 1}, key); }, "the window is 3 x 4");
  expect_error<ValueError>([&] { data::random_gaussian_blur(image, 3, 3, {-1, 1}, key); }, "the deviation is drawn");
}
