#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/array_values.h"
#include "tests/support/expect_error.h"
#include "tests/support/non_finite.h"

// Masks, counts, indices and initial values of another kind than they are: refused, or what JAX 0.10.2 makes of them.

using namespace lockstep;
using tests::expect_error;
using tests::infinity;
using tests::not_a_number;

namespace {

using Doubles = std::vector<double>;

Array one_two_three(DType dtype) { return convert(array({1, 2, 3}), dtype); }
Array held() { return array({1, 0, 1}) != 0; }

}  // namespace

TEST_CASE("masks are of bool and counts of integers, as jax.numpy has them") {
  const Array x = one_two_three(float32), floats = array({1.f, 0.f, 1.f}), integers = array({1, 0, 1});
  for (const Array& mask : {floats, integers}) {
    const Where where(mask);
    expect_error<DtypeError>([&] { sum(x, where); }, "sum: the mask is", "expected bool: write Where(mask != 0)");
    expect_error<DtypeError>([&] { prod(x, where); }, "prod: the mask is");
    expect_error<DtypeError>([&] { max(x, where, 0); }, "max: the mask is");
    expect_error<DtypeError>([&] { min(x, where, 0); }, "min: the mask is");
    expect_error<DtypeError>([&] { mean(x, where); }, "mean: the mask is");
    expect_error<DtypeError>([&] { var(x, where); }, "var: the mask is");
    expect_error<DtypeError>([&] { all(x, where); }, "all: the mask is");
    expect_error<DtypeError>([&] { any(x, where); }, "any: the mask is");
    expect_error<DtypeError>([&] { logsumexp(x, where); }, "logsumexp: the mask is");
    expect_error<DtypeError>([&] { softmax(x, mask); }, "softmax: the mask must be of bool");
    expect_error<DtypeError>([&] { log_softmax(x, mask); }, "log_softmax: the mask must be of bool");
  }
  expect_error<DtypeError>([&] { repeat(x, floats, 2); }, "repeat: counts must be integers, got f32[3]");
  CHECK(tests::values(repeat(x, held(), 2)) == Doubles{1, 3});
  CHECK(tests::values(repeat(x, array({1, -2, 1}), 3)) == Doubles{1, 3, 3});
  CHECK(tests::values(where(floats, x, 0)) == Doubles{1, 0, 3});
  CHECK(tests::values(select(std::vector{floats}, std::vector{x})) == Doubles{1, 0, 3});
  expect_error<DtypeError>([&] { ix_({x, held()}); }, "ix_: indices must be integers, got bool[3]");
}

TEST_CASE("the largest of an initial value and what a mask holds has the array's dtype") {
  // jnp.max(x, where=mask, initial=...) and jnp.min
  const Array half = full({}, 0.5, float32);
  for (const DType dtype : {int8, uint8, int16, int32, float16, bfloat16, float64}) {
    tests::check_is(max(one_two_three(dtype), Where(held()), 0.5), dtype, {3});
    tests::check_is(max(one_two_three(dtype), Where(held()), half), dtype, {3});
    tests::check_is(min(one_two_three(dtype), Where(held()), half), dtype, {is_float(dtype) ? 0.5 : 0});
  }
  tests::check_is(max(held(), Where(held()), 0), bool_, {1});
  expect_error<ValueError>([] { max(one_two_three(int8), Where(held()), 300); },
                           "max: the scalar 300 does not fit int8");
  expect_error<ShapeError>([] { max(one_two_three(float32), Where(held()), one_two_three(float32)); },
                           "max: the initial value is f32[3]; expected a scalar");
  expect_error<ShapeError>([] { ptp(zeros({0})); }, "ptp: [0] has no elements");
}

TEST_CASE("weights of a histogram are added in floats, and a range goes upward") {
  const Array x = one_two_three(float32), edges = array({0.f, 2.f, 4.f});
  tests::check_is(histogram(x, edges, one_two_three(int16)), float32, {1, 5});  // jnp.histogram
  tests::check_is(histogram(x, edges, held()), float32, {1, 1});
  tests::check_is(histogram(x, edges, one_two_three(float16)), float32, {1, 5});
  tests::check_is(histogram(one_two_three(float16), edges, one_two_three(float64)), float64, {1, 5});
  const auto [sums, own] = histogram(one_two_three(float16), 2, std::nullopt, x);
  tests::check_is(sums, float32, {1, 5});
  tests::check_is(own, float32, {1, 2, 3});
  // ValueError of numpy.histogram, too
  expect_error<ValueError>([&] { histogram(x, 2, std::pair(2., 1.)); }, "the range is from 2 to 1; expected finite");
  expect_error<ValueError>([&] { histogram(x, 2, std::pair(0., not_a_number)); }, "the range is from 0 to nan");
  expect_error<ValueError>([&] { histogram(x, 2, std::pair(0., infinity)); }, "the range is from 0 to inf");
}

TEST_CASE("polynomials, powers and angles have the dtypes of jax.numpy") {
  for (const DType dtype : {int8, uint8, int16, int32, float16, bfloat16, float32, float64}) {
    tests::check_is(polyval(one_two_three(dtype), one_two_three(dtype)), dtype, {6, 11, 18});
    tests::check_is(polyval(one_two_three(dtype), 2), dtype, {11});
    tests::check_is(polyval(one_two_three(dtype), 2.), is_float(dtype) ? dtype : float32, {11});
    CHECK(angle(one_two_three(dtype)).dtype() == (is_float(dtype) ? dtype : float32));
  }
  tests::check_is(polyval(held(), held()), bool_, {1, 1, 1});
  tests::check_is(polyval(held(), 2), int32, {5});
  tests::check_is(polyval(one_two_three(float32), one_two_three(float16)), float32, {6, 11, 18});
  tests::check_is(polyval(zeros({0}, float16), 2.), float16, {0});
  tests::check_is(polyval(zeros({0}), one_two_three(int32)), float32, {0, 0, 0});
  tests::check_is(polyval(zeros({0}), array({infinity})), float64, {0});
  tests::check_is(power(held(), array({0, 0, 1}) != 0), int32, {1, 1, 1});
  tests::check_is(power(array({0, 0, 1}) != 0, held()), int32, {0, 1, 1});
}

TEST_CASE("flat indices have the dtype of what they are made of, and none is beyond it") {
  for (const DType dtype : {int8, uint8, int16, uint32, int32, int64}) {
    const Arrays places = unravel_index(one_two_three(dtype), {3, 4});  // jnp.unravel_index, jnp.ravel_multi_index
    tests::check_is(places[0], dtype, {0, 0, 0});
    tests::check_is(places[1], dtype, {1, 2, 3});
    tests::check_is(ravel_multi_index({one_two_three(dtype), one_two_three(dtype)}, {3, 4}), dtype, {5, 10, 11});
  }
  tests::check_is(ravel_multi_index({one_two_three(int16), one_two_three(int8)}, {3, 4}), int16, {5, 10, 11});
  // What int8 does not hold wraps in JAX.
  const Arrays wide = unravel_index(-one_two_three(int8), {300, 400});
  tests::check_is(wide[0], int32, {299, 299, 299});
  tests::check_is(wide[1], int32, {399, 398, 397});
  const std::int64_t many = std::int64_t{1} << 31;
  tests::check_is(unravel_index(full({1}, 3 * many, int64), {many, 4})[0], int64, {1610612736});
  tests::check_is(unravel_index(array({2147483647}), {many, 4})[0], int32, {536870911});
  expect_error<DtypeError>(
      [] {
        ravel_multi_index({one_two_three(int8), one_two_three(int8)}, {300, 4});
      },
      "1200 elements of [300,4] have indices up to 1199, which int8 does not hold", "convert the indices to int32");
  expect_error<DtypeError>(
      [] {
        ravel_multi_index({one_two_three(int32), one_two_three(int32)}, {4, std::int64_t{1} << 30});
      },
      "have indices up to 4294967295, which int32 does not hold", "to int64");
  tests::check_is(ravel_multi_index({full({1}, 1 << 30, int64), full({1}, 3, int64)}, {many, 4}), int64, {4294967299});
  tests::check_is(ravel_multi_index({full({1}, -1, int64), full({1}, 5, int64)}, {many, 4}, IndexMode::wrap), int64,
                  {8589934589});
}

TEST_CASE("axes named twice, numbers below 0 and updates of more than fits are refused") {
  const Array one = zeros({1, 1}), x = one_two_three(float32), n = one_two_three(int32), at_0 = array(0);
  expect_error<ShapeError>([&] { squeeze(one, {0, 0}); }, "squeeze: axes [0,0] name a dimension twice");
  expect_error<ShapeError>([&] { squeeze(one, {0, -2}); }, "squeeze: axes [0,-2] name a dimension twice");
  expect_error<ValueError>([] { diag_indices(2, -1); }, "diag_indices: dimensions must not be negative, got -1");
  expect_error<DtypeError>([] { arange(0, 3, 1, bool_); }, "arange: bool has no numbers in order");
  expect_error<DtypeError>([&] { dynamic_update_slice(n, x, {at_0}); }, "x is i32[3], the update f32[3]", "convert");
  expect_error<DtypeError>([&] { dynamic_update_slice(held(), n, {at_0}); }, "of which bool holds a part alone");
  expect_error<DtypeError>([&] { dynamic_update_slice(x, complex(x, x), {at_0}); }, "the update c64[3]");
  CHECK(tests::values(dynamic_update_slice(x, n, {at_0})) == Doubles{1, 2, 3});
}

TEST_CASE("bools are squared as numbers and have no differences, limits are promoted, and only vectors are counted") {
  // jnp.square of bool: int32. jnp.ediff1d of bool: TypeError. jnp.bincount of a matrix: ValueError.
  const Array truths = array({0, 1, 1}) != 0;
  CHECK(square(truths).dtype() == int32);
  CHECK(square(truths).to_vector<int>() == std::vector<int>{0, 1, 1});
  tests::expect_error<DtypeError>([&] { static_cast<void>(ediff1d(truths)); }, "ediff1d: x is bool[3]",
                                  "convert(x, int32)");
  tests::expect_error<ShapeError>(
      [] {
        static_cast<void>(bincount(zeros({2, 2}, int32), 3));
      },
      "bincount: x is i32[2,2]; give a vector", "ravel(x)");
  // numpy.clip([0, 1, 2], 0.5, 1.5); jax.lax.clamp takes one dtype alone.
  const std::vector<float> between = {0.5F, 1, 1.5F};
  CHECK(clamp(0.5, array({0, 1, 2}), 1.5).to_vector<float>() == between);
  CHECK(clamp(array(0.5F), array({0, 1, 2}), array(1.5F)).to_vector<float>() == between);
  CHECK(clamp(0, array({-1, 1, 9}), 2).dtype() == int32);
  CHECK(clamp(0, array({-1.0F}), 2).dtype() == float32);
}
