#include <array>
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
using data::RowKey;
using image::Outside;
using tests::Draw;

namespace {

HostTable plane(std::int64_t height, std::int64_t width) {
  std::vector<float> values;
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) values.push_back(static_cast<float>(0.01 * (3 * y + x)));
  }
  return data::host_table(values, Shape{height, width, 1});
}

float pixel_at(const HostTable& image, std::int64_t y, std::int64_t x) {
  return data::elements<float>(image)[static_cast<std::size_t>(y * image.type.shape[1] + x)];
}

std::map<std::string, Draw> geometry_draws() {
  return {
      {"rotation",
       [](auto& x, auto& key) {
         return data::random_rotation(x, {-0.25, 0.25}, key);
       }},
      {"zoom",
       [](auto& x, auto& key) {
         return data::random_zoom(x, {-0.5, 0.5}, key);
       }},
      {"zoom of both",
       [](auto& x, auto& key) {
         return data::random_zoom(x, {-0.5, 0.5}, key, {{-0.2, 0.1}});
       }},
      {"shear",
       [](auto& x, auto& key) {
         return data::random_shear(x, {0, 0.5}, {0, 0.5}, key);
       }},
      {"translation",
       [](auto& x, auto& key) {
         return data::random_translation(x, {-1, 1}, {-1, 1}, key);
       }},
      {"perspective", [](auto& x, auto& key) { return data::random_perspective(x, 0.5, key); }},
      {"elastic",
       [](auto& x, auto& key) {
         return data::random_elastic_transform(x, {0.5, 1}, key);
       }},
      {"rand_augment", [](auto& x, auto& key) { return data::rand_augment(x, key); }},
      {"rand_augment of many",
       [](auto& x, auto& key) { return data::rand_augment(x, key, {.count = 9, .magnitude = 1}); }},
      {"aug_mix", [](auto& x, auto& key) { return data::aug_mix(x, key); }},
      {"aug_mix of few",
       [](auto& x, auto& key) {
         return data::aug_mix(x, key, {.chains = 1, .depth = 4, .magnitude = 1, .alpha = 0.3, .all_ops = false});
       }},
  };
}

HostTable dotted(std::int64_t height, std::int64_t width, std::int64_t channels) {
  std::vector<std::uint8_t> values;
  for (std::int64_t i = 0; i < height * width * channels; ++i) {
    values.push_back(static_cast<std::uint8_t>((37 * i + 11 * (i / 7)) % 256));
  }
  return data::host_table(values, Shape{height, width, channels});
}

}  // namespace

TEST_CASE("what is drawn of places depends on the key alone, and differs by row") {
  for (const auto& [name, draw] : geometry_draws()) {
    for (const std::int64_t channels : {1, 3}) {
      CAPTURE(name);
      const HostTable image = dotted(9, 8, channels);
      std::set<std::vector<std::byte>> results;
      for (std::int64_t row = 0; row < 30; ++row) {
        const HostTable changed = draw(image, RowKey(3, 1, row));
        CHECK(changed.type == image.type);
        CHECK(changed.bytes == draw(image, RowKey(3, 1, row)).bytes);
        results.insert(changed.bytes);
      }
      CHECK(results.size() > 20);
      CHECK(draw(dotted(1, 1, channels), RowKey(0, 0, 0)).type.size() == channels);
      CHECK(draw(dotted(1, 5, channels), RowKey(0, 0, 0)).type.size() == 5 * channels);
      tests::expect_error<ShapeError>([&] { draw(dotted(0, 4, channels), RowKey(0, 0, 0)); },
                                      "it has no pixel to read");
    }
  }
}

TEST_CASE("batches of augmented rows do not depend on the number of threads") {
  std::vector<std::uint8_t> pixels(20 * 6 * 6 * 3);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(31 * i % 251);
  const data::SourcePtr images = data::in_memory(data::Dataset{
      data::host_table(pixels, Shape{20, 6, 6, 3}), data::host_table(std::vector<std::int32_t>(20, 0), Shape{20}), 10});
  const auto batches = [&](int threads) {
    data::SourceLoader loader(data::map_rows(images,
                                             [](data::Row row, const RowKey& key) {
                                               row["x"] = data::rand_augment(row["x"], key.fold_in(0));
                                               row["x"] = data::random_perspective(row["x"], 0.2, key.fold_in(1), 0.5);
                                               row["x"] = data::aug_mix(row["x"], key.fold_in(2));
                                               return row;
                                             }),
                              {.batch = 5, .seed = 9}, {.threads = threads});
    std::vector<std::byte> all;
    for (int i = 0; i < 8; ++i) {
      const auto bytes = loader.next().at("x").array().to_bytes();
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    return all;
  };
  CHECK(batches(0) == batches(3));
}

TEST_CASE("an image is turned around its middle, and a turn is made of its parts") {
  const HostTable image = plane(5, 5);
  const HostTable quarter = data::rotate(image, 0.25);
  for (std::int64_t y = 0; y < 5; ++y) {
    for (std::int64_t x = 0; x < 5; ++x) CHECK(pixel_at(quarter, y, x) == doctest::Approx(pixel_at(image, x, 4 - y)));
  }
  const HostTable half = data::rotate(quarter, 0.25), whole = data::rotate(image, 1);
  for (std::int64_t y = 0; y < 5; ++y) {
    for (std::int64_t x = 0; x < 5; ++x) {
      CHECK(pixel_at(half, y, x) == doctest::Approx(pixel_at(image, 4 - y, 4 - x)));
      CHECK(pixel_at(whole, y, x) == doctest::Approx(pixel_at(image, y, x)));
    }
  }
  CHECK(data::rotate(image, 0).bytes == image.bytes);
  CHECK(data::zoom(image, 1, 1).bytes == image.bytes);
  CHECK(data::shear(image, 0, 0).bytes == image.bytes);
  CHECK(data::affine_transform(image, {1, 0, 0, 0, 1, 0}).bytes == image.bytes);
}

TEST_CASE("what lies outside is filled as asked") {
  const HostTable line = data::host_table(std::vector<float>{1, 2, 3}, Shape{1, 3, 1});
  const auto read = [&](Outside outside) {
    std::vector<float> values;
    for (const double shift : {-4.0, -1.0, 3.0}) {
      const HostTable moved = data::affine_transform(line, {1, 0, shift, 0, 1, 0}, {.outside = outside, .fill = 7});
      for (std::int64_t x = 0; x < 3; ++x) values.push_back(pixel_at(moved, 0, x));
    }
    return values;
  };
  CHECK(read(Outside::constant) == std::vector<float>{7, 7, 7, 7, 1, 2, 7, 7, 7});
  CHECK(read(Outside::nearest) == std::vector<float>{1, 1, 1, 1, 1, 2, 3, 3, 3});
  CHECK(read(Outside::wrap) == std::vector<float>{3, 1, 2, 3, 1, 2, 1, 2, 3});
  CHECK(read(Outside::mirror) == std::vector<float>{1, 2, 3, 2, 1, 2, 2, 1, 2});
  CHECK(read(Outside::reflect) == std::vector<float>{3, 3, 2, 1, 1, 2, 3, 2, 1});
}

TEST_CASE("a translation by parts of the image, a zoom by the range, a perspective of its corners") {
  const HostTable image = plane(4, 4);
  const RowKey key(1, 2, 3);
  const HostTable moved = data::random_translation(image, {0.25, 0.25}, {0.5, 0.5}, key, {.outside = Outside::nearest});
  CHECK(pixel_at(moved, 3, 3) == pixel_at(image, 2, 1));
  CHECK(pixel_at(moved, 0, 0) == pixel_at(image, 0, 0));
  CHECK(data::random_zoom(image, {0.5, 0.5}, key).bytes == data::zoom(image, 1.5, 1.5).bytes);
  CHECK(data::random_zoom(image, {0.5, 0.5}, key, {{0, 0}}).bytes == data::zoom(image, 1.5, 1).bytes);
  CHECK(data::random_rotation(image, {0.1, 0.1}, key).bytes == data::rotate(image, 0.1).bytes);
  CHECK(data::random_perspective(image, 0.5, key, 0).bytes == image.bytes);
  CHECK(data::random_elastic_transform(image, {0, 0}, key).bytes == image.bytes);
  // Twice as wide as high, of which the middle is where diagonals meet.
  const HostTable seen =
      data::perspective_transform(image, {{{0, 0}, {3, 0}, {0, 3}, {3, 3}}}, {{{0, 0}, {3, 0}, {0, 1.5}, {3, 1.5}}});
  CHECK(pixel_at(seen, 1, 2) == doctest::Approx(pixel_at(image, 2, 2)));
  CHECK(pixel_at(seen, 3, 2) == 0);
}

TEST_CASE("what a projection sees of the vanishing line is the fill") {
  // The points (x, y) come from (x / (1 - x / 2), y / (1 - x / 2)), which is nowhere for x = 2.
  const auto source = [](double x, double y) { return std::array<double, 2>{x / (1 - x / 2), y / (1 - x / 2)}; };
  const data::Corners to = {{{0, 0}, {1, 0}, {0, 3}, {3, 3}}};
  data::Corners from;
  for (std::size_t i = 0; i < 4; ++i) from[i] = source(to[i][0], to[i][1]);
  for (const Outside outside : {Outside::constant, Outside::reflect}) {
    const HostTable seen = data::perspective_transform(plane(4, 4), from, to, {.outside = outside, .fill = 0.5});
    for (const float value : data::elements<float>(seen)) CHECK(std::isfinite(value));
  }
}

TEST_CASE("a mask takes the key of its image, and no value between its own") {
  const HostTable mask = data::host_table(std::vector<std::uint8_t>{0, 9, 9, 0, 0, 9, 0, 9, 0}, Shape{3, 3, 1});
  for (std::int64_t row = 0; row < 20; ++row) {
    const HostTable turned = data::random_rotation(mask, {-1, 1}, RowKey(0, 0, row), {.order = 0});
    for (const std::uint8_t value : data::elements<std::uint8_t>(turned)) CHECK((value == 0 || value == 9));
  }
}

TEST_CASE("boxes of a row are brought to one number") {
  const HostTable boxes = data::host_table(std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}, Shape{2, 4});
  const HostTable labels = data::host_table(std::vector<std::int32_t>{3, 4}, Shape{2});
  const auto [more, more_labels] = data::limit_boxes(boxes, labels, 3);
  CHECK(more.type == ArrayType{float32, {3, 4}, {}});
  CHECK(data::elements<float>(more)[7] == 8);
  CHECK(data::elements<float>(more)[8] == -1);
  CHECK(data::elements<std::int32_t>(more_labels)[2] == -1);
  const auto [fewer, fewer_labels] = data::limit_boxes(boxes, labels, 1);
  CHECK(data::elements<float>(fewer).size() == 4);
  CHECK(data::elements<std::int32_t>(fewer_labels)[0] == 3);
  CHECK(data::limit_boxes(boxes, labels, 0).first.bytes.empty());
  using tests::expect_error;
  expect_error<ShapeError>([&] { data::limit_boxes(labels, labels, 1); }, "[limit_boxes] boxes are i32[2]");
  expect_error<DtypeError>(
      [&] {
        data::limit_boxes(boxes, data::host_table(std::vector<double>{1, 2}, Shape{2}), 1);
      },
      "labels f64[2]; expected float32");
  expect_error<ValueError>([&] { data::limit_boxes(boxes, labels, -1); }, "most is -1");
}

TEST_CASE("changes of places refuse numbers outside of their range") {
  using tests::expect_error;
  const RowKey key(0, 0, 0);
  const HostTable image = plane(4, 4);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const data::Corners corners = {{{0, 0}, {3, 0}, {0, 3}, {3, 3}}}, line = {{{0, 0}, {1, 1}, {2, 2}, {3, 3}}};
  expect_error<ValueError>([&] { data::rotate(image, 0.1, {.order = 3}); }, "[rotate] order is 3; expected 0");
  expect_error<ValueError>([&] { data::rotate(image, nan); }, "[rotate] turn is nan");
  expect_error<ValueError>([&] { data::random_rotation(image, {-2, 0}, key); }, "turn is drawn from {-2, 0}");
  expect_error<ValueError>([&] { data::affine_transform(image, {nan, 0, 0, 0, 0, 0}); }, "a number of m is nan");
  expect_error<ValueError>([&] { data::zoom(image, 0, 1); }, "[zoom] height is 0");
  expect_error<ValueError>([&] { data::zoom(image, 1, -1); }, "[zoom] width is -1");
  expect_error<ValueError>([&] { data::random_zoom(image, {0, 3}, key); }, "height is drawn from {0, 3}");
  expect_error<ValueError>([&] { data::random_zoom(image, {0, 1}, key, {{2, 3}}); }, "width is drawn from {2, 3}");
  expect_error<ValueError>([&] { data::shear(image, nan, 0); }, "horizontal is nan");
  expect_error<ValueError>([&] { data::shear(image, 0, nan); }, "vertical is nan");
  expect_error<ValueError>([&] { data::random_shear(image, {0, 3}, {0, 0}, key); }, "horizontal is drawn from");
  expect_error<ValueError>([&] { data::random_shear(image, {0, 0}, {0, 3}, key); }, "vertical is drawn from");
  expect_error<ValueError>([&] { data::random_translation(image, {0, 3}, {0, 0}, key); }, "height is drawn from");
  expect_error<ValueError>([&] { data::random_translation(image, {0, 0}, {0, 3}, key); }, "width is drawn from");
  expect_error<ValueError>([&] { data::perspective_transform(image, corners, line); },
                           "three of the four points of the result lie on one line");
  expect_error<ValueError>(
      [&] {
        data::perspective_transform(image, {{{nan, 0}}}, corners);
      },
      "a number of a point is nan");
  expect_error<ValueError>([&] { data::random_perspective(image, 1, key); }, "scale is 1; expected 0 to 0.9");
  expect_error<ValueError>([&] { data::random_perspective(image, 0.5, key, 3); }, "p is 3");
  expect_error<ValueError>([&] { data::elastic_transform(image, -1, 1, key); }, "alpha is -1");
  expect_error<ValueError>([&] { data::elastic_transform(image, 1, 0, key); }, "sigma is 0");
  expect_error<ValueError>([&] { data::random_elastic_transform(image, {0, 2}, key); }, "scale is drawn from {0, 2}");
  expect_error<ValueError>([&] { data::rand_augment(image, key, {.count = -1}); }, "[rand_augment] count is -1");
  expect_error<ValueError>([&] { data::rand_augment(image, key, {.magnitude = 2}); }, "magnitude is 2");
  expect_error<ValueError>([&] { data::aug_mix(image, key, {.chains = 0}); }, "[aug_mix] chains is 0");
  expect_error<ValueError>([&] { data::aug_mix(image, key, {.depth = -1}); }, "depth is -1");
  expect_error<ValueError>([&] { data::aug_mix(image, key, {.magnitude = nan}); }, "magnitude is nan");
  expect_error<ValueError>([&] { data::aug_mix(image, key, {.alpha = 0}); }, "alpha is 0");
}
