#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/error.h>
#include <lockstep/indexing.h>
#include <lockstep/ops.h>
#include <lockstep/random.h>
#include <lockstep/transforms.h>

#include "tests/support/arange_of.h"
#include "tests/support/array_values.h"
#include "tests/support/expect_error.h"
#include "tests/support/gradient_checks.h"
#include "tests/support/non_finite.h"
#include "tests/support/value_rows.h"

using namespace lockstep;
using tests::arange_of;
using tests::check_close;
using tests::check_gradient;
using tests::check_rows;
using tests::expect_error;
using tests::float_infinity;
using tests::float_not_a_number;

// Values in rows are JAX's.
TEST_CASE("reading by index") {
  const Array x = arange_of({3, 4}), v = arange_of({5}), t = arange_of({2, 3, 4});
  check_rows({
      {"integer", index(x, {1}), {4}, {4, 5, 6, 7}},
      {"negative integer", index(x, {-1, -2}), {}, {10}},
      {"slice", index(x, {Slice{1, 3}}), {2, 4}, {4, 5, 6, 7, 8, 9, 10, 11}},
      {"slice to the end", index(v, {Slice{.start = 2}}), {3}, {2, 3, 4}},
      {"negative bounds", index(v, {Slice{-3, -1}}), {2}, {2, 3}},
      {"step", index(v, {Slice{.step = 2}}), {3}, {0, 2, 4}},
      {"backward", index(v, {Slice{.step = -1}}), {5}, {4, 3, 2, 1, 0}},
      {"backward by two", index(v, {Slice{4, 0, -2}}), {2}, {4, 2}},
      {"backward from the middle", index(v, {Slice{.start = 2, .step = -2}}), {2}, {2, 0}},
      {"beyond both ends", index(v, {Slice{-9, 9}}), {5}, {0, 1, 2, 3, 4}},
      {"empty slice", index(v, {Slice{3, 1}}), {0}, {}},
      {"second dimension", index(x, {Slice{}, 2}), {3}, {2, 6, 10}},
      {"newaxis", index(v, {Slice{1, 3}, newaxis}), {2, 1}, {1, 2}},
      {"newaxis first", index(x, {newaxis, 1}), {1, 4}, {4, 5, 6, 7}},
      {"ellipsis", index(t, {ellipsis, 1}), {2, 3}, {1, 5, 9, 13, 17, 21}},
      {"ellipsis between", index(t, {1, ellipsis, Slice{0, 2}}), {3, 2}, {12, 13, 16, 17, 20, 21}},
      {"ellipsis of nothing", index(x, {1, ellipsis, 2}), {}, {6}},
      {"array", index(x, {array({2, 0})}), {2, 4}, {8, 9, 10, 11, 0, 1, 2, 3}},
      {"negative array", index(x, {array({-1, 1})}), {2, 4}, {8, 9, 10, 11, 4, 5, 6, 7}},
      {"array outside", index(v, {array({9, -9})}), {2}, {float_not_a_number, float_not_a_number}},
      {"array outside, clipped", at(v, array({9, -9})).get(IndexMode::clip), {2}, {4, 0}},
      {"scalar array", index(x, {array(2)}), {4}, {8, 9, 10, 11}},
      {"unsigned array", index(v, {array<std::uint8_t>({4, 1})}), {2}, {4, 1}},
      {"two arrays", index(x, {array({0, 2}), array({1, 3})}), {2}, {1, 11}},
      {"arrays that broadcast", index(x, {reshape(array({2, 0}), {2, 1}), array({1, 3})}), {2, 2}, {9, 11, 1, 3}},
      {"array and slice", index(x, {array({2, 0}), Slice{1, 3}}), {2, 2}, {9, 10, 1, 2}},
      {"array and backward slice", index(x, {array({2, 0}), Slice{.step = -2}}), {2, 2}, {11, 9, 3, 1}},
      {"array after slice", index(x, {Slice{1, 3}, array({3, 0})}), {2, 2}, {7, 4, 11, 8}},
      {"array and integer", index(t, {1, array({2, 0})}), {2, 4}, {20, 21, 22, 23, 12, 13, 14, 15}},
      {"apart", index(t, {array({1, 0}), Slice{0, 2}, array({3, 1})}), {2, 2}, {15, 19, 1, 5}},
      {"apart by an integer", index(t, {1, Slice{0, 2}, array({3, 1})}), {2, 2}, {15, 19, 13, 17}},
      {"array in the middle",
       index(t, {Slice{}, array({2, 0}), Slice{1, 3}}),
       {2, 2, 2},
       {9, 10, 1, 2, 21, 22, 13, 14}},
      {"matrix of indices", index(v, {reshape(array({0, 1, 4, 3}), {2, 2})}), {2, 2}, {0, 1, 4, 3}},
      {"array with newaxis", index(x, {newaxis, array({2, 0})}), {1, 2, 4}, {8, 9, 10, 11, 0, 1, 2, 3}},
  });
  CHECK(index(convert(v, int8), {array({1})}).dtype() == int8);
}

TEST_CASE("indices that do not fit are refused") {
  const Array x = arange_of({3, 4});
  expect_error<DtypeError>([&] { at(greater(x, 0), 0).subtract(true); }, "at().subtract", "bool[3,4]", "set()");
  expect_error<ShapeError>([&] { index(x, {1, 2, 3}); }, "index", "3 indices for the 2 dimensions of [3,4]");
  expect_error<ShapeError>([&] { index(x, {ellipsis, 1, ellipsis}); }, "at most one ellipsis, got 2");
  expect_error<ValueError>([&] { index(x, {0, 4}); }, "index 4 is outside dimension 1 of [3,4]");
  expect_error<ValueError>([&] { index(x, {-4}); }, "index -4 is outside dimension 0");
  expect_error<ValueError>([&] { index(x, {Slice{.step = 0}}); }, "step must not be 0");
  expect_error<ShapeError>([&] { index(x, {array({0, 1}), array({0, 1, 2})}); }, "index", "[2]", "[3]");
  expect_error<DtypeError>([&] { index(x, {greater(x, 3)}); }, "bool[3,4]", "where(mask, a, b)");
  expect_error<DtypeError>([&] { index(x, {array({0.5f})}); }, "f32[1]", "convert(indices, int32)");
  expect_error<ValueError>([&] { at(x, array({0})).get(IndexMode::wrap); }, "mode wrap is for take alone");
}

TEST_CASE("writing at an index") {
  const Array x = arange_of({3, 4}), v = arange_of({5}), t = arange_of({2, 3, 4});
  check_rows({
      {"set row", at(x, 1).set(9), {3, 4}, {0, 1, 2, 3, 9, 9, 9, 9, 8, 9, 10, 11}},
      {"set by array",
       at(x, array({0, 2})).set(array({1.f, 2.f, 3.f, 4.f})),
       {3, 4},
       {1, 2, 3, 4, 4, 5, 6, 7, 1, 2, 3, 4}},
      {"set slice", at(v, Slice{1, 4}).set(array({7.f, 8.f, 9.f})), {5}, {0, 7, 8, 9, 4}},
      {"set steps", at(v, Slice{.step = 2}).set(array({7.f, 8.f, 9.f})), {5}, {7, 1, 8, 3, 9}},
      {"set backward", at(v, Slice{.step = -2}).set(array({7.f, 8.f, 9.f})), {5}, {9, 1, 8, 3, 7}},
      {"set block", at(x, Slice{1, 3}, Slice{0, 4, 3}).set(5), {3, 4}, {0, 1, 2, 3, 5, 5, 6, 5, 5, 9, 10, 5}},
      {"set with ellipsis", at(t, ellipsis, 0).set(-1), {2, 3, 4}, {-1, 1,  2,  3,  -1, 5,  6,  7,  -1, 9,  10, 11,
                                                                    -1, 13, 14, 15, -1, 17, 18, 19, -1, 21, 22, 23}},
      {"set with newaxis", at(v, newaxis, Slice{0, 2}).set(array({5.f, 6.f})), {5}, {5, 6, 2, 3, 4}},
      {"set twice keeps the last", at(v, array({1, 1, 3})).set(array({7.f, 8.f, 9.f})), {5}, {0, 8, 2, 9, 4}},
      {"set outside writes nothing", at(v, array({1, 9})).set(array({7.f, 8.f})), {5}, {0, 7, 2, 3, 4}},
      {"set outside, clipped", at(v, array({1, 9})).set(array({7.f, 8.f}), IndexMode::clip), {5}, {0, 7, 2, 3, 8}},
      {"set everything", at(v, ellipsis).set(3), {5}, {3, 3, 3, 3, 3}},
      {"add", at(v, array({1, 1, 3})).add(array({7.f, 8.f, 9.f})), {5}, {0, 16, 2, 12, 4}},
      {"subtract", at(v, array({1, 1, 3})).subtract(2), {5}, {0, -3, 2, 1, 4}},
      {"multiply", at(v, array({1, 1, 3})).multiply(array({7.f, 8.f, 9.f})), {5}, {0, 56, 2, 27, 4}},
      {"divide", at(v, array({1, 1, 3})).divide(2), {5}, {0, 0.25, 2, 1.5, 4}},
      {"min", at(v, array({1, 4, 4})).min(array({7.f, 3.f, 2.f})), {5}, {0, 1, 2, 3, 2}},
      {"max", at(v, array({1, 4, 0})).max(array({7.f, 3.f, 2.f})), {5}, {2, 7, 2, 3, 4}},
      {"add apart",
       at(t, array({1, 0}), Slice{0, 2}, array({3, 1})).add(100),
       {2, 3, 4},
       {0, 101, 2, 3, 4, 105, 6, 7, 8, 9, 10, 11, 12, 13, 14, 115, 16, 17, 18, 119, 20, 21, 22, 23}},
      {"get outside", at(v, array({1, 9})).get(IndexMode::fill), {2}, {1, float_not_a_number}},
      {"get outside, filled", at(v, array({1, 9})).get(IndexMode::fill, -1), {2}, {1, -1}},
  });
  CHECK(at(convert(v, int8), 1).set(7.0).dtype() == int8);
  expect_error<ShapeError>([&] { at(x, 1).set(ones({3})); }, "at().set", "[3]", "do not broadcast");
  expect_error<ShapeError>([&] { at(v, 1).add(ones({1})); }, "at().add", "[1]");
  expect_error<DtypeError>([&] { at(x, greater(x, 3)).set(0); }, "at().set", "where(mask, a, b)");
}

TEST_CASE("along an axis, by windows and by segments") {
  const Array x = arange_of({3, 4}), v = arange_of({5});
  check_rows({
      {"take flat", take(x, array({5, -1})), {2}, {5, 11}},
      {"take axis 0", take(x, array({2, 0}), 0), {2, 4}, {8, 9, 10, 11, 0, 1, 2, 3}},
      {"take axis 1", take(x, reshape(array({2, 0}), {1, 2}), 1), {3, 1, 2}, {2, 0, 6, 4, 10, 8}},
      {"take outside", take(v, array({9, 1})), {2}, {float_not_a_number, 1}},
      {"take outside, filled", take(v, array({9, 1}), 0, IndexMode::fill, -5), {2}, {-5, 1}},
      {"take clipped", take(v, array({9, -3}), 0, IndexMode::clip), {2}, {4, 0}},
      {"take wrapped", take(v, array({9, -6}), 0, IndexMode::wrap), {2}, {4, 4}},
      {"put_along_axis",
       put_along_axis(x, reshape(array({1, 0, -1}), {3, 1}), 9, 1),
       {3, 4},
       {0, 9, 2, 3, 9, 5, 6, 7, 8, 9, 10, 9}},
      {"dynamic_slice_in_dim", dynamic_slice_in_dim(x, array(1), 2, 1), {3, 2}, {1, 2, 5, 6, 9, 10}},
      {"dynamic_slice_in_dim from the end", dynamic_slice_in_dim(v, array(-2), 2), {2}, {3, 4}},
      {"dynamic_slice_in_dim clamped", dynamic_slice_in_dim(v, array(9), 2), {2}, {3, 4}},
      {"dynamic_index_in_dim", dynamic_index_in_dim(x, array(1)), {1, 4}, {4, 5, 6, 7}},
      {"dynamic_index_in_dim dropped", dynamic_index_in_dim(x, array(1), 1, false), {3}, {1, 5, 9}},
      {"dynamic_update_slice_in_dim",
       dynamic_update_slice_in_dim(v, array({8.f, 9.f}), array(3), 0),
       {5},
       {0, 1, 2, 8, 9}},
      {"dynamic_update_index_in_dim",
       dynamic_update_index_in_dim(x, array({7.f, 8.f, 9.f}), array(-1), 1),
       {3, 4},
       {0, 1, 2, 7, 4, 5, 6, 8, 8, 9, 10, 9}},
      {"segment_sum", segment_sum(x, array({1, 0, 1}), 3), {3, 4}, {4, 5, 6, 7, 8, 10, 12, 14, 0, 0, 0, 0}},
      {"segment_sum drops", segment_sum(v, array({1, 0, 9, -1, 1}), 2), {2}, {1, 4}},
      {"segment_prod", segment_prod(v, array({1, 0, 2, 2, 1}), 4), {4}, {1, 0, 6, 1}},
      {"segment_max", segment_max(v, array({1, 0, 2, 2, 1}), 4), {4}, {1, 4, 3, -float_infinity}},
      {"segment_min", segment_min(v, array({1, 0, 2, 2, 1}), 4), {4}, {1, 0, 2, float_infinity}},
      {"segment_max of integers", segment_max(convert(v, int8), array({1, 0, 0, 0, 1}), 3), {3}, {3, 4, -128}},
      {"segment_min of unsigned", segment_min(convert(v, uint8), array({1, 0, 0, 0, 1}), 3), {3}, {1, 0, 255}},
      {"gather",
       gather(x, reshape(array({0, 1, 2, 9}), {2, 2}), {{1}, {0}, {0, 1}}, {1, 2}, IndexMode::clip),
       {2, 2},
       {1, 2, 10, 11}},
      {"gather by default",
       gather(x, reshape(array({0, 1, -1, 0}), {2, 2}), {{1}, {0}, {0, 1}}, {1, 2}),
       {2, 2},
       {1, 2, float_not_a_number, float_not_a_number}},
      {"gather filled",
       gather(x, reshape(array({0, 1, 2, 9}), {2, 2}), {{1}, {0}, {0, 1}}, {1, 2}, IndexMode::fill),
       {2, 2},
       {1, 2, float_not_a_number, float_not_a_number}},
      {"gather in batches",
       gather(x, reshape(array({3, 0, 1}), {3, 1}), {{}, {1}, {1}, {0}, {0}}, {1, 1}),
       {3},
       {3, 4, 9}},
      {"scatter_add",
       scatter_add(x, reshape(array({0, 0}), {2, 1}), ones({2, 4}), {{1}, {0}, {0}}),
       {3, 4},
       {2, 3, 4, 5, 4, 5, 6, 7, 8, 9, 10, 11}},
      {"scatter_max of windows",
       scatter_max(v, reshape(array({1, 2}), {2, 1}), reshape(array({2.f, 2.5f, 9.f, 1.f}), {2, 2}), {{1}, {}, {0}}),
       {5},
       {0, 2, 9, 3, 4}},
  });
  expect_error<DtypeError>([&] { take(x, v); }, "take", "f32[5]");
  expect_error<ShapeError>([&] { put_along_axis(x, array({1}), 0, 1); }, "put_along_axis", "one rank");
  expect_error<ShapeError>([&] { dynamic_slice_in_dim(x, array({1}), 1); }, "must be a scalar", "i32[1]");
  expect_error<ShapeError>([&] { dynamic_update_slice(x, 1, {}); }, "full(shape, value)");
  expect_error<ShapeError>([&] { segment_sum(x, array({0}), 2); }, "one segment id per row", "[1]", "[3,4]");
  expect_error<DtypeError>([&] { segment_sum(v, v, 2); }, "segment_sum", "f32[5]");
  expect_error<ValueError>([&] { segment_max(v, array({0, 0, 0, 0, 0}), -1); }, "segment_max", "-1");
}

TEST_CASE("the derivatives of indexing") {
  const Array x = tests::wavy({3, 4}), v = tests::wavy({5});
  check_gradient([](const Array& a) { return index(a, {array({2, 0, 2}), Slice{.step = -2}}); }, x);
  check_gradient([](const Array& a) { return take(a, array({1, 1, 9}), 1, IndexMode::fill, 0); }, x);
  check_gradient(
      [](const Array& a) {
        return at(square(a), array({1, 1, 3})).set(array({7., 8., 9.}) * index(a, {0}));
      },
      v);
  check_gradient([](const Array& a) { return at(a, array({1, 1, 3})).add(square(index(a, {Slice{0, 3}}))); }, v);
  check_gradient([](const Array& a) { return at(a, array({1, 1, 3})).multiply(sin(index(a, {Slice{1, 4}}))); }, v, 2);
  check_gradient([](const Array& a) { return at(a, array({1, 4, 4})).max(exp(index(a, {Slice{1, 4}})) - 1); }, v);
  check_gradient([](const Array& a) { return at(a, array({1, 4, 4})).min(exp(index(a, {Slice{1, 4}})) - 1); }, v);
  check_gradient([](const Array& a) { return segment_max(a, array({1, 0, 1}), 2); }, x);
  check_gradient([](const Array& a) { return segment_prod(a, array({1, 0, 1}), 2); }, x);
}

TEST_CASE("an element that no update meets keeps its derivative, NaN too") {
  const Array x = array({std::nanf(""), 1.f, 5.f});
  const auto most = [](const Array& a) { return sum(at(a, array({1, 2})).max(array({2.f, 3.f}))); };
  const auto least = [](const Array& a) { return sum(at(a, array({1, 2})).min(array({2.f, 3.f}))); };
  check_close(grad(most)(x), {3}, {1, 0, 1});
  check_close(grad(least)(x), {3}, {1, 1, 0});
}

TEST_CASE("a product with a zero factor has a derivative") {
  const Array x = array({2.0, 3.0, 0.0, 5.0});
  const auto product = [](const Array& a) { return index(segment_prod(a, zeros({4}, int32), 1), {0}); };
  check_close(grad(product)(x), {4}, {0, 0, 30, 0});
  const auto two_zeros = [](const Array& a) {
    return index(segment_prod(a * array({0., 1., 1., 1.}), zeros({4}, int32), 1), {0});
  };
  check_close(grad(two_zeros)(x), {4}, {0, 0, 0, 0});
}

TEST_CASE("indexing over a batch") {
  const Array x = arange_of({2, 3, 4}), rows = reshape(array({2, 0, 1, 1}), {2, 2});
  const auto read = [](const Array& a, const Array& i) { return index(a, {i, Slice{.step = 2}}); };
  check_close(vmap(read)(x, rows), {2, 2, 2}, {8, 10, 0, 2, 16, 18, 16, 18});
  check_close(vmap(read, {.in_axes = {0, std::nullopt}})(x, array({2})), {2, 1, 2}, {8, 10, 20, 22});
  check_close(vmap(read, {.in_axes = {std::nullopt, 0}})(index(x, {0}), rows), {2, 2, 2}, {8, 10, 0, 2, 4, 6, 4, 6});
  const auto write = [](const Array& a, const Array& i) { return at(a, i, 0).add(100); };
  check_close(index(vmap(write)(x, rows), {ellipsis, 0}), {2, 3}, {100, 4, 108, 12, 216, 20});
}

TEST_CASE(
    "one rule for indices: negative ones count from the end, outside reads are NaN and outside writes do nothing") {
  // jax.numpy.take, take_along_axis and .at[] of JAX 0.10.2 give these values; its x[i] alone clips.
  const Array v = arange_of({5}), x = arange_of({3, 4});
  const Array wild = array({-1, 4, -5, 5, -6, 99});
  const std::vector<double> read = {4, 4, 0, float_not_a_number, float_not_a_number, float_not_a_number};
  check_rows({
      {"take", take(v, wild), {6}, read},
      {"take_rows", take_rows(v, wild), {6}, read},
      {"take_along_axis", take_along_axis(v, wild, 0), {6}, read},
      {"index", index(v, {wild}), {6}, read},
      {"at().get", at(v, wild).get(), {6}, read},
      {"rows of a matrix",
       take_rows(x, array({-1, 3})),
       {2, 4},
       {8, 9, 10, 11, float_not_a_number, float_not_a_number, float_not_a_number, float_not_a_number}},
      {"take_along_axis of a matrix",
       take_along_axis(x, reshape(array({-1, 0, 4}), {3, 1}), -1),
       {3, 1},
       {3, 4, float_not_a_number}},
      {"take_along_axis clipped", take_along_axis(v, wild, 0, IndexMode::clip), {6}, {4, 4, 0, 4, 0, 4}},
      {"take_along_axis filled", take_along_axis(v, array({9, -2}), 0, IndexMode::fill, 7), {2}, {7, 3}},
      {"set", at(v, wild).set(array({7.f, 8.f, 9.f, 1.f, 2.f, 3.f})), {5}, {9, 1, 2, 3, 8}},
      {"add", at(v, wild).add(1), {5}, {1, 1, 2, 3, 6}},
      {"put_along_axis", put_along_axis(v, wild, 7, 0), {5}, {7, 1, 2, 3, 7}},
      {"one element", index(x, {array(-1), array(9)}), {}, {float_not_a_number}},
      {"integers", take_along_axis(convert(v, int32), array({-1, 9}), 0), {2}, {4, -2147483648.0}},
      {"unsigned", take_rows(convert(v, uint8), array({-1, 9})), {2}, {4, 255}},
      {"true", convert(take(v > 9, array({-1, 9})), int32), {2}, {0, 1}},
  });
  for (const DType dtype : {int8, int16, int64}) {
    CAPTURE(name(dtype));
    check_close(take_along_axis(v, convert(array({-1, 5, -6}), dtype), 0), {3},
                {4, float_not_a_number, float_not_a_number});
  }
  const Array unsigned_ends = array<std::uint64_t>({4, ~std::uint64_t{0}});
  check_close(take_rows(v, unsigned_ends), {2}, {4, float_not_a_number});
  expect_error<DtypeError>([&] { take_along_axis(v, v, 0); }, "take_along_axis", "convert(indices, int32)");
  expect_error<ValueError>([&] { take_along_axis(v, wild, 0, IndexMode::wrap); }, "mode wrap is for take alone");
}

TEST_CASE("keys outside are the key of all bits, which JAX gives too") {
  const Array keys = random::split(random::key(0), 3);
  const Array words = random::key_data(take(keys, array({9, -1})));
  const std::vector<std::uint32_t> read = words.to_vector<std::uint32_t>();
  CHECK(read[0] == 4294967295U);
  CHECK(read[1] == 4294967295U);
  CHECK(read[2] == random::key_data(keys[2]).to_vector<std::uint32_t>()[0]);
}

TEST_CASE("what is read or written outside has no derivative, what counts from the end has that of its element") {
  const Array v = arange_of({5}), wild = array({-1, 7, 1});
  const auto finite = [](const Array& read) { return sum(where(read == read, read, 0)); };
  const auto check_reads = [&](const auto& read) {
    check_close(grad([&](const Array& a) { return finite(read(a)); })(v), {5}, {0, 1, 0, 0, 1});
  };
  check_reads([&](const Array& a) { return take_along_axis(a, wild, 0); });
  check_reads([&](const Array& a) { return take_rows(a, wild); });
  check_reads([&](const Array& a) { return index(a, {wild}); });
  check_close(grad([&](const Array& u) { return sum(at(v, wild).set(u) * v); })(arange_of({3})), {3}, {4, 0, 1});
}
