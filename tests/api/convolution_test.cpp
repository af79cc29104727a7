#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/convolution.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "tests/support/arange_of.h"
#include "tests/support/array_values.h"
#include "tests/support/expect_error.h"
#include "tests/support/gradient_checks.h"
#include "tests/support/value_rows.h"

using namespace lockstep;
using tests::arange_of;
using tests::check_close;
using tests::check_gradient;
using tests::check_rows;
using tests::expect_error;

namespace {

using Paddings = std::vector<std::pair<std::int64_t, std::int64_t>>;

}  // namespace

// Values in rows are JAX's.
TEST_CASE("convolutions with all parameters") {
  const Array x1 = arange_of({1, 6, 2}) - 5, k1 = arange_of({3, 2, 2}) * 0.5 - 2;
  check_rows({
      {"same",
       conv_general_dilated(x1, k1, {.padding = "SAME"}),
       {1, 6, 2},
       {-16, -23, 10, 2.5, 16, 14.5, 22, 26.5, 28, 38.5, -4, 5}},
      {"same, strides",
       conv_general_dilated(x1, k1, {.strides = {2}, .padding = "SAME"}),
       {1, 3, 2},
       {10, 2.5, 22, 26.5, -4, 5}},
      {"same lower",
       conv_general_dilated(x1, k1, {.strides = {2}, .padding = "SAME_LOWER"}),
       {1, 3, 2},
       {-16, -23, 16, 14.5, 28, 38.5}},
      {"explicit",
       conv_general_dilated(x1, k1, {.padding = Paddings{{2, 0}}}),
       {1, 6, 2},
       {-22, -26.5, -16, -23, 10, 2.5, 16, 14.5, 22, 26.5, 28, 38.5}},
      {"cropped",
       conv_general_dilated(x1, k1, {.padding = Paddings{{-1, 2}}}),
       {1, 5, 2},
       {16, 14.5, 22, 26.5, 28, 38.5, -4, 5, -16, -10.5}},
      {"kernel dilated",
       conv_general_dilated(x1, k1, {.padding = "SAME", .rhs_dilation = {2}}),
       {1, 6, 2},
       {-6, -11, 6, 5, 32, 30.5, 38, 42.5, 6, 9, 2, 9}},
      {"input dilated",
       conv_general_dilated(x1, k1, {.padding = Paddings{{1, 2}}, .lhs_dilation = {2}}),
       {1, 12, 2},
       {-4, -8.5, 2, -5, -2, -4.5, 6, 3, 0, -0.5, 10, 11, 2, 3.5, 14, 19, 4, 7.5, 18, 27, 6, 11.5, -16, -10.5}},
      {"input dilated, strides",
       conv_general_dilated(x1, k1, {.strides = {2}, .padding = Paddings{{1, 2}}, .lhs_dilation = {3}}),
       {1, 9, 2},
       {-4, -8.5, -12, -14.5, 8, 5.5, 0, -0.5, 8, 9.5, -4, -2.5, 4, 7.5, 28, 33.5, -16, -10.5}},
      {"input dilated, wide padding",
       conv_general_dilated(x1, k1, {.padding = Paddings{{4, 0}}, .lhs_dilation = {2}}),
       {1, 13, 2},
       {0, 0, 0, 0, -22, -26.5, -4, -8.5, 2, -5, -2, -4.5, 6, 3, 0, -0.5, 10, 11, 2, 3.5, 14, 19, 4, 7.5, 18, 27}},
      {"both dilated",
       conv_general_dilated(x1, k1, {.padding = Paddings{{3, 4}}, .lhs_dilation = {2}, .rhs_dilation = {2}}),
       {1, 14, 2},
       {0, 0, -16, -23, 0, 0, 10, 2.5, 0, 0, 16, 14.5, 0, 0, 22, 26.5, 0, 0, 28, 38.5, 0, 0, -4, 5, 0, 0, -16, -10.5}},
      {"groups, input dilated",
       conv_general_dilated(x1, arange_of({2, 1, 4}), {.lhs_dilation = {2}, .feature_group_count = 2}),
       {1, 10, 4},
       {0, -5, -8, -12, -12, -15, -12, -14, 0,  -3, -4, -6, -4, -5, 0, 0,  0,  -1, 0,  0,
        4, 5,  12, 14,  0,   1,   4,   6,   12, 15, 24, 28, 0,  3,  8, 12, 20, 25, 36, 42}},
      {"batch groups",
       conv_general_dilated(arange_of({4, 4, 1}), arange_of({2, 1, 2}), {.batch_group_count = 2}),
       {2, 3, 2},
       {2, 35, 4, 39, 6, 43, 10, 51, 12, 55, 14, 59}},
      {"three dimensions",
       conv_general_dilated(arange_of({1, 3, 3, 2, 1}), arange_of({2, 2, 1, 1, 2}),
                            {.strides = {1, 2, 1}, .padding = "SAME"}),
       {1, 3, 2, 2, 2},
       {76, 92, 88, 108, 40, 54, 44, 60, 148, 188, 160, 204, 64, 90, 68, 96, 28, 54, 30, 58, 0, 16, 0, 17}},
      {"layouts",
       conv_general_dilated(arange_of({1, 2, 4}), arange_of({3, 2, 2}), {.dimension_numbers = {"NCW", "OIW", "NCW"}}),
       {1, 3, 3},
       {24, 30, 36, 64, 86, 108, 104, 142, 180}},
      {"transposed", conv_transpose(x1, k1, {.strides = {2}}), {1, 12, 2}, {-22, -26.5, -4, -8.5, 2,  -5, -2, -4.5,
                                                                            6,   3,     0,  -0.5, 10, 11, 2,  3.5,
                                                                            14,  19,    4,  7.5,  18, 27, 6,  11.5}},
      {"transposed, valid",
       conv_transpose(x1, k1, {.strides = {2}, .padding = "VALID"}),
       {1, 13, 2},
       {-22, -26.5, -4,  -8.5, 2,  -5, -2,  -4.5, 6,  3, 0,    -0.5, 10,
        11,  2,     3.5, 14,   19, 4,  7.5, 18,   27, 6, 11.5, -16,  -10.5}},
      {"transposed, stride 3",
       conv_transpose(x1, arange_of({2, 2, 1}), {.strides = {3}}),
       {1, 18, 1},
       {-22, -4, 0, -12, -2, 0, -2, 0, 0, 8, 2, 0, 18, 4, 0, 28, 6, 0}},
      {"transposed, explicit",
       conv_transpose(x1, k1, {.strides = {2}, .padding = Paddings{{2, 1}}}),
       {1, 12, 2},
       {-22, -26.5, -4, -8.5, 2, -5, -2, -4.5, 6, 3, 0, -0.5, 10, 11, 2, 3.5, 14, 19, 4, 7.5, 18, 27, 6, 11.5}},
      {"transposed, kernel too",
       conv_transpose(x1, arange_of({3, 1, 2}), {.strides = {2}, .transpose_kernel = true}),
       {1, 12, 1},
       {-4, -22, -42, -12, -22, -2, -2, 8, 18, 18, 38, 28}},
      {"transposed, dilated",
       conv_transpose(x1, k1, {.strides = {2}, .rhs_dilation = {2}}),
       {1, 12, 2},
       {0, 0, -16, -23, 0, 0, 10, 2.5, 0, 0, 16, 14.5, 0, 0, 22, 26.5, 0, 0, 28, 38.5, 0, 0, -4, 5}},
      {"transposed, two dimensions",
       conv_transpose(arange_of({1, 2, 3, 1}), arange_of({2, 3, 1, 1}), {.strides = {2, 1}}),
       {1, 4, 3, 1},
       {5, 14, 11, 2, 5, 2, 32, 50, 32, 11, 14, 5}},
      {"depthwise", depthwise_conv(x1, arange_of({2, 1, 4})), {1, 5, 4}, {-12, -20, -20, -26, -4, -8, -4, -6, 4,  4,
                                                                          12,  14,  12,  16,  28, 34, 20, 28, 44, 54}},
      {"convolve", convolve(arange_of({5}), arange_of({3})), {7}, {0, 0, 1, 4, 7, 10, 8}},
      {"convolve same", convolve(arange_of({5}), arange_of({4}), "same"), {5}, {0, 1, 4, 10, 16}},
      {"convolve short", convolve(arange_of({2}), arange_of({4}), "valid"), {3}, {0, 1, 2}},
      {"correlate", correlate(arange_of({5}), arange_of({3})), {3}, {5, 8, 11}},
      {"correlate short", correlate(arange_of({2}), arange_of({4}), "full"), {5}, {0, 3, 2, 1, 0}},
      {"correlate same", correlate(arange_of({4}), arange_of({2}), "same"), {4}, {0, 1, 2, 3}},
  });
}

TEST_CASE("windows with all parameters") {
  const Array w =
      array(std::vector<float>{3, -1, 4, 1, -5, 9, 2, 6, -5, 3, 5, 8, 9, -7, 9, 3, 2, 3, 8, 4, 6, -2, 6, 4}, {4, 6});
  const Array image = reshape(w, {1, 4, 6, 1});
  check_rows({
      {"sum", reduce_window_sum(w, {.window = {2, 3}}), {3, 4}, {9, 8, 3, 21, 14, 9, 17, 24, 29, 13, 24, 16}},
      {"sum of strides",
       reduce_window_sum(w, {.window = {2, 3}, .strides = {2, 2}, .padding = "SAME"}),
       {2, 3},
       {9, 3, 17, 29, 24, 15}},
      {"sum dilated",
       reduce_window_sum(w, {.window = {2, 2}, .base_dilation = {2, 1}, .window_dilation = {1, 3}}),
       {6, 3},
       {4, -6, 13, 5, 11, 3, 5, 11, 3, 12, -5, 12, 12, -5, 12, 6, 10, 10}},
      {"sum cropped",
       reduce_window_sum(w, {.window = {1, 2}, .padding = Paddings{{-1, 0}, {2, -3}}}),
       {3, 4},
       {0, 2, 8, 1, 0, 9, 2, 2, 0, 8, 12, 10}},
      {"max",
       reduce_window_max(w, {.window = {2, 3}, .strides = {1, 2}, .padding = "SAME"}),
       {4, 3},
       {6, 5, 9, 9, 9, 8, 9, 9, 6, 8, 6, 6}},
      {"max dilated",
       reduce_window_max(w, {.window = {2, 2}, .padding = Paddings{{1, 0}, {0, 2}}, .window_dilation = {2, 3}}),
       {3, 5},
       {3, 6, 8, 3, 5, 9, 2, 9, 3, 2, 8, 6, 8, 3, 6}},
      {"min", reduce_window_min(w, {.window = {2, 3}}), {3, 4}, {-5, -5, -5, -5, -7, -7, -5, 2, -7, -7, -2, -2}},
      {"min of integers",
       reduce_window_min(convert(w, int8), {.window = {2, 3}}),
       {3, 4},
       {-5, -5, -5, -5, -7, -7, -5, 2, -7, -7, -2, -2}},
      {"min of unsigned",
       reduce_window_min(convert(w + 7, uint8), {.window = {2, 3}}),
       {3, 4},
       {2, 2, 2, 2, 0, 0, 2, 9, 0, 0, 5, 5}},
      {"max_pool", max_pool(image, {.window = {2, 2}}), {1, 2, 3, 1}, {6, 4, 9, 9, 9, 6}},
      {"max_pool 1d",
       max_pool(reshape(w, {4, 6, 1}), {.window = {3}, .strides = {2}, .padding = "SAME"}),
       {4, 3, 1},
       {4, 4, 9, 6, 5, 8, 9, 9, 3, 8, 6, 6}},
      {"max_pool 3d",
       max_pool(reshape(w, {1, 2, 4, 3, 1}), {.window = {2, 2, 2}, .strides = {1, 2, 1}}),
       {1, 1, 2, 2, 1},
       {9, 9, 8, 8}},
      {"min_pool", min_pool(image, {.window = {2, 2}, .dilation = {1, 2}}), {1, 2, 2, 1}, {-5, -5, 6, 2}},
      {"sum_pool",
       sum_pool(image, {.window = {3, 2}, .strides = {1, 2}, .padding = "SAME"}),
       {1, 4, 3, 1},
       {10, 3, 17, 12, 15, 22, 22, 14, 28, 14, 16, 15}},
      {"avg_pool",
       avg_pool(image, {.window = {3, 2}, .strides = {1, 2}, .padding = "SAME"}),
       {1, 4, 3, 1},
       {1.66666667, 0.5, 2.83333333, 2, 2.5, 3.66666667, 3.66666667, 2.33333333, 4.66666667, 2.33333333, 2.66666667,
        2.5}},
      {"avg_pool inside",
       avg_pool(image, {.window = {3, 2}, .strides = {1, 2}, .padding = "SAME"}, false),
       {1, 4, 3, 1},
       {2.5, 0.75, 4.25, 2, 2.5, 3.66666667, 3.66666667, 2.33333333, 4.66666667, 3.5, 4, 3.75}},
  });
  CHECK(min_pool(convert(image, int8), {.window = {2, 2}}).dtype() == int8);
}

TEST_CASE("parameters that do not fit are refused") {
  const Array x = ones({1, 6, 2}), k = ones({3, 2, 2}), w = ones({4, 6});
  expect_error<ValueError>([&] { conv_general_dilated(x, k, {.padding = "FULL"}); }, "\"FULL\"", "\"SAME_LOWER\"");
  expect_error<ShapeError>([&] { conv_general_dilated(x, k, {.padding = Paddings{{0, 0}, {0, 0}}}); }, "2 pairs for 1");
  expect_error<ShapeError>([&] { conv_general_dilated(x, k, {.strides = {0}}); }, "strides must be 1 numbers");
  expect_error<ShapeError>([&] { conv_general_dilated(x, k, {.lhs_dilation = {1, 1}}); }, "lhs_dilation");
  expect_error<ShapeError>([&] { conv_general_dilated(x, k, {.batch_group_count = 2}); }, "batch_group_count 2");
  expect_error<ShapeError>([&] { conv_general_dilated(w, k); }, "needs x [N, spatial..., C]", "[4,6]");
  expect_error<ShapeError>(
      [&] {
        conv_general_dilated(x, k, {.dimension_numbers = {"NCW", "OIX", "NCW"}});
      },
      "layout of the kernel", "\"OIX\"");
  expect_error<ShapeError>(
      [&] {
        conv_general_dilated(x, k, {.dimension_numbers = {"NWC", "WIO", "NW"}});
      },
      "layout of the result", "\"NW\"");
  expect_error<ValueError>([&] { conv_transpose(x, k, {.padding = "SAME_LOWER"}); }, "conv_transpose", "SAME_LOWER");
  expect_error<ShapeError>([&] { conv_transpose(w, k); }, "conv_transpose", "[4,6]");
  expect_error<ShapeError>([&] { conv_transpose(x, k, {.groups = 3}); }, "conv_transpose: 3 groups", "divide");
  expect_error<ShapeError>([&] { conv_transpose(x, k, {.groups = 0}); }, "conv_transpose: 0 groups");
  expect_error<ValueError>([&] { conv_transpose(x, k, {.strides = {2}, .output_padding = {2}}); },
                           "output_padding is [2] with strides [2] and dilations [1]", "below one of these");
  expect_error<ValueError>([&] { conv_transpose(x, k, {.output_padding = {0, 0}}); }, "output_padding is [0,0]");
  expect_error<ShapeError>([&] { depthwise_conv(x, k); }, "depthwise_conv", "[3,2,2]");
  expect_error<ShapeError>([&] { convolve(w, w); }, "convolve", "two vectors");
  expect_error<ValueError>([] { correlate(ones({3}), ones({2}), "all"); }, "correlate", "\"all\"");
  expect_error<ShapeError>([&] { reduce_window_sum(w, {.window = {2}}); }, "window must be 2 numbers");
  expect_error<ShapeError>([&] { reduce_window_sum(w, {}); }, "a window must be given");
  expect_error<ShapeError>([] { reduce_window_max(ones({}), {.window = {1}}); }, "rank 1 to 10");
  expect_error<ShapeError>(
      [&] {
        reduce_window_max(w, {.window = {1, 2}, .padding = Paddings{{1, 0}, {0, 0}}});
      },
      "an element of x in every window");
  expect_error<ShapeError>([&] { max_pool(w, {.window = {2}}); }, "max_pool", "[4,6]");
  expect_error<ShapeError>([&] { avg_pool(x, {.window = {2, 2}}); }, "avg_pool", "window must be 1 numbers");
  expect_error<ShapeError>([&] { sum_pool(x, {}); }, "sum_pool", "a window must be given");
}

TEST_CASE("the derivatives of convolutions and windows") {
  const Array x = tests::wavy({1, 5, 2}), k = tests::wavy({3, 2, 2}, 1);
  const auto dilated = [](const Array& a, const Array& b) {
    return conv_general_dilated(a, b, {.padding = Paddings{{1, 2}}, .lhs_dilation = {2}});
  };
  check_gradient([&](const Array& a) { return dilated(a, k); }, x);
  check_gradient([&](const Array& b) { return dilated(x, b); }, k);
  check_gradient(
      [&](const Array& a) {
        return conv_general_dilated(a, k, {.strides = {2}, .padding = Paddings{{-1, 3}}, .lhs_dilation = {3}});
      },
      x);
  check_gradient([&](const Array& a) { return conv_transpose(square(a), k, {.strides = {2}}); }, x, 2);
  check_gradient([&](const Array& b) { return convolve(tests::wavy({4}), b); }, tests::wavy({3}, 2));
  check_gradient([](const Array& a) { return min_pool(a, {.window = {2}, .strides = {1}, .dilation = {2}}); }, x);
  check_gradient([](const Array& a) { return max_pool(a, {.window = {3}, .padding = "SAME"}); }, x);
  check_gradient([](const Array& a) { return avg_pool(a, {.window = {3}, .padding = "SAME"}, false); }, x);
  check_gradient(
      [](const Array& a) {
        return reduce_window_sum(square(a), {.window = {1, 2, 2}, .base_dilation = {1, 2, 1}});
      },
      x);
}

TEST_CASE("windows over a batch") {
  const Array x = arange_of({2, 1, 6, 2});
  const auto f = [](const Array& a) { return sum_pool(a, {.window = {2}, .strides = {3}, .dilation = {2}}); };
  check_close(vmap(f)(x), {2, 1, 2, 2}, {4, 6, 16, 18, 28, 30, 40, 42});
}
