#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/data.h>
#include <lockstep/vision.h>

// Boxes that move with their image against Keras 3.15.1's layers. box_values.py says how to regenerate.
namespace lockstep::tests {
namespace {

using bounding_boxes::Format;
using data::ImageBoxes;

constexpr std::int64_t box_height = 7, box_width = 9;

const std::map<std::string, Format> box_formats = {{"xyxy", Format::xyxy},
                                                   {"yxyx", Format::yxyx},
                                                   {"xywh", Format::xywh},
                                                   {"center_xywh", Format::center_xywh},
                                                   {"center_yxhw", Format::center_yxhw},
                                                   {"rel_xyxy", Format::rel_xyxy},
                                                   {"rel_yxyx", Format::rel_yxyx},
                                                   {"rel_xywh", Format::rel_xywh},
                                                   {"rel_center_xywh", Format::rel_center_xywh}};

const std::map<std::string, std::function<ImageBoxes(const ImageBoxes&)>> changes = {
    {"flipped", [](const ImageBoxes& x) { return data::random_flip(x, data::RowKey(1, 0, 0), 1); }},
    {"moved",
     [](const ImageBoxes& x) {
       return data::affine_transform(x, {1, 0, -2.25, 0, 1, 3.5});
     }},
    {"resized", [](const ImageBoxes& x) { return data::resize(x, 14, 3); }},
    {"turned", [](const ImageBoxes& x) { return data::rotate(x, 40.0 / 360); }}};

ImageBoxes given_boxes(Format format) {
  const Array boxes = array({1.0F, 2.0F, 4.0F, 5.5F, 0.0F, 0.0F, 9.0F, 7.0F, 6.0F, 1.0F,
                             8.5F, 3.0F, 7.5F, 6.0F, 9.0F, 7.0F, 2.0F, 2.0F, 3.0F, 3.0F},
                            {5, 4});
  const bounding_boxes::ImageSize size{box_height, box_width};
  return {data::host_table(bounding_boxes::convert_format(boxes, Format::xyxy, format, size).to_vector<float>(),
                           Shape{5, 4}),
          data::host_table(std::vector<std::int32_t>{3, 0, 1, 2, 5}, Shape{5}), box_height, box_width, format};
}

}  // namespace

TEST_CASE("boxes of changed images have the values of Keras' layers, in every format") {
  std::ifstream file(std::filesystem::path(LOCKSTEP_TESTS_DIR) / "golden/images/box_values.txt");
  REQUIRE(file.good());
  std::size_t lines = 0;
  for (std::string line; std::getline(file, line);) {
    if (line[0] == '#') continue;
    ++lines;
    std::istringstream words(line);
    std::string name, bar;
    words >> name >> bar;
    CAPTURE(name);
    const std::size_t slash = name.find('/');
    const Format format = box_formats.at(name.substr(slash + 1));
    const ImageBoxes changed = changes.at(name.substr(0, slash))(given_boxes(format));
    CHECK(changed.format == format);
    CHECK(changed.height == (name.starts_with("resized") ? 14 : box_height));
    for (const float number : data::elements<float>(changed.boxes)) {
      double expected = 0;
      words >> expected;
      CHECK(number == doctest::Approx(expected).epsilon(1e-5));
    }
    words >> bar;
    for (const std::int32_t label : data::elements<std::int32_t>(changed.labels)) {
      std::int32_t expected = 0;
      words >> expected;
      CHECK(label == expected);
    }
  }
  CHECK(lines == box_formats.size() * changes.size());
}

}  // namespace lockstep::tests
