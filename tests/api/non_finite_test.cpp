#include <cmath>
#include <limits>
#include <utility>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"

// Where a NaN came from.
using namespace lockstep;
using tests::expect_error;

namespace {

const JitOptions nans{.debug = {.nans = true}};

Array logarithm(const Array& x) { return sum(log(square(x))); }

}  // namespace

TEST_CASE("the op that divides 0 by 0 is named, with where its operands lie") {
  const auto f = jit([](const Array& a, const Array& b) { return exp(sin(a) / b); }, nans);
  CHECK(f(array({1.0}), array({2.0})).size() == 1);
  expect_error<NonFiniteError>(
      [&] {
        f(array({1.0, 0.0}), array({2.0, 0.0}));
      },
      "div (forward)", "1 NaN (first at [1]) in f64[2]", "operand 0, f64[2], lies in [0, 0.8",
      "operand 1, f64[2], lies in [0, 2]");
}

TEST_CASE("a NaN of the backward pass alone is found there") {
  const auto f = jit([](const Array& x) { return grad(logarithm)(x); }, nans);
  CHECK(f(array({2.0})).item<double>() == 1);
  expect_error<NonFiniteError>([&] { f(array({1.0, 0.0})); }, "backward", "1 NaN");
}

TEST_CASE("a NaN that was fed is called an input") {
  const auto f = jit([](const Array& x) { return x * 2.0; }, nans);
  expect_error<NonFiniteError>([&] { f(array({1.0, std::nan("")})); }, "the input 0 f64[2] holds 1 NaN (first at [1])");
}

TEST_CASE("layer, replica and iteration are named") {
  const Mesh mesh({{"batch", 4}}, devices("cpu:0-1"));
  const auto shard = [](const Array& x) {
    const auto step = [](const Array& c, const Array& a) {
      const NamedScope layer("decay");
      return std::pair(c + log(a), c);
    };
    return scan(step, zeros_like(sum(x)), x).first * ones({1});
  };
  const auto f = jit(
      [&](const Array& x) {
        return pmap(shard, {.mesh = mesh, .in = {sharded("batch")}, .out = {sharded("batch")}})(x);
      },
      nans);
  Array x = iota({8}, 0, float32) + 1;
  CHECK(f(x).size() == 4);
  x = where(equal(iota({8}, 0), 5), -1.0, x);
  expect_error<NonFiniteError>([&] { f(x); }, "log (forward, layer 'decay', replica 2 of 4, iteration 1) gave 1 NaN");
}

TEST_CASE("infinities are found when asked for, donated arguments or not") {
  const auto f = jit([](const Array& x) { return 1.0 / x; }, {.debug = {.nans = true, .infs = true}});
  Array x = array({1.0, 0.0});
  expect_error<NonFiniteError>([&] { f(std::move(x)); }, "div", "1 infinite");
  Array y = array({1.0, 4.0});
  CHECK(f(std::move(y)).to_vector<double>()[1] == 0.25);
  CHECK(jit([](const Array& z) { return 1.0 / z; }, nans)(array({0.0})).size() == 1);
}

TEST_CASE("the line of the op and the row are named, not those of the step") {
  const auto f = jit(
      [](const Array& x) {
        const Array h = x * 2.0;
        return sum(log(h));  // this line
      },
      nans);
  Array x = ones({4, 3});
  x = where(equal(iota({4, 3}, 0), 2), -1.0, x);
  expect_error<NonFiniteError>([&] { f(x); }, "log (forward) gave 3 NaN (first at [2,0]) in f32[4,3]",
                               "(at non_finite_test.cpp:" + std::to_string(__LINE__ - 6) + ")");
}
