#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/random.h>
#include <lockstep/transforms.h>
#include <lockstep/vision/image.h>
#include <lockstep/vision/image_filters.h>

#include "tests/support/array_values.h"
#include "tests/support/expect_error.h"

// tests/golden/functions holds values, derivatives and batches against Keras'.
using namespace lockstep;
using tests::expect_error;

namespace {

constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

Array drawn_image(const Shape& shape, std::uint64_t seed = 1) { return random::uniform(random::key(seed), shape); }

double largest_difference(const Array& x) { return max(abs(x)).to_vector<float>()[0]; }

}  // namespace

TEST_CASE("colours there and back, of images of any size") {
  const Array x = drawn_image({2, 5, 4, 3});
  CHECK(largest_difference(image::hsv_to_rgb(image::rgb_to_hsv(x)) - x) < 1e-6);
  CHECK(image::rgb_to_hsv(x[0]).shape() == Shape{5, 4, 3});
  CHECK(image::rgb_to_hsv(zeros({0, 4, 3})).shape() == Shape{0, 4, 3});
  CHECK(image::rgb_to_grayscale(zeros({0, 4, 3})).shape() == Shape{0, 4, 1});
  CHECK(image::rgb_to_grayscale(full({1, 1, 3}, 255, uint8)).to_vector<std::uint8_t>() ==
        std::vector<std::uint8_t>{254});
  const Array odd = array({nan_value, 0.5, 0.25}, {1, 1, 3});
  CHECK(std::isnan(image::rgb_to_hsv(odd).to_vector<double>()[2]));
  CHECK(std::isnan(image::hsv_to_rgb(odd).to_vector<double>()[0]));
  CHECK(std::isnan(image::rgb_to_grayscale(odd).to_vector<double>()[0]));
}

TEST_CASE("derivatives of colours are finite where channels are equal") {
  const Array grey = full({2, 2, 3}, 0.5);
  const Array slope = grad([](const Array& x) { return sum(image::rgb_to_hsv(x)); })(grey);
  for (const float value : slope.to_vector<float>()) CHECK(std::isfinite(value));
}

TEST_CASE("equal images are as alike as can be, and windows see what is in them") {
  const Array x = drawn_image({2, 12, 13, 3}), y = drawn_image({2, 12, 13, 3}, 2);
  for (const float value : image::ssim(x, x).to_vector<float>()) CHECK(value == doctest::Approx(1));
  CHECK(image::ssim(x[0], y[0]).shape() == Shape{});
  CHECK(image::ssim(x, y).to_vector<float>()[1] == doctest::Approx(image::ssim(x[1], y[1]).to_vector<float>()[0]));
  CHECK(image::ssim(zeros({0, 12, 13, 3}), zeros({0, 12, 13, 3})).shape() == Shape{0});
  CHECK(std::isinf(image::psnr(x, x).to_vector<float>()[0]));
  CHECK(image::psnr(zeros({2, 2}), full({2, 2}, 0.1)).to_vector<float>()[0] == doctest::Approx(20));
  CHECK(std::isnan(image::psnr(x, full(x.shape(), nan_value)).to_vector<float>()[0]));
  const Array bytes = full({12, 12, 1}, 200, uint8);
  CHECK(image::ssim(bytes, bytes, {.max_value = 255}).dtype() == float32);
  // Of a mean of 10,000 deviations: numbers that float32 holds have the value that they have in float64.
  const auto far = [](std::int64_t seed) {
    return round((100 + 0.01 * random::normal(random::key(seed), {1, 16, 16, 1})) * 65536.0) / 65536.0;
  };
  const Array a = far(1), b = far(2);
  CHECK(
      image::ssim(a, b, {.max_value = 0.01}).to_vector<float>()[0] ==
      doctest::Approx(image::ssim(convert(a - 100, float64) + 100, convert(b - 100, float64) + 100, {.max_value = 0.01})
                          .to_vector<double>()[0])
          .epsilon(1e-6));
  CHECK(abs(image::ssim(a, b, {.max_value = 0.01})).to_vector<float>()[0] <= 1);
  const Array one = drawn_image({1, 1, 2});
  CHECK(largest_difference(image::gaussian_blur(one, {1, 1}) - one) == 0);
  CHECK(image::gaussian_blur(zeros({0, 4, 4, 3})).shape() == Shape{0, 4, 4, 3});
  CHECK(image::sobel_edges(drawn_image({3, 3, 2})).shape() == Shape{3, 3, 2, 2});
}

TEST_CASE("an elastic transform is drawn anew for each image, and does nothing for alpha 0") {
  const Array x = drawn_image({3, 8, 7, 2}), key = random::key(5);
  const Array moved = image::elastic_transform(key, x, 3.0, 1.0);
  CHECK(moved.shape() == x.shape());
  CHECK(largest_difference(moved - image::elastic_transform(random::key(5), x, 3.0, 1.0)) == 0);
  CHECK(largest_difference(moved - jit([](const Array& k, const Array& a) {
                             return image::elastic_transform(k, a, 3.0, 1.0);
                           })(random::key(5), x)) < 1e-6);
  CHECK(largest_difference(moved - x) > 0.01);
  CHECK(largest_difference(image::elastic_transform(random::key(5), x, 0.0, 1.0) - x) < 1e-6);
  const Array alike = image::elastic_transform(random::key(5), broadcast_to(x[0], {2, 8, 7, 2}), 3.0, 1.0);
  CHECK(largest_difference(alike[0] - alike[1]) > 0.01);
  const Array slope = grad(
      [&](const Array& alpha) { return sum(image::elastic_transform(random::key(5), x, alpha, 1.0)); })(array(0.5F));
  CHECK(std::isfinite(slope.to_vector<float>()[0]));
  CHECK(largest_difference(slope) > 0);
}

TEST_CASE("mixtures keep what labels say of images") {
  // Each image has one value, its number, so that its mean says what it is made of.
  const Array numbers = arange(6, float32);
  const Array images = broadcast_to(reshape(numbers, {6, 1, 1, 1}), {6, 8, 10, 1}), labels = eye(6);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto [mixed, both] = image::mix_up(random::key(seed), images, labels, 0.4);
    const auto [cut, parts] = image::cut_mix(random::key(seed), images, labels);
    for (const auto& [x, y] : {std::pair{mixed, both}, std::pair{cut, parts}}) {
      CHECK(x.shape() == images.shape());
      CHECK(y.shape() == labels.shape());
      CHECK(largest_difference(sum(y, 1) - 1) < 1e-6);
      CHECK(largest_difference(mean(x, Axes{1, 2, 3}) - matmul(y, numbers)) < 1e-5);
    }
    // What is cut is a rectangle of another image, and nothing between two.
    CHECK(largest_difference(cut - round(cut)) == 0);
  }
  CHECK(largest_difference(image::mix_up(random::key(1), images, labels).first -
                           image::mix_up(random::key(2), images, labels).first) > 0.01);
  const auto step = jit([](const Array& k, const Array& x, const Array& y) { return image::cut_mix(k, x, y); });
  const auto [traced, traced_labels] = step(random::key(3), images, labels);
  CHECK(largest_difference(traced - image::cut_mix(random::key(3), images, labels).first) == 0);
  const auto [one, of_one] = image::mix_up(random::key(0), ones({1, 3}), ones({1, 2}));
  CHECK(largest_difference(one - 1) < 1e-6);
  CHECK(largest_difference(of_one - 1) < 1e-6);
  CHECK(image::mix_up(random::key(0), full({2, 3}, 7, uint8), eye(2)).first.dtype() == float32);
  CHECK(image::cut_mix(random::key(0), full({2, 3, 3, 1}, 7, uint8), eye(2)).first.dtype() == uint8);
}

TEST_CASE("image functions say what does not fit") {
  const Array x = drawn_image({4, 5, 3}), batch = drawn_image({2, 4, 5, 3}), key = random::key(0);
  expect_error<ShapeError>(
      [&] {
        image::rgb_to_grayscale(drawn_image({2, 2}));
      },
      "image.rgb_to_grayscale: x is f32[2,2]");
  expect_error<ShapeError>([&] { image::rgb_to_hsv(drawn_image({2, 4})); }, "image.rgb_to_hsv: x is f32[2,4]", "three");
  expect_error<DtypeError>([&] { image::hsv_to_rgb(zeros({2, 3}, int32)); }, "image.hsv_to_rgb", "divide by 255 first");
  expect_error<ShapeError>([&] { image::gaussian_blur(drawn_image({2, 2})); }, "image.gaussian_blur", "[..., H, W, C]");
  expect_error<ValueError>([&] { image::gaussian_blur(x, {3, 2}); }, "the window has the extent 2; expected an odd");
  expect_error<ShapeError>([&] { image::sobel_edges(drawn_image({2, 2})); }, "image.sobel_edges");
  expect_error<ShapeError>([&] { image::ssim(x, batch); }, "image.ssim: a is f32[4,5,3], b is f32[2,4,5,3]");
  expect_error<ShapeError>([&] { image::ssim(x, x); }, "images are f32[4,5,3], the window 11 x 11");
  expect_error<ValueError>([&] { image::ssim(x, x, {.window = 4}); }, "the extent 4");
  expect_error<ValueError>([&] { image::ssim(x, x, {.window = 3, .deviation = 0}); }, "deviation is 0");
  expect_error<ShapeError>([&] { image::psnr(x, batch); }, "image.psnr");
  expect_error<ShapeError>(
      [&] {
        image::affine_transform(drawn_image({2, 2}), zeros({8}));
      },
      "image.affine_transform: x is f32[2,2]; expected images");
  expect_error<ShapeError>([&] { image::affine_transform(zeros({0, 4, 3}), zeros({8})); }, "with a pixel");
  expect_error<ShapeError>([&] { image::affine_transform(x, zeros({7})); }, "transform is f32[7]", "expected [8]");
  expect_error<ShapeError>([&] { image::affine_transform(batch, zeros({3, 6})); }, "transform is f32[3,6]");
  expect_error<ValueError>([&] { image::affine_transform(x, zeros({6}), {.order = 2}); }, "order is 2");
  expect_error<ShapeError>([&] { image::perspective_transform(x, zeros({4, 2}), zeros({3, 2})); }, "to is f32[3,2]");
  expect_error<ShapeError>(
      [&] {
        image::perspective_transform(x, zeros({2, 4, 2}), zeros({4, 2}));
      },
      "from is f32[2,4,2]");
  expect_error<ValueError>([&] { image::elastic_transform(key, x, 1.0, 0); }, "sigma is 0");
  expect_error<ShapeError>([&] { image::elastic_transform(key, drawn_image({2, 2})); }, "image.elastic_transform");
  expect_error<ShapeError>([&] { image::mix_up(key, x, eye(3)); },
                           "image.mix_up: images are f32[4,5,3], labels f32[3,3]");
  expect_error<DtypeError>([&] { image::mix_up(key, x, zeros({4, 2}, int32)); }, "expected floats, such as one_hot");
  expect_error<ValueError>([&] { image::mix_up(key, x, eye(4), 0); }, "alpha is 0");
  expect_error<ShapeError>([&] { image::cut_mix(key, x, eye(4)); }, "image.cut_mix: images are f32[4,5,3]");
  expect_error<ValueError>([&] { image::cut_mix(key, batch, eye(2), -1); }, "alpha is -1");
}
