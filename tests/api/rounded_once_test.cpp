#include <limits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>
#include <lockstep/scientific.h>
#include <lockstep/vision.h>

#include "tests/support/array_values.h"

// What nearly cancels in 16-bit floats is computed in float32 and rounded once, and so are its derivatives.

using namespace lockstep;

TEST_CASE("a trend, a product of vectors and an image keep the digits that cancelling leaves") {
  const Array x = convert(array({1000, 1001, 1003, 1002, 1006, 1004, 1009}), float16);
  // scipy.signal.detrend in float64, rounded to float16
  tests::check_is(signal::detrend(x), float16,
                  {0.28564453125, 0.0, 0.71435546875, -1.5712890625, 1.142578125, -2.142578125, 1.5712890625});
  tests::check_is(signal::detrend(x, false), float16,
                  {-3.572265625, -2.572265625, -0.5712890625, -1.5712890625, 2.427734375, 0.428466796875, 5.4296875});
  // numpy.cross in float64, rounded to bfloat16; in bfloat16 all of it is 0
  const Array a = convert(array({1.0078125, 3.015625, 2.}), bfloat16), b = convert(array({3., 9., 5.96875}), bfloat16);
  tests::check_is(linalg::cross(a, b), bfloat16, {-0.00048828125, -0.015380859375, 0.0234375});
  // jax.image.resize in float32, rounded to float16
  const Array y = convert(array({100., -100.25, 100.5, -99.75, 99.}), float16);
  tests::check_is(image::resize(y, {7}, image::ResizeMethod::linear), float16,
                  {100.0, -14.4296875, -42.90625, 100.5, -42.53125, -14.5703125, 99.0});
  tests::check_is(image::resize(y, {7}, image::ResizeMethod::cubic), float16,
                  {111.6875, -25.390625, -60.4375, 100.5, -59.9375, -25.53125, 110.5625});
}

TEST_CASE("what lies between two elements, and a polynomial, are rounded once") {
  const std::vector<double> given = {10.0625, -3.265625, 7.71875, 2.109375, -9.125, 0.5078125, 5.40625};
  const auto levels = [](const Array& x, auto function, double whole) {
    std::vector<double> found;
    for (const double level : {.07, .3, .62, .9}) found.push_back(tests::values(function(x, level * whole)).front());
    return found;
  };
  const auto quantiles = [](const Array& x, double q) { return quantile(x, q); };
  const auto of_numbers = [](const Array& x, double q) { return nanpercentile(x, q); };
  const Array half = convert(array(given), float16), brain = convert(array(given), bfloat16);
  // jnp.quantile and jnp.nanpercentile of JAX 0.10.2, which gives both alike
  CHECK(levels(half, quantiles, 1) == std::vector<double>{-6.6640625, -0.246826171875, 4.484375, 8.65625});
  CHECK(levels(half, of_numbers, 100) == std::vector<double>{-6.6640625, -0.246826171875, 4.484375, 8.65625});
  CHECK(levels(brain, quantiles, 1) == std::vector<double>{-6.65625, -0.2470703125, 4.46875, 8.625});
  CHECK(levels(brain, of_numbers, 100) == std::vector<double>{-6.65625, -0.2470703125, 4.46875, 8.625});
  // jnp.polyval in float32, rounded to float16
  tests::check_is(polyval(half, full({1}, 1.1015625, float16)), float16, {21.765625});
}

TEST_CASE("second derivatives in 16 bits are those in float32, rounded once") {
  const Array x = array({0.f, 0.5f, 1.25f, 2.f}), y = array({1.f, -2.f, 0.75f, 3.f}), at = array({0.25f, 1.f, 1.5f});
  const auto slope_of_slope = [](const auto& function, const Array& a) {
    const auto slope = [&](const Array& v) { return sum(convert(square(grad(function)(v)), float32)); };
    return grad(slope)(a);
  };
  const auto check = [&](const auto& function, const Array& a) {
    const Array exact = slope_of_slope([&](const Array& v) { return sum(function(v)); }, a);
    for (const DType dtype : {float16, bfloat16}) {
      const Array narrow = slope_of_slope([&](const Array& v) { return sum(function(v)); }, convert(a, dtype));
      CHECK(narrow.dtype() == dtype);
      const Array gap = abs(convert(narrow, float32) - exact);
      CHECK(all(gap <= 0.02 * maximum(abs(exact), 1)).item<bool>());
    }
  };
  check([&](const Array& v) { return square(trapezoid(v, convert(x, v.dtype()))); }, y);
  check([&](const Array& v) { return square(trapezoid(convert(y, v.dtype()), v)); }, x);
  check([&](const Array& v) { return square(interp(v, convert(x, v.dtype()), convert(y, v.dtype()))); }, at);
  check([&](const Array& v) { return square(interp(convert(at, v.dtype()), convert(x, v.dtype()), v)); }, y);
  check([&](const Array& v) { return square(unwrap(v * 3)); }, y);
  check([&](const Array& v) { return square(gradient(v)); }, y);
}

TEST_CASE("the largest of NaN that is scattered is NaN, in a batch and in a loop as alone") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Array rows = array(std::vector<float>{1, 5, 2, nan, 0, 3}, Shape{2, 3});
  const Array values = array(std::vector<float>{4, nan, 1, 2, 7, nan}, Shape{2, 3});
  const Array places = array(std::vector<std::int32_t>{0, 0, 2, 1, 1, 1}, Shape{2, 3});
  const auto largest = [](const Array& x, const Array& i, const Array& v) { return at(x, i).max(v); };
  const auto least = [](const Array& x, const Array& i, const Array& v) { return at(x, i).min(v); };
  const auto check = [&](const auto& function) {
    Arrays alone;
    for (std::int64_t k = 0; k < 2; ++k) alone.push_back(function(rows[k], places[k], values[k]));
    const Array batch = vmap(function)(rows, places, values);
    using Row = std::pair<Array, std::pair<Array, Array>>;
    const auto step = [&](const Array& carry, const Row& row) {
      return std::pair(carry, function(row.first, row.second.first, row.second.second));
    };
    const Array loop = scan(step, zeros({}), Row(rows, {places, values})).second;
    for (const Array& found : {batch, loop}) {
      CHECK(all(isclose(found, stack(alone), 0, 0, true)).item<bool>());
    }
    CHECK(isnan(alone[0][0]).item<bool>());
    CHECK(isnan(alone[1][1]).item<bool>());
  };
  check(largest);
  check(least);
}
