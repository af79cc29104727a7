#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/layer_run.h"

using namespace lockstep;
using tests::Doubles;
using tests::run_layer;

namespace {

auto conv_with(const Conv2dOptions& options) {
  return [options](Scope& scope, const Array& x) { return conv2d(scope, x, options); };
}

/// Results along one dimension and the padding in front, as TensorFlow documents them.
struct Extent {
  std::int64_t results = 0;
  std::int64_t before = 0;
};

Extent extent(std::int64_t size, std::int64_t window, std::int64_t stride, std::int64_t dilation, Padding padding) {
  const std::int64_t reach = (window - 1) * dilation + 1;
  if (padding == Padding::valid) return {(size - reach) / stride + 1, 0};
  if (padding == Padding::half) return {(size + 2 * (reach / 2) - reach) / stride + 1, reach / 2};
  const std::int64_t missing = size % stride == 0 ? reach - stride : reach - size % stride;
  return {(size + stride - 1) / stride, std::max<std::int64_t>(missing, 0) / 2};
}

struct Image {
  Shape shape;
  Doubles values;
  double at(std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c) const {
    return values[static_cast<std::size_t>(((n * shape[1] + h) * shape[2] + w) * shape[3] + c)];
  }
  bool holds(std::int64_t h, std::int64_t w) const { return h >= 0 && h < shape[1] && w >= 0 && w < shape[2]; }
};

/// The definition, loop by loop.
Image convolved(const Image& x, const Image& kernel, const Conv2dOptions& o) {
  const Extent h = extent(x.shape[1], o.kernel.first, o.strides.first, o.dilation.first, o.padding);
  const Extent w = extent(x.shape[2], o.kernel.second, o.strides.second, o.dilation.second, o.padding);
  const std::int64_t in = kernel.shape[2];
  const std::int64_t out = o.filters / o.groups;
  Image y{{x.shape[0], h.results, w.results, o.filters}, {}};
  for (std::int64_t n = 0; n < x.shape[0]; ++n) {
    for (std::int64_t i = 0; i < h.results; ++i) {
      for (std::int64_t j = 0; j < w.results; ++j) {
        for (std::int64_t f = 0; f < o.filters; ++f) {
          double sum = 0;
          for (std::int64_t a = 0; a < o.kernel.first; ++a) {
            for (std::int64_t b = 0; b < o.kernel.second; ++b) {
              const std::int64_t row = i * o.strides.first + a * o.dilation.first - h.before;
              const std::int64_t column = j * o.strides.second + b * o.dilation.second - w.before;
              if (!x.holds(row, column)) continue;
              for (std::int64_t c = 0; c < in; ++c)
                sum += x.at(n, row, column, f / out * in + c) * kernel.at(a, b, c, f);
            }
          }
          y.values.push_back(sum);
        }
      }
    }
  }
  return y;
}

}  // namespace

TEST_CASE("conv2d by hand: a 3 x 3 window of ones counts what lies inside the image") {
  const Array x = ones({1, 3, 3, 1}, float64);
  const auto with = [&](Conv2dOptions options) {
    options.filters = 1;
    options.kernel_initializer = initializers::ones();
    return run_layer(conv_with(options), x).y.to_vector<double>();
  };
  CHECK(with({}) == Doubles{4, 6, 4, 6, 9, 6, 4, 6, 4});
  CHECK(with({.padding = Padding::valid}) == Doubles{9});
  CHECK(with({.strides = {2, 2}}) == Doubles{4, 4, 4, 4});
  CHECK(with({.kernel = {2, 2}}) == Doubles{4, 4, 2, 4, 4, 2, 2, 2, 1});  // one row and column of padding, behind
  CHECK(with({.bias_initializer = initializers::constant(0.5)}) ==
        Doubles{4.5, 6.5, 4.5, 6.5, 9.5, 6.5, 4.5, 6.5, 4.5});
}

TEST_CASE("conv2d with a stride of 2 pads an even image behind only, as Keras") {
  const Array x = tests::doubles({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, {1, 4, 4, 1});
  const Conv2dOptions options{
      .filters = 1, .strides = {2, 2}, .use_bias = false, .kernel_initializer = initializers::ones()};
  CHECK(run_layer(conv_with(options), x).y.to_vector<double>() ==
        Doubles{1 + 2 + 3 + 5 + 6 + 7 + 9 + 10 + 11, 3 + 4 + 7 + 8 + 11 + 12, 9 + 10 + 11 + 13 + 14 + 15,
                11 + 12 + 15 + 16});
}

TEST_CASE("conv2d equals its definition for strides, paddings, dilations and groups") {
  struct Case {
    std::int64_t height;
    std::int64_t width;
    std::int64_t channels;
    Conv2dOptions options;
  };
  const std::vector<Case> cases = {
      {5, 4, 2, {.filters = 3}},
      {5, 4, 2, {.filters = 3, .padding = Padding::valid}},
      {7, 6, 2, {.filters = 2, .kernel = {3, 2}, .strides = {2, 3}}},
      {7, 6, 2, {.filters = 2, .kernel = {2, 3}, .strides = {3, 2}, .padding = Padding::valid}},
      {8, 7, 1, {.filters = 2, .dilation = {2, 3}}},
      {8, 7, 1, {.filters = 2, .kernel = {2, 2}, .padding = Padding::valid, .dilation = {3, 1}}},
      {6, 6, 1, {.filters = 2, .strides = {2, 2}, .dilation = {2, 2}}},
      {4, 4, 4, {.filters = 6, .groups = 2}},
      {4, 4, 4, {.filters = 4, .kernel = {3, 3}, .strides = {2, 1}, .groups = 4}},  // depth-wise
      {3, 3, 5, {.filters = 2, .kernel = {1, 1}}},
      {2, 2, 1, {.filters = 1, .kernel = {5, 5}}},
      {5, 5, 1, {.filters = 1, .kernel = {1, 1}, .strides = {3, 3}}},
      {6, 5, 2, {.filters = 2, .strides = {2, 2}, .padding = Padding::half}},
      {7, 8, 1, {.filters = 2, .kernel = {5, 2}, .padding = Padding::half, .dilation = {1, 3}}},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    CAPTURE(i);
    const Case& c = cases[i];
    const Image x{{2, c.height, c.width, c.channels},
                  tests::spread_values({2, c.height, c.width, c.channels}).to_vector<double>()};
    const Shape kernel_shape{c.options.kernel.first, c.options.kernel.second, c.channels / c.options.groups,
                             c.options.filters};
    const Image kernel{kernel_shape, tests::spread_values(kernel_shape, 0.7).to_vector<double>()};
    const auto result = run_layer(conv_with(c.options), array(x.values, x.shape),
                                  {.trainable = {{"kernel", array(kernel.values, kernel.shape)}}});
    const Image expected = convolved(x, kernel, c.options);
    CHECK(result.y.shape() == expected.shape);
    CHECK(result.trainable.at("bias").array().shape() == Shape{c.options.filters});
    const Doubles y = result.y.to_vector<double>();
    REQUIRE(y.size() == expected.values.size());
    for (std::size_t k = 0; k < y.size(); ++k) CHECK(y[k] == doctest::Approx(expected.values[k]).epsilon(1e-12));
  }
}

TEST_CASE("conv2d refuses what is no image and groups that do not divide") {
  const Array x = zeros({1, 4, 4, 3});
  tests::expect_error<ShapeError>(
      [&] {
        static_cast<void>(run_layer(conv_with({.filters = 1}), zeros({4, 4, 3})));
      },
      "give float images [N, H, W, C]");
  tests::expect_error<ShapeError>(
      [&] {
        static_cast<void>(run_layer(conv_with({.filters = 1}), zeros({1, 4, 4, 3}, int32)));
      },
      "i32[1,4,4,3]");
  tests::expect_error<ValueError>([&] { static_cast<void>(run_layer(conv_with({.filters = 0}), x)); },
                                  "3 channels, 0 filters, 1 groups");
  tests::expect_error<ValueError>([&] { static_cast<void>(run_layer(conv_with({.filters = 4, .groups = 2}), x)); },
                                  "groups divides channels and filters");
  tests::expect_error<ValueError>([&] { static_cast<void>(run_layer(conv_with({.filters = 4, .groups = 3}), x)); },
                                  "groups divides channels and filters");
}

TEST_CASE("max_pool2d by hand; padding is no value") {
  const Array x = tests::doubles({-1, -2, -3, -4, -5, -6, -7, -8, -9}, {1, 3, 3, 1});
  CHECK(max_pool2d(x, {2, 2}).to_vector<double>() == Doubles{-1});
  CHECK(max_pool2d(x, {.window = {2, 2}, .strides = {1, 1}}).to_vector<double>() == Doubles{-1, -2, -4, -5});
  const Array same = max_pool2d(x, {.window = {2, 2}, .padding = Padding::same});
  CHECK(same.shape() == Shape{1, 2, 2, 1});
  CHECK(same.to_vector<double>() == Doubles{-1, -3, -7, -9});
  CHECK(max_pool2d(x, {.window = {3, 3}, .strides = {1, 1}, .padding = Padding::same}).to_vector<double>() ==
        Doubles{-1, -1, -2, -1, -1, -2, -4, -4, -5});
  CHECK(max_pool2d(x, {.window = {1, 3}, .strides = {2, 1}}).to_vector<double>() == Doubles{-1, -7});
}

TEST_CASE("avg_pool2d by hand; elements outside count in neither sum nor divisor") {
  const Array x = tests::doubles({1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 3, 3, 1});
  CHECK(avg_pool2d(x, {2, 2}).to_vector<double>() == Doubles{3});
  CHECK(avg_pool2d(x, {.window = {2, 2}, .padding = Padding::same}).to_vector<double>() == Doubles{3, 4.5, 7.5, 9});
  CHECK(avg_pool2d(x, {.window = {3, 3}, .strides = {2, 2}, .padding = Padding::same}).to_vector<double>() ==
        Doubles{3, 4, 6, 7});
  const Array two = tests::doubles({1, 10, 2, 20, 3, 30, 4, 40}, {1, 2, 2, 2});
  CHECK(avg_pool2d(two, {2, 2}).to_vector<double>() == Doubles{2.5, 25});
}

TEST_CASE("pools hand gradients to the elements they came from") {
  const Array x = tests::doubles({1, 5, 2, 0, 3, 4, 8, 7, 6}, {1, 3, 3, 1});
  const Array weights = tests::doubles({1, 10, 100, 1000}, {1, 2, 2, 1});
  const Pool2dOptions options{.window = {2, 2}, .strides = {1, 1}};
  const auto top = [&](const Array& v) { return sum(max_pool2d(v, options) * weights); };
  CHECK(grad(top)(x).to_vector<double>() == Doubles{0, 11, 0, 0, 0, 0, 100, 1000, 0});
  const auto average = [&](const Array& v) { return sum(avg_pool2d(v, options) * weights) * 4.0; };
  CHECK(grad(average)(x).to_vector<double>() == Doubles{1, 11, 10, 101, 1111, 1010, 100, 1100, 1000});
}

TEST_CASE("global_avg_pool2d averages each channel of each image") {
  const Array x = tests::doubles({1, 10, 2, 20, 3, 30, 4, 40, 5, 50, 6, 60, 7, 70, 8, 80}, {2, 2, 2, 2});
  const Array y = global_avg_pool2d(x);
  CHECK(y.shape() == Shape{2, 2});
  CHECK(y.to_vector<double>() == Doubles{2.5, 25, 6.5, 65});
  tests::expect_error<ShapeError>(
      [&] {
        static_cast<void>(global_avg_pool2d(zeros({2, 2})));
      },
      "[global_avg_pool2d] the input is f32[2,2]");
  tests::expect_error<ShapeError>([&] { static_cast<void>(max_pool2d(zeros({2, 2, 2}), {2, 2})); }, "channels last");
  tests::expect_error<ShapeError>(
      [&] {
        static_cast<void>(avg_pool2d(zeros({2, 2, 2, 1}, int32), {2, 2}));
      },
      "give float images");
}
