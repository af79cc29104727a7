#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/data.h>
#include <lockstep/error.h>
#include <lockstep/vision.h>

#include "tests/support/expect_error.h"

// Boxes go where the pixels go that they are around.
namespace lockstep::tests {
namespace {

using bounding_boxes::Format;
using data::HostTable;
using data::ImageBoxes;
using data::RowKey;

constexpr std::int64_t height = 40, width = 50;

ImageBoxes boxes_of(const std::vector<float>& numbers, const std::vector<std::int32_t>& labels) {
  const auto n = static_cast<std::int64_t>(labels.size());
  return {data::host_table(numbers, Shape{n, 4}), data::host_table(labels, Shape{n}), height, width, Format::xyxy};
}

/// Bright in the box, dark around it.
HostTable with_bright(std::int64_t left, std::int64_t top, std::int64_t right, std::int64_t bottom) {
  std::vector<float> pixels(static_cast<std::size_t>(height * width), 0.0F);
  for (std::int64_t y = top; y < bottom; ++y) {
    for (std::int64_t x = left; x < right; ++x) pixels[static_cast<std::size_t>(y * width + x)] = 1;
  }
  return data::host_table(pixels, Shape{height, width, 1});
}

std::vector<double> bright_box(const HostTable& image) {
  const auto pixels = data::elements<float>(image);
  const std::int64_t columns = image.type.shape[1];
  std::vector<double> box = {1e9, 1e9, -1e9, -1e9};
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    if (pixels[i] < 0.5F) continue;
    const auto x = static_cast<double>(static_cast<std::int64_t>(i) % columns);
    const auto y = static_cast<double>(static_cast<std::int64_t>(i) / columns);
    box = {std::min(box[0], x), std::min(box[1], y), std::max(box[2], x + 1), std::max(box[3], y + 1)};
  }
  return box;
}

std::vector<float> elements_of(const HostTable& table) {
  const auto all = data::elements<float>(table);
  return {all.begin(), all.end()};
}
std::vector<std::int32_t> labels(const ImageBoxes& of) {
  const auto all = data::elements<std::int32_t>(of.labels);
  return {all.begin(), all.end()};
}

struct Change {
  std::string name;
  std::function<HostTable(const HostTable&, const RowKey&)> of_image;
  std::function<ImageBoxes(const ImageBoxes&, const RowKey&)> of_boxes;
  double room = 1;  ///< Pixels: middles are read, edges are moved.
};

const data::Resampling nearest{.order = 0, .outside = image::Outside::constant};
using I = const HostTable&;
using B = const ImageBoxes&;
using K = const RowKey&;

const std::vector<Change>& changes() {
  static const std::vector<Change> all = {
      {"crop", [](I x, K) { return data::crop(x, 5, -3, 30, 41); }, [](B x, K) { return data::crop(x, 5, -3, 30, 41); },
       0},
      {"random_crop", [](I x, K k) { return data::random_crop(x, 36, 44, 3, k); },
       [](B x, K k) { return data::random_crop(x, 36, 44, 3, k); }, 0},
      {"random_flip", [](I x, K k) { return data::random_flip(x, k); },
       [](B x, K k) { return data::random_flip(x, k); }, 0},
      {"random_shift", [](I x, K k) { return data::random_shift(x, 6, k); },
       [](B x, K k) { return data::random_shift(x, 6, k); }, 0},
      {"resize", [](I x, K) { return data::resize(x, 80, 25); }, [](B x, K) { return data::resize(x, 80, 25); }},
      {"affine_transform",
       [](I x, K) {
         return data::affine_transform(x, {0.9, 0.2, -3, -0.1, 1.1, 2}, nearest);
       },
       [](B x, K) {
         return data::affine_transform(x, {0.9, 0.2, -3, -0.1, 1.1, 2});
       }},
      {"rotate", [](I x, K) { return data::rotate(x, 0.25, nearest); }, [](B x, K) { return data::rotate(x, 0.25); }},
      {"random_rotation",
       [](I x, K k) {
         return data::random_rotation(x, {-0.1, 0.1}, k, nearest);
       },
       [](B x, K k) {
         return data::random_rotation(x, {-0.1, 0.1}, k);
       },
       1.5},
      {"zoom", [](I x, K) { return data::zoom(x, 1.3, 0.8, nearest); }, [](B x, K) { return data::zoom(x, 1.3, 0.8); }},
      {"random_zoom",
       [](I x, K k) {
         return data::random_zoom(x, {-0.3, 0.3}, k, data::Range{-0.2, 0.2}, nearest);
       },
       [](B x, K k) {
         return data::random_zoom(x, {-0.3, 0.3}, k, data::Range{-0.2, 0.2});
       }},
      {"shear", [](I x, K) { return data::shear(x, 0.2, -0.1, nearest); },
       [](B x, K) { return data::shear(x, 0.2, -0.1); }, 1.5},
      {"random_shear",
       [](I x, K k) {
         return data::random_shear(x, {0, 0.2}, {0, 0.2}, k, nearest);
       },
       [](B x, K k) {
         return data::random_shear(x, {0, 0.2}, {0, 0.2}, k);
       },
       1.5},
      {"random_translation",
       [](I x, K k) {
         return data::random_translation(x, {-0.2, 0.2}, {-0.2, 0.2}, k, nearest);
       },
       [](B x, K k) {
         return data::random_translation(x, {-0.2, 0.2}, {-0.2, 0.2}, k);
       }}};
  return all;
}

}  // namespace

TEST_CASE("boxes go where their pixels go, by the same key") {
  for (const Change& change : changes()) {
    for (std::uint64_t row = 0; row < 8; ++row) {
      CAPTURE(change.name);
      CAPTURE(row);
      const RowKey key(3, 0, row);
      const HostTable image = change.of_image(with_bright(18, 14, 33, 24), key);
      const ImageBoxes moved = change.of_boxes(boxes_of({18, 14, 33, 24}, {2}), key);
      CHECK(moved.height == image.type.shape[0]);
      CHECK(moved.width == image.type.shape[1]);
      REQUIRE(labels(moved) == std::vector<std::int32_t>{2});
      const std::vector<double> expected = bright_box(image);
      const std::vector<float> given = elements_of(moved.boxes);
      for (std::size_t i = 0; i < 4; ++i) CHECK(std::abs(given[i] - expected[i]) <= change.room);
    }
  }
}

TEST_CASE("boxes are held inside, empty ones marked, and left out where that is asked for") {
  const ImageBoxes some = boxes_of({0, 0, 10, 10, 30, 20, 40, 30, -1, -1, -1, -1, 2, 2, 5, 5}, {4, 5, -1, 6});
  const ImageBoxes cut = data::crop(some, 5, 6, 20, 20);
  CHECK(elements_of(cut.boxes) == std::vector<float>{0, 0, 4, 5, 20, 15, 20, 20, -1, -1, -1, -1, 0, 0, 0, 0});
  CHECK(labels(cut) == std::vector<std::int32_t>{4, -1, -1, -1});
  const ImageBoxes left = data::without_empty_boxes(cut);
  CHECK(elements_of(left.boxes) == std::vector<float>{0, 0, 4, 5});
  CHECK(labels(left) == std::vector<std::int32_t>{4});
  const ImageBoxes none = data::without_empty_boxes(data::crop(some, 35, 45, 5, 5));
  CHECK(none.boxes.type.shape == Shape{0, 4});
  CHECK(data::rotate(none, 0.2).boxes.bytes.empty());
  // Labels of floats, and parts of the image, which change with its extents.
  ImageBoxes parts = boxes_of({0.5F, 0.5F, 1, 1}, {1});
  parts.labels = data::host_table(std::vector<float>{0.5F}, Shape{1});
  parts.format = Format::rel_xyxy;
  const ImageBoxes window = data::crop(parts, 10, 0, 30, 25);
  CHECK(data::elements<float>(window.labels)[0] == -1);
  const ImageBoxes kept = data::crop(parts, 10, 25, 30, 25);
  CHECK(data::elements<float>(kept.labels)[0] == 0.5F);
  CHECK(elements_of(kept.boxes)[1] == doctest::Approx(1.0 / 3));
}

TEST_CASE("what is no box of an image is refused") {
  const ImageBoxes good = boxes_of({0, 0, 1, 1}, {1});
  ImageBoxes bad = good;
  bad.labels = data::host_table(std::vector<std::int32_t>{1, 2}, Shape{2});
  expect_error<ShapeError>([&] { data::rotate(bad, 0.1); },
                           "[rotate] boxes are f32[1,4], labels i32[2]; expected [n, 4] and [n]");
  bad.labels = data::host_table(std::vector<double>{1}, Shape{1});
  expect_error<DtypeError>([&] { data::crop(bad, 0, 0, 1, 1); }, "expected float32, and int32 or float32");
  bad = good;
  bad.height = 0;
  expect_error<ValueError>([&] { data::resize(bad, 2, 2); },
                           "[resize] the image is 0 x 50; give the extents that it has before it is changed");
  expect_error<ValueError>([&] { data::crop(good, 0, 0, 0, 4); },
                           "[crop] boxes of an image of 0 x 4; give extents of at least 1");
  expect_error<ValueError>(
      [&] {
        data::affine_transform(good, {1, 2, 0, 2, 4, 0});
      },
      "[affine_transform] every pixel is read on one line, so a box comes to no place");
  expect_error<ValueError>([&] { data::random_crop(good, 41, 4, 0, RowKey(1, 0, 0)); }, "[random_crop] a window of 41");
  expect_error<ValueError>([&] { data::random_zoom(good, {-2, 0}, RowKey(1, 0, 0)); }, "[random_zoom]");
}

}  // namespace lockstep::tests
