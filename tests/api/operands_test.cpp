#include <cstdint>
#include <limits>

#include <doctest/doctest.h>

#include <lockstep/arithmetic.h>
#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/grids.h>
#include <lockstep/manipulation.h>
#include <lockstep/ops.h>
#include <lockstep/random.h>
#include <lockstep/reductions.h>
#include <lockstep/transforms.h>
#include <lockstep/tree.h>
#include <lockstep/vision/image.h>
#include <lockstep/weak_types.h>

#include "tests/support/array_values.h"
#include "tests/support/expect_error.h"

using namespace lockstep;
using tests::check_close;
using tests::expect_error;

TEST_CASE("an array takes the shape of another, has remainders, and is added to as a value") {
  const Array x = arange(std::int64_t{6}, float32), y = zeros({2, 3}, int32);
  CHECK(reshape(x, y.shape()).type() == ArrayType{float32, {2, 3}, {}});
  CHECK(reshape(x, {3, 2}).shape() == Shape{3, 2});
  CHECK(reshape(x, {-1}).shape() == Shape{6});
  CHECK(reshape(array(1.0F), Shape{}).shape() == Shape{});
  expect_error<ShapeError>([&] { reshape(x, Shape{4}); }, "reshape");
  check_close(array({-7.0F, 7.0F, 5.5F}) % 3, {3}, {2, 1, 2.5});
  check_close(array({-7, 7, 5}) % array({3, -3, 0}), {3}, {2, -2, 0});
  check_close(7 % array({4}), {1}, {3});

  Array sum = array({1.0F, 2.0F});
  const Array before = sum;
  sum += 1;
  sum *= array({2.0F, 3.0F});
  check_close(sum, {2}, {4, 9});
  check_close(before, {2}, {1, 2});
  sum -= sum;
  check_close(sum, {2}, {0, 0});
  sum += zeros({3, 1});  // broadcasts, as x = x + y
  CHECK(sum.shape() == Shape{3, 2});
  Array count = array({7, 9});
  count %= 4;
  check_close(count, {2}, {3, 1});
  count /= 2;
  CHECK(count.type() == ArrayType{float32, {2}, {}});
  check_close(count, {2}, {1.5, 0.5});
  const auto cubed = [](const Array& v) {
    Array product = v;
    for (int i = 0; i < 2; ++i) product *= v;
    return product;
  };
  check_close(grad(cubed)(array(2.0F)), {}, {12});
  check_close(jit(cubed)(array(2.0F)), {}, {8});
}

TEST_CASE("a function is mapped over the leaves of several trees") {
  const auto of = [](float value) {
    return Tree::dict({{"a", Tree(array(value))}, {"b", Tree::list({Tree(array(10 * value))})}});
  };
  const Tree three = map([](const Array& x, const Array& y, const Array& z) { return x + y * z; }, of(1), of(2), of(3));
  check_close(three.at("a").array(), {}, {7});
  check_close(three.at("b/0").array(), {}, {610});
  const Tree four = map([](const Array& x, const Array& y, const Array& z, const Array& w) { return x + y + z + w; },
                        of(1), of(2), of(3), of(4));
  check_close(four.at("b/0").array(), {}, {100});
  const auto first = [](const Array& x, const Array&, const Array&) { return x; };
  expect_error<StateError>([&] { static_cast<void>(map(first, of(1), of(2), Tree(array(1.0F)))); },
                           "map: the trees differ at \"\"", "in tree 3; all need one structure");
}

TEST_CASE("arrays promote to one dtype, scalars give way") {
  struct Row {
    Operand a;
    Operand b;
    DType expected;
    double value;
  };
  const auto one = [](DType dtype) { return convert(array(1.0f), dtype); };
  const std::vector<Row> rows = {
      {one(float32), one(float32), float32, 2},
      {one(int32), one(int64), int64, 2},
      {one(int32), one(float32), float32, 2},
      {one(int64), one(float16), float16, 2},
      {one(float16), one(bfloat16), float32, 2},
      {one(uint8), one(int8), int16, 2},
      {one(uint32), one(int32), int64, 2},
      {one(float32), one(float64), float64, 2},
      {one(float32), 1.5, float32, 2.5},
      {one(float16), 2, float16, 3},
      {one(bfloat16), 2.5, bfloat16, 3.5},
      {one(int32), 1.5, float32, 2.5},
      {one(int64), 2, int64, 3},
      {one(uint8), 2, uint8, 3},
      {one(int32), true, int32, 2},
      {one(float64), 0.1f, float64, 1 + static_cast<double>(0.1f)},
      {one(bool_), 2, int32, 3},
      {1, 2, int32, 3},
      {1, 2.5, float32, 3.5},
  };
  for (const Row& row : rows) {
    for (const auto& [a, b] : {std::pair(row.a, row.b), std::pair(row.b, row.a)}) {
      const Array sum = add(a, b);
      CHECK(name(sum.dtype()) == name(row.expected));
      check_close(sum, {}, {row.value});
    }
  }
}

TEST_CASE("integers become floats where the function needs floats") {
  for (const DType dtype : {bool_, int8, int32, int64, uint32}) {
    const Array one = convert(array(1.0f), dtype);
    CAPTURE(name(dtype));
    check_close(exp(one), {}, {2.718281828});
    CHECK(exp(one).dtype() == float32);
    CHECK(sqrt(one).dtype() == float32);
    CHECK(pow(one, one).dtype() == float32);
    CHECK(fma(one, one, one).dtype() == float32);
    CHECK(is_finite(one).dtype() == bool_);
    CHECK(maximum(one, one).dtype() == dtype);
    CHECK((one / one).dtype() == float32);
    CHECK(mean(one).dtype() == float32);
    CHECK(softmax(expand_dims(one, 0)).dtype() == float32);
  }
  CHECK(exp(array(1.0)).dtype() == float64);
  CHECK(floor(array(3)).dtype() == int32);
  CHECK(round(array(3)).dtype() == int32);
}

TEST_CASE("true division and truncating division") {
  const Array a = array({7, -7});
  const Array b = array({2, 2});
  check_close(a / b, {2}, {3.5, -3.5});
  CHECK(div(a, b).dtype() == int32);
  check_close(div(a, b), {2}, {3, -3});
  check_close(a / 2, {2}, {3.5, -3.5});
}

TEST_CASE("shapes broadcast as in numpy") {
  struct Row {
    Shape a;
    Shape b;
    Shape expected;
  };
  for (const Row& row : {Row{{2, 3}, {3}, {2, 3}}, Row{{2, 1}, {1, 3}, {2, 3}}, Row{{}, {2, 2}, {2, 2}},
                         Row{{4, 1, 3}, {2, 1}, {4, 2, 3}}, Row{{0, 3}, {1, 3}, {0, 3}}, Row{{1}, {0}, {0}}}) {
    CHECK((ones(row.a) + ones(row.b)).shape() == row.expected);
    CHECK((ones(row.b) + ones(row.a)).shape() == row.expected);
  }
  check_close(array({1.f, 2.f, 3.f}) * reshape(array({1.f, 10.f}), {2, 1}), {2, 3}, {1, 2, 3, 10, 20, 30});
  check_close(fma(array({1.f, 2.f}), 3, reshape(array({1.f, 2.f}), {2, 1})), {2, 2}, {4, 7, 5, 8});
  expect_error<ShapeError>([] { ones({2, 3}) + ones({2}); }, "add", "[2,3]", "[2]");
  expect_error<ShapeError>([] { broadcast_to(ones({2, 3}), {3}); }, "broadcast_to", "[2,3]", "[3]");
  expect_error<ShapeError>([] { broadcast_to(ones({3}), {1}); }, "broadcast_to", "[3]", "[1]");
}

TEST_CASE("a scalar that its dtype cannot hold is refused") {
  const Array small = convert(array({1, 2}), uint8);
  expect_error<ValueError>([&] { small + 300; }, "add", "300", "uint8");
  expect_error<ValueError>([&] { small - (-1); }, "sub", "-1", "uint8");
  expect_error<ValueError>([] { full({2}, 200, int8); }, "full", "200", "int8");
  check_close(small + 253, {2}, {254, 255});
  CHECK(full({}, -1, int64).item<std::int64_t>() == -1);
}

TEST_CASE("comparisons and choice") {
  const Array x = array({-1.f, 0.f, 2.f});
  check_close(x < 0, {3}, {1, 0, 0});
  check_close(x <= 0.0, {3}, {1, 1, 0});
  check_close(x > 0, {3}, {0, 0, 1});
  check_close(x >= 0, {3}, {0, 1, 1});
  check_close(x == 0, {3}, {0, 1, 0});
  check_close(x != x, {3}, {0, 0, 0});
  CHECK((x < 0).dtype() == bool_);
  check_close(where(x > 0, x, 7), {3}, {7, 7, 2});
  check_close(where(array({1, 0, 2}), 1.5, 2), {3}, {1.5, 2, 1.5});
  check_close(where(x > 0, reshape(x, {3, 1}), 0), {3, 3}, {0, 0, -1, 0, 0, 0, 0, 0, 2});
  check_close(clip(x, -0.5, 1), {3}, {-0.5, 0, 1});
  check_close((x > 0) | (x < 0), {3}, {1, 0, 1});
  check_close(~(x > 0), {3}, {1, 1, 0});
  check_close(array({6, 3}) & 2, {2}, {2, 2});
  check_close(array({6, 3}) ^ 1, {2}, {7, 2});
}

TEST_CASE("dtype errors name the op") {
  expect_error<DtypeError>([] { bitwise_and(ones({2}), ones({2})); }, "bitwise_and", "f32[2]");
  expect_error<ValueError>([] { add(Array(), 1); }, "holds nothing");
}

TEST_CASE("integers of 64 bits without a sign keep their value, and uint64 takes no negative one") {
  const std::uint64_t top = std::numeric_limits<std::uint64_t>::max();
  CHECK(add(zeros({}, uint64), top).item<std::uint64_t>() == top);
  CHECK(add(zeros({}), top).item<float>() == 0x1p64F);
  CHECK(add(zeros({}, float64), top).item<double>() == 0x1p64);
  CHECK(full({}, (std::uint64_t{1} << 63) + (std::uint64_t{1} << 39) + 1).item<float>() == 0x1.000002p63F);
  CHECK(power(array(2.F), top).item<float>() == std::numeric_limits<float>::infinity());
  CHECK(random::randint(random::key(0), {}, top, top, int64).item<std::int64_t>() ==
        std::numeric_limits<std::int64_t>::max());
  for (const DType dtype : {int8, uint8, int32, uint32, int64}) {
    CAPTURE(name(dtype));
    expect_error<ValueError>([&] { add(zeros({}, dtype), top); }, "add", "18446744073709551615", name(dtype));
  }
  expect_error<ValueError>([] { add(zeros({}, uint64), -1); }, "add", "-1", "uint64");
  expect_error<ValueError>([&] { weak_scalar(top); }, "18446744073709551615", "int64");
  const auto sum = jit([](const Array& x, const Array& y) { return x + y; });
  expect_error<ValueError>([&] { sum(zeros({}), top); }, "18446744073709551615", "int64");
  expect_error<ValueError>([&] { sum(zeros({}, uint64), -1); }, "-1", "uint64");
}

TEST_CASE("integers of few bits do not wrap on the way to what they mean") {
  const Array v = ones({3});
  for (const DType dtype : {int8, uint8, uint16, uint32, uint64}) {
    CAPTURE(name(dtype));
    check_close(ldexp(v, convert(array({0, 1, 3}), dtype)), {3}, {1, 2, 8});
  }
  const Array y = ones({3}, int8);
  check_close(trapezoid(y, convert(array({200, 100, 0}), uint8)), {}, {-200});
  check_close(trapezoid(y, convert(array({100, 0, -100}), int8)), {}, {-200});
  CHECK(trapezoid(y, ones({3}, float16)).dtype() == float16);
  // What int32 does not hold lies outside as well, and is not taken modulo 2^32.
  const Array far = array({std::int64_t{1} << 32, -(std::int64_t{1} << 32)}), last = array({0xffffffffU, 5U});
  check_close(ravel_multi_index({far, last}, {3, 4}), {2}, {11, 3});
  check_close(ravel_multi_index({far, last}, {3, 5}, IndexMode::wrap), {2}, {5, 10});
}

TEST_CASE("functions of several steps round to a narrow dtype once") {
  const auto narrow = [](const Array& x) { return convert(x, bfloat16); };
  const auto check_rounded = [&](const Array& given, const Array& wide) {
    CHECK(given.dtype() == bfloat16);
    CHECK(array_equal(given, narrow(wide)).item<bool>());
  };
  const Array x = narrow(array({-0.55078125F, -35.F, 2.140625F})), wide = convert(x, float32);
  check_rounded(unwrap(x), unwrap(wide));
  check_rounded(gradient(x, 0, 0.1), gradient(wide, 0, 0.1));
  const Array places = narrow(array({0.F, 1.F, 3.F})), at = narrow(array({0.3F, 1.7F}));
  check_rounded(interp(at, places, x), interp(convert(at, float32), convert(places, float32), wide));
  check_rounded(trapezoid(x, places), trapezoid(wide, convert(places, float32)));
  const Array ends = array({0.F, 1000.F});  // a narrow dtype does not even count the bins
  check_rounded(histogram(narrow(ends), 1000).second, histogram(ends, 1000).second);
  const Array sampled = image::map_coordinates(array({0U, 0x80000000U}), {convert(array({0.5F}), float16)});
  CHECK(sampled.item<std::uint32_t>() == 0x40000000U);
}

TEST_CASE("making arrays") {
  check_close(full({2}, 1.5), {2}, {1.5, 1.5});
  CHECK(full({2}, 1).dtype() == float32);
  CHECK(zeros({2}, int8).dtype() == int8);
  check_close(full({2, 2}, array({1.f, 2.f})), {2, 2}, {1, 2, 1, 2});
  check_close(ones_like(array({1, 2})), {2}, {1, 1});
  CHECK(ones_like(array({1, 2})).dtype() == int32);
  check_close(zeros_like(ones({2})), {2}, {0, 0});
  check_close(full_like(ones({2}), 3), {2}, {3, 3});
  check_close(arange(4), {4}, {0, 1, 2, 3});
  check_close(iota({2, 3}, -1, float32), {2, 3}, {0, 1, 2, 0, 1, 2});
  check_close(iota({2, 3}, 0), {2, 3}, {0, 0, 0, 1, 1, 1});
  check_close(eye(3), {3, 3}, {1, 0, 0, 0, 1, 0, 0, 0, 1});
  CHECK(array(std::vector<bool>{true, false}).to_vector<bool>() == std::vector<bool>{true, false});
  CHECK(array(std::vector<float>{}).shape() == Shape{0});
  expect_error<ShapeError>([] { array(std::vector<float>{1, 2, 3}, Shape{2}); }, "from_bytes", "8 bytes", "12");
}

TEST_CASE("conversions") {
  check_close(convert(array({1.7f, -1.7f}), int32), {2}, {1, -1});
  check_close(convert(array({0.f, 0.5f}), bool_), {2}, {0, 1});
  CHECK(bitcast_convert(array(1.0f), uint32).item<std::uint32_t>() == 0x3f800000);
  check_close(square(array({2.f, -3.f})), {2}, {4, 9});
}
