#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "tests/support/arange_of.h"
#include "tests/support/array_values.h"
#include "tests/support/expect_error.h"
#include "tests/support/non_finite.h"

using namespace lockstep;
using tests::arange_of;
using tests::check_close;
using tests::expect_error;
using tests::float_infinity;
using tests::float_not_a_number;

TEST_CASE("shape composites") {
  const Array x = arange_of({2, 3});
  struct Row {
    const char* what;
    Array given;
    Shape shape;
    std::vector<double> expected;
  };
  const std::vector<Array> pair = {x, x + 10};
  const std::vector<Row> rows = {
      {"reshape", reshape(x, {3, -1}), {3, 2}, {0, 1, 2, 3, 4, 5}},
      {"transpose", transpose(x), {3, 2}, {0, 3, 1, 4, 2, 5}},
      {"transpose by permutation", transpose(x, {-1, 0}), {3, 2}, {0, 3, 1, 4, 2, 5}},
      {"moveaxis", moveaxis(arange_of({2, 1, 3}), 2, 0), {3, 2, 1}, {0, 3, 1, 4, 2, 5}},
      {"moveaxis forth", moveaxis(arange_of({2, 1, 3}), 0, -1), {1, 3, 2}, {0, 3, 1, 4, 2, 5}},
      {"swapaxes", swapaxes(arange_of({2, 1, 3}), 0, 2), {3, 1, 2}, {0, 3, 1, 4, 2, 5}},
      {"expand_dims", expand_dims(x, -1), {2, 3, 1}, {0, 1, 2, 3, 4, 5}},
      {"expand_dims front", expand_dims(x, 0), {1, 2, 3}, {0, 1, 2, 3, 4, 5}},
      {"squeeze", squeeze(arange_of({1, 2, 1}), {0, -1}), {2}, {0, 1}},
      {"squeeze one", squeeze(arange_of({1, 2, 1}), -1), {1, 2}, {0, 1}},
      {"flatten", flatten(arange_of({2, 2, 2})), {2, 4}, {0, 1, 2, 3, 4, 5, 6, 7}},
      {"flatten rank 1", flatten(arange_of({2})), {2, 1}, {0, 1}},
      {"flatten empty", flatten(zeros({0, 2, 3})), {0, 6}, {}},
      {"broadcast_to", broadcast_to(arange_of({3}), {2, 3}), {2, 3}, {0, 1, 2, 0, 1, 2}},
      {"concatenate", concatenate({x, arange_of({1, 3})}, 0), {3, 3}, {0, 1, 2, 3, 4, 5, 0, 1, 2}},
      {"concatenate last", concatenate({x, x}, -1), {2, 6}, {0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}},
      {"concatenate promotes", concatenate({arange(2), arange_of({1})}, 0), {3}, {0, 1, 0}},
      {"stack", stack(pair, 0), {2, 2, 3}, {0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15}},
      {"stack last", stack(pair, -1), {2, 3, 2}, {0, 10, 1, 11, 2, 12, 3, 13, 4, 14, 5, 15}},
      {"split", split(x, 3, 1)[1], {2, 1}, {1, 4}},
      {"slice", slice(x, {0, 0}, {2, 3}, {1, 2}), {2, 2}, {0, 2, 3, 5}},
      {"slice_in_dim", slice_in_dim(x, 1, 3, -1), {2, 2}, {1, 2, 4, 5}},
      {"pad", pad(x, 9, {0, 1}, {1, 0}), {3, 4}, {9, 0, 1, 2, 9, 3, 4, 5, 9, 9, 9, 9}},
      {"reverse", reverse(x, {-1}), {2, 3}, {2, 1, 0, 5, 4, 3}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    check_close(row.given, row.shape, row.expected, 0);
  }
  const std::vector<Array> start = {array(5), array(1)};
  check_close(dynamic_slice(x, start, {1, 2}), {1, 2}, {4, 5}, 0);
}

TEST_CASE("a real number that an integer dtype has not is refused, as an integer is") {
  const double infinite = std::numeric_limits<double>::infinity();
  for (const double value : {infinite, -infinite, std::nan(""), 3e9, -3e9, 1e300}) {
    expect_error<ValueError>([&] { full({2}, value, int32); }, "does not fit int32");
  }
  expect_error<ValueError>([&] { full({2}, 1e19, int64); }, "does not fit int64");
  expect_error<ValueError>([&] { full({2}, -1.0, uint8); }, "does not fit uint8");
  CHECK(full({2}, 2.75, int32).to_vector<std::int32_t>() == std::vector<std::int32_t>{2, 2});  // as numpy.full
}

TEST_CASE("shape composites refuse what does not fit") {
  const Array x = arange_of({2, 3});
  expect_error<ShapeError>([&] { reshape(x, {4, -1}); }, "reshape", "[2,3]", "[4,-1]");
  expect_error<ShapeError>([&] { reshape(x, {-1, -1}); }, "only one extent may be -1");
  expect_error<ShapeError>([&] { reshape(x, {5}); }, "reshape");
  expect_error<ShapeError>([&] { transpose(x, {0}); }, "transpose", "1 entries", "[2,3]");
  expect_error<ShapeError>([&] { transpose(x, {0, 0}); }, "[0,0] is no permutation");
  expect_error<ShapeError>([&] { squeeze(x, {0}); }, "squeeze", "extent 2");
  expect_error<ShapeError>([&] { flatten(array(1.f)); }, "flatten", "scalar");
  expect_error<ValueError>([&] { concatenate(std::vector<Array>{}, 0); }, "concatenate", "no arrays");
  expect_error<ShapeError>([&] { concatenate({array(1.f)}, 0); }, "use stack");
  expect_error<ShapeError>([&] { stack(std::vector<Array>{x, arange_of({2})}, 0); }, "stack", "[2,3]", "[2]");
  expect_error<ValueError>([&] { stack(std::vector<Array>{}, 0); }, "stack", "no arrays");
  expect_error<ShapeError>([&] { split(x, 2, 1); }, "split", "2 parts", "[2,3]");
  expect_error<ShapeError>([&] { slice(x, {0}, {1}); }, "slice", "start has 1 entries");
  expect_error<ShapeError>([&] { moveaxis(x, 2, 0); }, "moveaxis");
  // numpy: "repeated axis in `destination` argument".
  expect_error<ShapeError>([&] { moveaxis(x, {0, 1}, {0, 0}); }, "moveaxis: axes [0,1] to [0,0] name one twice");
  expect_error<ShapeError>([&] { moveaxis(x, {0, -2}, {0, 1}); }, "name one twice");
  expect_error<ShapeError>([&] { sum(x, Axes{2}); }, "sum");
  expect_error<ShapeError>([&] { sum(x, Axes{0, -2}); }, "sum", "twice");
}

TEST_CASE("reductions") {
  const Array x = arange_of({2, 3});
  struct Row {
    const char* what;
    Array given;
    Shape shape;
    std::vector<double> expected;
  };
  const std::vector<Row> rows = {
      {"sum", sum(x), {}, {15}},
      {"sum of an axis", sum(x, Axes{0}), {3}, {3, 5, 7}},
      {"sum of one axis, unbraced", sum(x, 0), {3}, {3, 5, 7}},
      {"sum of one axis, braced", sum(x, {0}), {3}, {3, 5, 7}},
      {"sum of both", sum(x, {0, 1}), {}, {15}},
      {"sum of whatever there is", sum(x, {}), {}, {15}},
      {"sum keeps", sum(x, -1, true), {2, 1}, {3, 12}},
      {"sum of no axes", sum(x, Axes{}), {2, 3}, {0, 1, 2, 3, 4, 5}},
      {"sum of nothing", sum(zeros({0, 2}), Axes{0}), {2}, {0, 0}},
      {"prod", prod(x + 1, Axes{1}), {2}, {6, 120}},
      {"max", max(x, Axes{0}), {3}, {3, 4, 5}},
      {"min keeps", min(x, std::nullopt, true), {1, 1}, {0}},
      {"max of NaN", max(array({1.f, float_not_a_number})), {}, {float_not_a_number}},
      {"mean", mean(x, Axes{1}), {2}, {1, 4}},
      {"mean of nothing", mean(zeros({0})), {}, {float_not_a_number}},
      {"var", var(x), {}, {35.0 / 12}},
      {"var of an axis", var(x, Axes{0}, true), {1, 3}, {2.25, 2.25, 2.25}},
      {"var far from 0", var(array({1000001.f, 1000002.f, 1000003.f})), {}, {2.0 / 3}},
      {"all", all(array({1, 2, 0})), {}, {0}},
      {"all of an axis", all(x >= 0, Axes{1}), {2}, {1, 1}},
      {"any", any(array({0, 0, 3})), {}, {1}},
      {"any false", any(x < 0, Axes{0}), {3}, {0, 0, 0}},
      {"argmax", argmax(array({1.f, 3.f, 3.f}), 0), {}, {1}},
      {"argmin", argmin(x, -1), {2}, {0, 0}},
      {"logsumexp", logsumexp(array({0.f, 0.f})), {}, {0.6931471805599453}},
      {"logsumexp large", logsumexp(array({1000.f, 1000.f})), {}, {1000.6931471805599}},
      {"logsumexp of -inf", logsumexp(array({-float_infinity, -float_infinity})), {}, {-float_infinity}},
      {"logsumexp of inf", logsumexp(array({float_infinity, 0.f})), {}, {float_infinity}},
      {"logsumexp keeps", logsumexp(x, Axes{1}, true), {2, 1}, {2.40760596, 5.40760596}},
      {"top_k values", top_k(array({1.f, 5.f, 3.f}), 2).first, {2}, {5, 3}},
      {"top_k indices", top_k(array({1.f, 5.f, 3.f}), 2).second, {2}, {1, 2}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    check_close(row.given, row.shape, row.expected);
  }
}

static_assert(!std::is_convertible_v<bool, OptionalAxes>, "sum(x, true) would take axis 1 for `keep`");

TEST_CASE("the dtype of a reduction") {
  struct Row {
    DType dtype;
    DType sum;
    DType mean;
  };
  for (const Row& row :
       {Row{bool_, int32, float32}, Row{int8, int32, float32}, Row{uint8, uint32, float32}, Row{int32, int32, float32},
        Row{int64, int64, float32}, Row{float16, float16, float16}, Row{bfloat16, bfloat16, bfloat16},
        Row{float32, float32, float32}, Row{float64, float64, float64}}) {
    CAPTURE(name(row.dtype));
    const Array x = ones({3}, row.dtype);
    CHECK(sum(x).dtype() == row.sum);
    CHECK(mean(x).dtype() == row.mean);
    CHECK(var(x).dtype() == row.mean);
    check_close(sum(x), {}, {3});
    check_close(mean(x), {}, {1});
  }
  CHECK(argmax(ones({2}), 0, int64).dtype() == int64);
  check_close(mean(full({70000}, 2, float16)), {}, {2});
  check_close(mean(full({1024}, 100, float16)), {}, {100});
}

TEST_CASE("products") {
  const Array m = arange_of({2, 3});
  struct Row {
    const char* what;
    Array given;
    Shape shape;
    std::vector<double> expected;
  };
  const std::vector<Row> rows = {
      {"matrices", matmul(m, transpose(m)), {2, 2}, {5, 14, 14, 50}},
      {"vectors", matmul(arange_of({3}), arange_of({3})), {}, {5}},
      {"matrix vector", matmul(m, arange_of({3})), {2}, {5, 14}},
      {"vector matrix", matmul(arange_of({2}), m), {3}, {3, 4, 5}},
      {"batch matrix", matmul(arange_of({2, 1, 2}), arange_of({2, 2})), {2, 1, 2}, {2, 3, 6, 11}},
      {"matrix batch", matmul(arange_of({1, 2}), arange_of({2, 2, 2})), {2, 1, 2}, {2, 3, 6, 7}},
      {"vector batch", matmul(arange_of({2}), arange_of({2, 2, 2})), {2, 2}, {2, 3, 6, 7}},
      {"batch batch", matmul(arange_of({2, 1, 1, 2}), arange_of({3, 2, 1})), {2, 3, 1, 1}, {1, 3, 5, 3, 13, 23}},
      {"mixed dtypes", matmul(arange(2), array({0.5f, 2.f})), {}, {2}},
      {"dot_general", dot_general(m, m, {{0, 1}, {0, 1}}), {}, {55}},
      {"dot_general batched", dot_general(m, m, {{-1}, {1}}, {{0}, {0}}), {2}, {5, 50}},
      {"take_rows", take_rows(m, array({1, 0, 1})), {3, 3}, {3, 4, 5, 0, 1, 2, 3, 4, 5}},
      {"take_along_axis", take_along_axis(m, array(std::vector<int>{2, 0}, {2, 1}), -1), {2, 1}, {2, 3}},
      {"one_hot", one_hot(array({2, 0, 5}), 3), {3, 3}, {0, 0, 1, 1, 0, 0, 0, 0, 0}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    check_close(row.given, row.shape, row.expected, 0);
  }
  CHECK(one_hot(array({1}), 2, bool_).dtype() == bool_);
  expect_error<ShapeError>([&] { matmul(m, m); }, "matmul", "[2,3]", "3 and 2");
  expect_error<ShapeError>([&] { matmul(m, array(1.f)); }, "matmul", "rank 1 or more");
  expect_error<DtypeError>([] { one_hot(ones({2}), 3); }, "one_hot", "f32[2]");
  expect_error<ValueError>([] { one_hot(array({1}), -1); }, "one_hot", "-1");
}

TEST_CASE("convolutions and windows") {
  const Array x = arange_of({1, 3, 3, 1});
  check_close(conv(x, ones({2, 2, 1, 1})), {1, 2, 2, 1}, {8, 12, 20, 24});
  check_close(conv(x, ones({1, 1, 1, 2}), {.strides = {2, 2}}), {1, 2, 2, 2}, {0, 0, 2, 2, 6, 6, 8, 8});
  check_close(conv(x, ones({3, 3, 1, 1}), {.padding = {{1, 1}, {1, 1}}}), {1, 3, 3, 1},
              {8, 15, 12, 21, 36, 27, 20, 33, 24});
  check_close(window_max(x, {.window = {2, 2}, .strides = {1, 1}}), {1, 2, 2, 1}, {4, 5, 7, 8});
  check_close(window_max(x, {.window = {2, 2}}), {1, 1, 1, 1}, {4});
  check_close(window_mean(x, {.window = {2, 2}, .strides = {1, 1}}), {1, 2, 2, 1}, {2, 3, 5, 6});
  check_close(window_mean(x, {.window = {2, 2}, .strides = {2, 2}, .padding = {{1, 0}, {1, 0}}}), {1, 2, 2, 1},
              {0, 1.5, 4.5, 6});
  expect_error<ShapeError>([] { conv(ones({2, 3}), ones({2, 2})); }, "conv", "[2,3]");
  expect_error<ShapeError>([&] { conv(x, ones({2, 2, 1, 1}), {.strides = {1}}); }, "conv", "strides has 1 entries");
  expect_error<ShapeError>([&] { window_max(x, {.window = {2}}); }, "window_max", "window has 1 entries");
  expect_error<ShapeError>([&] { window_mean(x, {.window = {2, 2}, .padding = {{0, 0}}}); }, "padding has 1 entries");
}

TEST_CASE("activations") {
  const Array x = array({-2.f, 0.f, 3.f});
  struct Row {
    const char* what;
    Array given;
    std::vector<double> expected;
  };
  const std::vector<Row> rows = {
      {"relu", relu(x), {0, 0, 3}},
      {"relu of NaN",
       relu(array({float_not_a_number, -float_infinity, float_infinity})),
       {float_not_a_number, 0, float_infinity}},
      {"sigmoid", sigmoid(x), {0.11920292, 0.5, 0.95257413}},
      {"silu", silu(x), {-0.23840584, 0, 2.85772238}},
      {"softplus", softplus(x), {0.12692801, 0.69314718, 3.04858735}},
      {"softplus far out", softplus(array({-200.f, 0.f, 200.f})), {0, 0.69314718, 200}},
      {"gelu", gelu(x), {-0.04540231, 0, 2.99636261}},
      {"gelu exact", gelu(x, false), {-0.04550026, 0, 2.99595031}},
      {"softmax", softmax(x), {0.00637746, 0.04712342, 0.94649912}},
      {"softmax large", softmax(x + 1000), {0.00637746, 0.04712342, 0.94649912}},
      {"log_softmax", log_softmax(x), {-5.05498517, -3.05498517, -0.05498517}},
      {"log_softmax far apart", log_softmax(array({0.f, -200.f, -400.f})), {0, -200, -400}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    check_close(row.given, {3}, row.expected);
  }
  check_close(softmax(arange_of({2, 2}), 0), {2, 2}, {0.11920292, 0.11920292, 0.88079708, 0.88079708});
  CHECK(relu(array({1, -1})).dtype() == int32);
}
