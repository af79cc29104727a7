#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/data.h>
#include <lockstep/vision.h>

// Changes of images against Keras 3.15.1's layers. row_values.py says how to regenerate.
namespace lockstep::tests {
namespace {

using data::HostTable;

constexpr std::int64_t row_height = 7, row_width = 9;

std::vector<float> pixels() {
  std::vector<float> values;
  for (std::int64_t y = 0; y < row_height; ++y) {
    for (std::int64_t x = 0; x < row_width; ++x) {
      for (std::int64_t c = 0; c < 3; ++c) {
        values.push_back(static_cast<float>((37 * y + 91 * x * x + 53 * c + 7 * y * x) % 251));
      }
    }
  }
  return values;
}

HostTable image(bool is_bytes) {
  std::vector<float> values = pixels();
  if (is_bytes) {
    return data::host_table(std::vector<std::uint8_t>(values.begin(), values.end()), Shape{row_height, row_width, 3});
  }
  for (float& value : values) value = (value + 0.5F) / 256;
  return data::host_table(values, Shape{row_height, row_width, 3});
}

struct RowChange {
  std::function<HostTable(const HostTable&)> change;
  double room = 2e-6;  ///< Of white: Keras computes places and sums of many in float32.
};

constexpr data::Corners corners = {{{0, 0}, {8, 0}, {0, 6}, {8, 6}}};
constexpr data::Corners moved_corners = {{{1, 0.5}, {7.5, -1}, {-0.5, 5}, {8.25, 6.5}}};

using I = const HostTable&;
using image::Outside;

std::map<std::string, RowChange> row_changes() {
  return {
      {"brightness", {[](I x) { return data::adjust_brightness(x, 0.25); }}},
      {"contrast", {[](I x) { return data::adjust_contrast(x, 1.5); }}},
      {"saturation", {[](I x) { return data::adjust_saturation(x, 1.5); }}},
      {"hue", {[](I x) { return data::adjust_hue(x, 0.125); }}},
      {"faded", {[](I x) { return data::fade_colors(x, 0.625); }}},
      {"grey", {[](I x) { return data::fade_colors(x, 1); }}},
      {"inverted", {data::invert}},
      {"posterized", {[](I x) { return data::posterize(x, 3); }}},
      {"solarized", {[](I x) { return data::solarize(x, 0.5, 0.125); }}},
      {"auto_contrast", {data::auto_contrast}},
      {"equalized", {[](I x) { return data::equalize(x); }}},
      {"equalized_64", {[](I x) { return data::equalize(x, 64); }}},
      {"adaptive",
       {[](I x) { return data::equalize_adaptively(x, {.rows = 2, .columns = 3, .clip_limit = 20}); }, 1e-5}},
      {"adaptive_unlimited",
       {[](I x) { return data::equalize_adaptively(x, {.rows = 3, .columns = 2, .clip_limit = 0}); }, 1e-5}},
      {"sharpened", {[](I x) { return data::adjust_sharpness(x, 1.5); }}},
      {"blurred",
       {[](I x) { return data::gaussian_blur(x, {.height = 5, .width = 3, .vertical = 1.25, .horizontal = 0.75}); }}},
      {"rotated", {[](I x) { return data::rotate(x, 40.0 / 360); }, 1e-5}},
      {"rotated_nearest", {[](I x) { return data::rotate(x, 40.0 / 360, {.order = 0, .outside = Outside::wrap}); }}},
      {"zoomed", {[](I x) { return data::zoom(x, 1.25, 0.75); }}},
      {"zoomed_constant", {[](I x) { return data::zoom(x, 1.25, 0.75, {.outside = Outside::constant, .fill = 0.5}); }}},
      {"sheared", {[](I x) { return data::shear(x, 0.25, -0.125, {.outside = Outside::nearest}); }}},
      {"perspective", {[](I x) { return data::perspective_transform(x, corners, moved_corners); }, 1e-4}},
  };
}

std::map<std::string, std::vector<double>> stored_rows() {
  std::ifstream file(std::filesystem::path(LOCKSTEP_TESTS_DIR) / "golden/images/values.txt");
  REQUIRE(file.good());
  std::map<std::string, std::vector<double>> values;
  for (std::string line; std::getline(file, line);) {
    if (line[0] == '#') continue;
    std::istringstream words(line);
    std::string name, bar;
    words >> name >> bar;
    for (double value = 0; words >> value;) values[name].push_back(value);
  }
  return values;
}

/// The largest difference, in parts of white.
double largest_pixel_difference(const HostTable& given, const std::vector<double>& expected, bool is_bytes) {
  REQUIRE(given.type == image(is_bytes).type);
  REQUIRE(static_cast<std::int64_t>(expected.size()) == given.type.size());
  double largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (is_bytes) {
      // Rounded, and held to the range, which Keras' sums of shares may leave by a rounding.
      const double value = data::elements<std::uint8_t>(given)[i];
      largest = std::max(largest, (std::abs(value - expected[i]) - 0.5) / 255);
    } else {
      largest = std::max(largest, std::abs(static_cast<double>(data::elements<float>(given)[i]) - expected[i]));
    }
  }
  return largest;
}

}  // namespace

TEST_CASE("changes of images have the values of Keras' layers") {
  auto expected = stored_rows();
  for (const auto& [name, c] : row_changes()) {
    for (const bool is_bytes : {true, false}) {
      const std::string key = name + (is_bytes ? "/bytes" : "/floats");
      CAPTURE(key);
      REQUIRE(expected.contains(key));
      CHECK(largest_pixel_difference(c.change(image(is_bytes)), expected.at(key), is_bytes) <= c.room);
      expected.erase(key);
    }
  }
  CHECK(expected.empty());
}

}  // namespace lockstep::tests
