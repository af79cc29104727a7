#include <vector>

#include <doctest/doctest.h>

#include <lockstep/error.h>
#include <lockstep/indexing.h>
#include <lockstep/manipulation.h>
#include <lockstep/ops.h>

#include "tests/support/arange_of.h"
#include "tests/support/array_values.h"
#include "tests/support/expect_error.h"
#include "tests/support/gradient_checks.h"
#include "tests/support/value_rows.h"

using namespace lockstep;
using tests::arange_of;
using tests::check_gradient;
using tests::check_rows;
using tests::expect_error;
using tests::values;

// Values in rows are JAX's.
TEST_CASE("making, joining, cutting and rearranging") {
  const Array x = arange_of({2, 3}), v = arange_of({4}), t = arange_of({2, 2, 3}), c5 = arange_of({5});
  const Arrays pair = {v, arange_of({2})}, twice = {x, x}, vectors = {v, v};
  const Arrays rows_and_columns = {arange_of({3}), arange_of({2, 1})};
  const Arrays conditions = {greater(v, 2), greater(v, 0)}, choices = {v, v * 10};
  const std::vector<Branch> functions = {[](const Array& a) { return a * 2; }, [](const Array& a) { return a + 10; }};
  std::vector<Branch> more_functions = functions;
  more_functions.push_back([](const Array& a) { return a - 1; });
  const Array xp = array({0.f, 1.f, 3.f}), fp = array({1.f, 3.f, -1.f});
  check_rows({
      {"arange", arange(2, 7), {5}, {2, 3, 4, 5, 6}},
      {"arange down", arange(7, 1, -2), {3}, {7, 5, 3}},
      {"arange empty", arange(3, 3), {0}, {}},
      {"arange of reals", arange(0, 1, 0.25), {4}, {0, 0.25, 0.5, 0.75}},
      {"linspace", linspace(0, 1, 5), {5}, {0, 0.25, 0.5, 0.75, 1}},
      {"linspace open", linspace(1, 2, 4, false), {4}, {1, 1.25, 1.5, 1.75}},
      {"linspace of one", linspace(3, 4, 1), {1}, {3}},
      {"linspace of none", linspace(3, 4, 0), {0}, {}},
      {"logspace", logspace(0, 3, 4), {4}, {1, 10, 100, 1000}},
      {"logspace base 2", logspace(-1, 1, 3, true, 2), {3}, {0.5, 1, 2}},
      {"meshgrid 0", meshgrid(pair)[0], {2, 4}, {0, 1, 2, 3, 0, 1, 2, 3}},
      {"meshgrid 1", meshgrid(pair)[1], {2, 4}, {0, 0, 0, 0, 1, 1, 1, 1}},
      {"meshgrid ij", meshgrid(pair, "ij")[1], {4, 2}, {0, 1, 0, 1, 0, 1, 0, 1}},
      {"tri", tri(3, 4, -1), {3, 4}, {0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0}},
      {"tril_indices 0", tril_indices(3, 0).first, {6}, {0, 1, 1, 2, 2, 2}},
      {"tril_indices 1", tril_indices(3, 0).second, {6}, {0, 0, 1, 0, 1, 2}},
      {"tril_indices wide", tril_indices(2, 1, 3).second, {5}, {0, 1, 0, 1, 2}},
      {"triu_indices", triu_indices(3, 1).second, {3}, {1, 2, 2}},
      {"ravel", ravel(x), {6}, {0, 1, 2, 3, 4, 5}},
      {"squeeze", squeeze(reshape(v, {1, 4, 1})), {4}, {0, 1, 2, 3}},
      {"expand_dims", expand_dims(v, Axes{0, -1}), {1, 4, 1}, {0, 1, 2, 3}},
      {"moveaxis", moveaxis(t, {0, 1}, {-1, 0}), {2, 3, 2}, {0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11}},
      {"rollaxis", rollaxis(t, 2), {3, 2, 2}, {0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11}},
      {"rollaxis onwards", rollaxis(t, 0, 2), {2, 2, 3}, {0, 1, 2, 6, 7, 8, 3, 4, 5, 9, 10, 11}},
      {"atleast_1d", atleast_1d(array(2.f)), {1}, {2}},
      {"atleast_2d", atleast_2d(v), {1, 4}, {0, 1, 2, 3}},
      {"atleast_3d", atleast_3d(v), {1, 4, 1}, {0, 1, 2, 3}},
      {"atleast_3d of a matrix", atleast_3d(x), {2, 3, 1}, {0, 1, 2, 3, 4, 5}},
      {"flip", flip(x), {2, 3}, {5, 4, 3, 2, 1, 0}},
      {"flip axis", flip(x, Axes{-1}), {2, 3}, {2, 1, 0, 5, 4, 3}},
      {"fliplr", fliplr(x), {2, 3}, {2, 1, 0, 5, 4, 3}},
      {"flipud", flipud(x), {2, 3}, {3, 4, 5, 0, 1, 2}},
      {"roll", roll(x, 2), {2, 3}, {4, 5, 0, 1, 2, 3}},
      {"roll axis", roll(x, -1, 1), {2, 3}, {1, 2, 0, 4, 5, 3}},
      {"roll axes", roll(x, {1, 2}, {0, 1}), {2, 3}, {4, 5, 3, 1, 2, 0}},
      {"roll around", roll(v, 9, 0), {4}, {3, 0, 1, 2}},
      {"rot90", rot90(x), {3, 2}, {2, 5, 1, 4, 0, 3}},
      {"rot90 twice", rot90(x, 2), {2, 3}, {5, 4, 3, 2, 1, 0}},
      {"rot90 back", rot90(x, -1), {3, 2}, {3, 0, 4, 1, 5, 2}},
      {"rot90 axes", rot90(t, 1, {1, 2}), {2, 3, 2}, {2, 5, 1, 4, 0, 3, 8, 11, 7, 10, 6, 9}},
      {"tile", tile(v, {2}), {8}, {0, 1, 2, 3, 0, 1, 2, 3}},
      {"tile wider", tile(v, {2, 1}), {2, 4}, {0, 1, 2, 3, 0, 1, 2, 3}},
      {"tile matrix", tile(x, {2}), {2, 6}, {0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}},
      {"tile both", tile(x, {2, 2}), {4, 6}, {0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5, 0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}},
      {"tile rank 7",
       tile(reshape(v, {1, 1, 1, 2, 1, 1, 2}), {2, 1, 1, 1, 1, 1, 2}),
       {2, 1, 1, 2, 1, 1, 4},
       {0, 1, 0, 1, 2, 3, 2, 3, 0, 1, 0, 1, 2, 3, 2, 3}},
      {"repeat", repeat(x, 2), {12}, {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5}},
      {"repeat axis", repeat(x, 2, 1), {2, 6}, {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5}},
      {"repeat by counts", repeat(v, array({1, 0, 2, 1}), 4, 0), {4}, {0, 2, 2, 3}},
      {"repeat by counts, more", repeat(v, array({1, 0, 2, 1}), 6, 0), {6}, {0, 2, 2, 3, 3, 3}},
      {"repeat by counts, cut", repeat(x, array({2, 3}), 3, 0), {3, 3}, {0, 1, 2, 0, 1, 2, 3, 4, 5}},
      {"pad edge",
       pad(x, {{1, 0}, {2, 1}}, PadMode::edge),
       {3, 6},
       {0, 0, 0, 1, 2, 2, 0, 0, 0, 1, 2, 2, 3, 3, 3, 4, 5, 5}},
      {"pad reflect", pad(v, {{2, 5}}, PadMode::reflect), {11}, {2, 1, 0, 1, 2, 3, 2, 1, 0, 1, 2}},
      {"pad symmetric", pad(v, {{3, 6}}, PadMode::symmetric), {13}, {2, 1, 0, 0, 1, 2, 3, 3, 2, 1, 0, 0, 1}},
      {"pad wrap", pad(v, {{3, 6}}, PadMode::wrap), {13}, {1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1}},
      {"pad reflect of one", pad(array({3.f}), {{2, 1}}, PadMode::reflect), {4}, {3, 3, 3, 3}},
      {"pad reflect of two", pad(array({3.f, 4.f}), {{2, 3}}, PadMode::reflect), {7}, {3, 4, 3, 4, 3, 4, 3}},
      {"pad interior", pad(v, 9, {1}, {-1}, {1}), {7}, {9, 0, 9, 1, 9, 2, 9}},
      {"split_at", split_at(v, {1, 3}, 0)[1], {2}, {1, 2}},
      {"split_at the last", split_at(v, {1, 3}, 0)[2], {1}, {3}},
      {"array_split", array_split(c5, 3)[0], {2}, {0, 1}},
      {"array_split the last", array_split(c5, 3)[2], {1}, {4}},
      {"hsplit", hsplit(x, 3)[1], {2, 1}, {1, 4}},
      {"hsplit a vector", hsplit(v, 2)[1], {2}, {2, 3}},
      {"vsplit", vsplit(x, 2)[1], {1, 3}, {3, 4, 5}},
      {"dsplit", dsplit(t, 3)[2], {2, 2, 1}, {2, 5, 8, 11}},
      {"hstack", hstack(twice), {2, 6}, {0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}},
      {"hstack vectors", hstack(vectors), {8}, {0, 1, 2, 3, 0, 1, 2, 3}},
      {"vstack", vstack(twice), {4, 3}, {0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5}},
      {"vstack vectors", vstack(vectors), {2, 4}, {0, 1, 2, 3, 0, 1, 2, 3}},
      {"dstack", dstack(twice), {2, 3, 2}, {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5}},
      {"dstack vectors", dstack(vectors), {1, 4, 2}, {0, 0, 1, 1, 2, 2, 3, 3}},
      {"column_stack", column_stack(vectors), {4, 2}, {0, 0, 1, 1, 2, 2, 3, 3}},
      {"append", append(x, v), {10}, {0, 1, 2, 3, 4, 5, 0, 1, 2, 3}},
      {"append axis", append(x, x, 0), {4, 3}, {0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5}},
      {"broadcast_arrays", broadcast_arrays(rows_and_columns)[1], {2, 3}, {0, 0, 0, 1, 1, 1}},
      {"select", select(conditions, choices, -1), {4}, {-1, 10, 20, 3}},
      {"choose", choose(array({0, 1, 5, -1}), choices), {4}, {0, 10, 20, 3}},
      {"choose wrapped", choose(array({0, 1, 5, -1}), choices, true), {4}, {0, 10, 20, 30}},
      {"piecewise", piecewise(v, conditions, functions), {4}, {0, 11, 12, 13}},
      {"piecewise with a last one", piecewise(v, conditions, more_functions), {4}, {-1, 11, 12, 13}},
      {"interp", interp(array({-1.f, 0.f, 0.5f, 2.5f, 3.f, 9.f}), xp, fp), {6}, {1, 1, 2, 0, -1, -1}},
      {"interp with ends", interp(array({-1.f, 9.f}), xp, fp, -7, 7), {2}, {-7, 7}},
      {"trapezoid", trapezoid(x), {2}, {2, 8}},
      {"trapezoid dx", trapezoid(x, 0.5, 0), {3}, {0.75, 1.25, 1.75}},
      {"trapezoid at x", trapezoid(x, array({0.f, 1.f, 4.f})), {2}, {5, 17}},
  });
}

TEST_CASE("the dtypes of ranges") {
  CHECK(arange(0, 3).dtype() == int32);
  CHECK(arange(0, 3, 1, int64).dtype() == int64);
  CHECK(arange(0, 3, 0.5).dtype() == float32);
  CHECK(linspace(0, 1, 3, true, float64).dtype() == float64);
  CHECK(values(linspace(0, 0.3, 4, true, float64))[3] == 0.3);
  CHECK(repeat(array<std::int8_t>({1, 2}), 2).dtype() == int8);
}

TEST_CASE("what does not fit is refused") {
  const Array x = arange_of({2, 3}), v = arange_of({4});
  const Arrays none, vectors = {v, v};
  expect_error<ValueError>([] { arange(0, 3, 0); }, "arange", "step must not be 0");
  expect_error<ValueError>([] { linspace(0, 1, -1); }, "linspace", "-1");
  expect_error<DtypeError>([] { linspace(0, 1, 3, true, int32); }, "linspace", "int32");
  expect_error<ValueError>([] { hanning(-1); }, "hanning", "samples is -1; give 0 or more");
  expect_error<ValueError>([] { bartlett(-2); }, "bartlett", "samples is -2; give 0 or more");
  expect_error<ShapeError>([] { unstack(array(1.f)); }, "unstack");
  expect_error<ValueError>([&] { meshgrid(vectors, "yx"); }, "meshgrid", "\"yx\"");
  expect_error<ShapeError>([&] { meshgrid(Arrays{x}); }, "meshgrid", "[2,3]");
  expect_error<ShapeError>([&] { expand_dims(v, Axes{0, 0}); }, "expand_dims", "must differ");
  expect_error<ShapeError>([&] { moveaxis(x, Axes{0, 1}, Axes{0}); }, "moveaxis", "2 axes to 1 places");
  expect_error<ShapeError>([&] { fliplr(v); }, "fliplr", "rank 2 or more");
  expect_error<ShapeError>([] { flipud(array(1.f)); }, "flipud", "rank 1 or more");
  expect_error<ShapeError>([&] { roll(x, Axes{1, 2}, Axes{0}); }, "roll", "2 shifts for 1 axes");
  expect_error<ShapeError>([&] { rot90(x, 1, {1, -1}); }, "rot90", "must differ");
  expect_error<ValueError>([&] { tile(x, {-1}); }, "tile", "-1");
  expect_error<ValueError>([&] { repeat(x, -1); }, "repeat", "-1");
  expect_error<ShapeError>([&] { repeat(v, array({1, 2}), 3, 0); }, "repeat", "one for each of the 4 elements");
  expect_error<ValueError>([&] { repeat(v, array({1}), -3, 0); }, "total_repeat_length", "-3");
  expect_error<ShapeError>([&] { pad(x, {{1, 1}}, PadMode::edge); }, "pad", "1 widths");
  expect_error<ValueError>([&] { pad(v, {{-1, 1}}, PadMode::edge); }, "pad", "slice to crop");
  expect_error<ShapeError>([] { pad(zeros({0}), {{1, 1}}, PadMode::edge); }, "no element to pad with");
  expect_error<ShapeError>([&] { pad(v, 0, {1, 1}, {1}, {0}); }, "pad", "2, 1 and 1 entries");
  expect_error<ValueError>([&] { array_split(v, 0); }, "array_split", "got 0");
  expect_error<ShapeError>([&] { vsplit(v, 2); }, "vsplit", "rank 2 or more");
  expect_error<ShapeError>([&] { dsplit(x, 2); }, "dsplit", "rank 3 or more");
  expect_error<ValueError>([&] { hstack(none); }, "concatenate", "no arrays given");
  expect_error<ValueError>([&] { select(vectors, none); }, "select", "2 conditions for 0 choices");
  expect_error<ValueError>([&] { choose(array({0}), none); }, "choose", "no choices");
  expect_error<DtypeError>([&] { choose(v, vectors); }, "choose", "f32[4]");
  expect_error<ValueError>([&] { piecewise(v, vectors, {}); }, "piecewise", "0 functions for 2 conditions");
  expect_error<ShapeError>([&] { interp(v, v, x); }, "interp", "one length", "[2,3]");
  expect_error<ShapeError>([&] { trapezoid(arange_of({2, 2, 2}), x); }, "trapezoid", "rank of y");
}

TEST_CASE("the derivatives of rearranging") {
  const Array x = tests::wavy({2, 3}), v = tests::wavy({4});
  check_gradient([](const Array& a) { return tile(roll(a, 1, 1), {2, 2}); }, x);
  check_gradient([](const Array& a) { return repeat(a, array({1, 0, 3, 1}), 6, 0); }, v);
  for (const PadMode mode : {PadMode::edge, PadMode::reflect, PadMode::symmetric, PadMode::wrap}) {
    check_gradient([mode](const Array& a) { return pad(a, {{3, 5}}, mode); }, v);
  }
  const Array xp = array({-1., 0., 2.});
  check_gradient([&](const Array& a) { return interp(a, xp, array({1., 3., -1.})); }, tests::wavy({4}, 0.5));
  check_gradient([&](const Array& a) { return interp(array({-0.3, 1.2, 5.}), xp, a); }, tests::wavy({3}));
  check_gradient([](const Array& a) { return trapezoid(square(a), 0.5); }, x);
}
