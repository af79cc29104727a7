#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/activations.h>
#include <lockstep/arithmetic.h>
#include <lockstep/control_flow.h>
#include <lockstep/convolution.h>
#include <lockstep/derivatives.h>
#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/grids.h>
#include <lockstep/indexing.h>
#include <lockstep/linalg.h>
#include <lockstep/manipulation.h>
#include <lockstep/products.h>
#include <lockstep/ravel_tree.h>
#include <lockstep/reduce.h>
#include <lockstep/reductions.h>
#include <lockstep/scientific/polynomials.h>
#include <lockstep/scientific/signal.h>
#include <lockstep/transforms.h>
#include <lockstep/vision/image.h>

#include "tests/api/scalar_function.h"
#include "tests/support/array_values.h"
#include "tests/support/expect_error.h"

// Second derivatives, sizes 0 and 1, and messages; tests/golden/functions has values, first derivatives and batches.
using namespace lockstep;
using tests::check_equal;
using tests::expect_error;
using tests::ScalarFunction;

namespace {

Array wavy_numbers(const Shape& shape) {
  return sin(convert(reshape(arange(shape.size()), shape.to_vector()), float64) * 1.7 + 0.3);
}
Array wavy_sum(const Array& y) { return sum(y * cos(wavy_numbers(y.shape()))); }

}  // namespace

TEST_CASE("second derivatives of composed numerics, forwards and backwards") {
  const Array m = wavy_numbers({3, 3});
  const std::vector<std::pair<std::string, std::pair<ScalarFunction, Array>>> rows = {
      {"ragged_dot",
       {[](const Array& x) {
          return wavy_sum(square(ragged_dot(x, reshape(x, {2, 3, 2}) * 2, array<int>({1, 3}))));
        },
        wavy_numbers({4, 3})}},
      {"matmul", {[](const Array& x) { return sum(exp(matmul(x, x, float64))); }, m}},
      {"patches",
       {[](const Array& x) { return wavy_sum(exp(conv_general_dilated_patches(x, {2}, {.strides = {2}}))); },
        wavy_numbers({1, 5, 2})}},
      {"nanquantile", {[](const Array& x) { return exp(nanquantile(x, 0.4)); }, m}},
      {"join_blocks",
       {[](const Array& x) {
          return wavy_sum(exp(join_blocks({{x, x}, {x, square(x)}})));
        },
        m}},
      {"reduce",
       {[](const Array& x) {
          return wavy_sum(reduce([](const Array& a, const Array& b) { return a * b + a + b; }, x, 0.0, 0));
        },
        wavy_numbers({5, 2})}},
      {"tridiagonal_solve",
       {[](const Array& x) { return wavy_sum(linalg::tridiagonal_solve(x[0], x[1] + 4, x[2], x[1])); }, m}},
      {"sqrtm", {[](const Array& x) { return wavy_sum(linalg::sqrtm(matmul(x, transpose(x)) + eye(3, float64))); }, m}},
      {"polymul and roots",
       {[](const Array& x) { return sum(real(exp(roots(polymul(x, x + 2.0))))); }, array<double>({1, 0.3, -0.7})}},
      {"polyfit", {[](const Array& x) { return wavy_sum(exp(polyfit(x, wavy_numbers({5}), 2))); }, wavy_numbers({5})}},
      {"toeplitz",
       {[](const Array& x) { return sum(linalg::inv(toeplitz(x) + eye(3, float64) * 4.0)); }, wavy_numbers({3})}},
      {"frexp", {[](const Array& x) { return sum(exp(frexp(x).first)); }, wavy_numbers({4})}},
      {"eigvals", {[](const Array& x) { return sum(real(exp(linalg::eigvals(x)))); }, m}},
      {"eig",
       {[](const Array& x) {
          const auto [w, v] = linalg::eig(x);
          return wavy_sum(real(v * expand_dims(w, 0)) + imag(v) * 2);
        },
        array<double>({1, 2, 0.5, -0.3, 2, 1, 0.2, 0.7, 4}, {3, 3})}},
      {"stft",
       {[](const Array& x) { return sum(square(abs(signal::stft(x, {.segment = 4}).values))); }, wavy_numbers({9})}},
      {"fftconvolve", {[](const Array& x) { return wavy_sum(exp(signal::fftconvolve(x, x))); }, wavy_numbers({3})}},
      {"dct", {[](const Array& x) { return wavy_sum(exp(signal::dct(x))); }, wavy_numbers({5})}},
      {"resize",
       {[](const Array& x) {
          return wavy_sum(square(image::resize(x, {5, 2}, image::ResizeMethod::cubic)));
        },
        m}},
      {"scale_and_translate",
       {[](const Array& x) {
          return wavy_sum(image::scale_and_translate(wavy_numbers({4}), {4}, {0}, x[0] + 1, x[1] * 0.3,
                                                     image::ResizeMethod::lanczos3));
        },
        wavy_numbers({2, 1})}},
      {"map_coordinates",
       {[](const Array& x) {
          return wavy_sum(square(image::map_coordinates(x, {x[0] + 1, x[1] * 0.4 + 1})));
        },
        m}},
  };
  for (const auto& [name, row] : rows) {
    INFO(name);
    const auto& [f, x] = row;
    CHECK_NOTHROW(check_grads(f, std::tuple(x), {.order = 2, .tolerance = 2e-6}));
    check_equal(jit(grad(f))(x), grad(f)(x), 1e-12);
  }
}

TEST_CASE("numerics of no element and of one") {
  const auto add = [](const Array& a, const Array& b) { return a + b; };
  CHECK(linalg::eig(zeros({2, 0, 0})).eigenvalues.shape() == Shape{2, 0});
  CHECK(linalg::sqrtm(zeros({0, 0})).shape() == Shape{0, 0});
  check_equal(linalg::sqrtm(full({1, 1}, 9.0, float64)), full({1, 1}, 3.0, float64), 1e-12);
  CHECK(any(isnan(linalg::sqrtm(array<double>({0, 1, -1, 0}, {2, 2}) * 0 - eye(2, float64)))).item<bool>());
  CHECK(linalg::tridiagonal_solve(zeros({3, 0}), zeros({3, 0}), zeros({3, 0}), zeros({3, 0, 2})).shape() ==
        Shape{3, 0, 2});
  CHECK(reduce(add, zeros({0, 3}), 1.0, 0).shape() == Shape{3});
  CHECK(reduce(add, full({}, 5.0f), 1.0).item<float>() == 6);
  CHECK(ragged_dot(zeros({3, 2}), zeros({0, 2, 4}), zeros({0}, int32)).shape() == Shape{3, 4});
  CHECK(image::resize(ones({1, 1}), {3, 2}, image::ResizeMethod::lanczos3).shape() == Shape{3, 2});
  CHECK(image::resize(ones({0, 2}), {0, 4}, image::ResizeMethod::linear).shape() == Shape{0, 4});
  CHECK(signal::stft(ones({1})).values.shape() == Shape{1, 1});
  CHECK(signal::dct(full({1}, 2.0f)).item<float>() == 4);
  CHECK(block_diag({}).shape() == Shape{1, 0});
  CHECK(toeplitz(zeros({0}), ones({2})).shape() == Shape{0, 2});
  CHECK(roots(ones({1})).shape() == Shape{0});
  CHECK(poly(zeros({0})).item<float>() == 1);
  CHECK(gcd(zeros({0}, int32), zeros({0}, int32)).shape() == Shape{0});
  CHECK(unwrap(ones({1})).item<float>() == 1);
  CHECK(indices({}).shape() == Shape{0});
  CHECK(conv_general_dilated_patches(ones({0, 4, 1}), {3}).shape() == Shape{0, 2, 3});
}

TEST_CASE("a tree raveled comes back, inside of transforms too") {
  const Tree tree =
      Tree::dict({{"a", array<float>({1, 2})}, {"b", Tree::list({array<int>({3}), full({}, 4.0, float64)})}});
  const auto [flat, unravel] = ravel_tree(tree);
  CHECK(flat.dtype() == float64);
  check_equal(flat, array<double>({1, 2, 3, 4}));
  const Tree back = unravel(flat * 2);
  CHECK(back.at("b/0").array().dtype() == int32);
  check_equal(back.at("a").array(), array<float>({2, 4}));
  const auto loss = [unravel = unravel](const Array& x) { return sum(square(unravel(x).at("a").array())); };
  check_equal(jit(grad(loss))(flat), array<double>({2, 4, 0, 0}));
  expect_error<ShapeError>([&] { unravel(ones({3}, float64)); }, "[3] given", "a vector of 4 elements");
  expect_error<DtypeError>([&] { unravel(ones({4})); }, "f32[4] given; expected float64", "convert it");
  CHECK(ravel_tree(Tree()).flat.shape() == Shape{0});
}

TEST_CASE("a root of a matrix, its signals and rectangles") {
  const Array a = array<double>({2, 1, -1, 3}, {2, 2});
  check_equal(matmul(linalg::sqrtm(a), linalg::sqrtm(a)), a, 1e-12);
  const Array x = wavy_numbers({2, 37});
  const signal::StftOptions options{.segment = 8, .overlap = 6};
  check_equal(slice_in_dim(signal::istft(signal::stft(x, options).values, options), 0, 37, -1), x, 1e-12);
  const Arrays rectangle = ix_({array<int>({0, 1}), array<int>({2, 0})});
  check_equal(index(x, {rectangle[0], rectangle[1]}), index(x, {Slice{0, 2}, array<int>({2, 0})}));
  // The sums of int8 do not wrap, and 16-bit products are summed in float32.
  CHECK(matmul(full({1, 300}, 100, int8), full({300, 1}, 100, int8), int32).item<int>() == 3000000);
  CHECK(matmul(ones({1, 300}, bfloat16), ones({300}, bfloat16), float32).item<float>() == 300);
  CHECK(einsum("i,i->", {ones({4}, bool_), ones({4}, bool_)}, int32).item<int>() == 4);
}

TEST_CASE("mantissa and exponent make the number, of every dtype") {
  const Array x = array<double>({0, 1, -0.75, 5e-324, 3e-40, 2.5e-310, 6e-8, 1.7e308, -3e5, 1e-20});
  for (const DType dtype : {float16, bfloat16, float32, float64}) {
    const Array given = convert(x, dtype);
    const auto [m, e] = frexp(given);
    check_equal(ldexp(m, e), given, 0);
    const Array held = logical_and(abs(m) >= 0.5, abs(m) < 1);
    CHECK(all(logical_or(held, logical_or(given == 0, isinf(given)))).item<bool>());
  }
}

TEST_CASE("windows that fit nowhere give no results") {  // as jax.lax.reduce_window
  const auto add = [](const Array& a, const Array& b) { return a + b; };
  const Array x = ones({3, 2});
  CHECK(reduce_window(add, x, 0.0, {.window = {1, 3}}).shape() == Shape{3, 0});
  CHECK(reduce_window(add, x, 0.0, {.window = {2, 2}, .window_dilation = {3, 1}}).shape() == Shape{0, 1});
  CHECK(reduce_window(add, x, 0.0, {.window = {9, 9}, .strides = {2, 2}}).shape() == Shape{0, 0});
}

TEST_CASE("an axis that there is not is refused in the name of the function that was called") {
  const Array x = ones({3, 4}), mask = x > 0.0f, places = zeros({3, 4}, int32);
  using Call = std::function<Array(std::int64_t)>;
  const std::vector<std::pair<std::string, Call>> calls = {
      {"median", [&](std::int64_t a) { return median(x, a); }},
      {"quantile", [&](std::int64_t a) { return quantile(x, 0.5, a); }},
      {"percentile", [&](std::int64_t a) { return percentile(x, 50.0, a); }},
      {"nanmedian", [&](std::int64_t a) { return nanmedian(x, a); }},
      {"nanquantile", [&](std::int64_t a) { return nanquantile(x, 0.5, a); }},
      {"flip", [&](std::int64_t a) { return flip(x, Axes{a}); }},
      {"softmax", [&](std::int64_t a) { return softmax(x, a); }},
      {"log_softmax", [&](std::int64_t a) { return log_softmax(x, a); }},
      {"softmax", [&](std::int64_t a) { return softmax(x, mask, a); }},
      {"log_softmax", [&](std::int64_t a) { return log_softmax(x, mask, a); }},
      {"glu", [&](std::int64_t a) { return glu(x, a); }},
      {"nanargmax", [&](std::int64_t a) { return nanargmax(x, a); }},
      {"nanargmin", [&](std::int64_t a) { return nanargmin(x, a); }},
      {"nansum", [&](std::int64_t a) { return nansum(x, Axes{a}); }},
      {"nanprod", [&](std::int64_t a) { return nanprod(x, Axes{a}); }},
      {"nanmean", [&](std::int64_t a) { return nanmean(x, Axes{a}); }},
      {"nanvar", [&](std::int64_t a) { return nanvar(x, Axes{a}); }},
      {"nanstd", [&](std::int64_t a) { return nanstd(x, Axes{a}); }},
      {"nanmax", [&](std::int64_t a) { return nanmax(x, Axes{a}); }},
      {"nanmin", [&](std::int64_t a) { return nanmin(x, Axes{a}); }},
      {"ptp", [&](std::int64_t a) { return ptp(x, Axes{a}); }},
      {"count_nonzero", [&](std::int64_t a) { return count_nonzero(x, Axes{a}); }},
      {"append", [&](std::int64_t a) { return append(x, x, a); }},
      {"take", [&](std::int64_t a) { return take(x, places, a); }},
      {"take_along_axis", [&](std::int64_t a) { return take_along_axis(x, places, a); }},
      {"sort", [&](std::int64_t a) { return sort(x, a); }},
      {"argsort", [&](std::int64_t a) { return argsort(x, a); }},
      {"cumsum", [&](std::int64_t a) { return cumsum(x, a); }},
      {"roll", [&](std::int64_t a) { return roll(x, 1, a); }},
      {"concatenate",
       [&](std::int64_t a) {
         return concatenate({x, x}, a);
       }},
      {"repeat", [&](std::int64_t a) { return repeat(x, 2, a); }},
      {"logsumexp", [&](std::int64_t a) { return logsumexp(x, Axes{a}); }},
      {"stddev", [&](std::int64_t a) { return stddev(x, Axes{a}); }},
      {"diff", [&](std::int64_t a) { return diff(x, 1, a); }},
      {"gradient", [&](std::int64_t a) { return gradient(x, a); }},
      {"unwrap", [&](std::int64_t a) { return unwrap(x, a); }},
      {"average", [&](std::int64_t a) { return average(x, x, Axes{a}); }},
  };
  for (const auto& [name, call] : calls) {
    CAPTURE(name);
    for (const std::int64_t axis : {2, -3}) {
      expect_error<ShapeError>([&, &call = call] { call(axis); },
                               name + ": axis " + std::to_string(axis) + " of an array of rank 2, expected -2 to 1");
    }
  }
  expect_error<ShapeError>([&] { stack({x, x}, 3); }, "stack: axis 3 of an array of rank 3");
}

TEST_CASE("messages of numerics say what to write") {
  const Array m = ones({3, 3}), v = ones({3});
  expect_error<DtypeError>([&] { gcd(v, v); }, "gcd: operands must be integers, got f32[3]; convert");
  expect_error<DtypeError>([&] { ldexp(v, v); }, "ldexp: exponents must be integers, got f32[3]");
  expect_error<DtypeError>([&] { ldexp(complex(v, v), ones({3}, int32)); }, "expected floats: scale both parts");
  expect_error<DtypeError>([&] { frexp(complex(v, v)); }, "expected floats: take abs first");
  expect_error<ShapeError>([&] { polyadd(m, v); }, "polyadd: [3,3] given; expected a vector of coefficients");
  expect_error<ValueError>([&] { polyder(v, -1); }, "the order is -1; expected 0 or more");
  expect_error<ShapeError>([&] { polyfit(v, ones({2}), 1); }, "polyfit: x is [3], y is [2]");
  expect_error<ShapeError>([&] { block_diag({ones({1, 1, 1})}); }, "expected matrices, vectors or scalars");
  expect_error<ShapeError>([&] { toeplitz(m, v); }, "column [3,3] and row [3] given");
  expect_error<ShapeError>([&] { ragged_dot(m, m, v); }, "ragged_dot: got x [3,3], matrices [3,3]", "[g, k, n]");
  expect_error<DtypeError>([&] { ragged_dot(m, ones({3, 3, 2}), v); }, "group_sizes must be integers, got f32[3]");
  expect_error<DtypeError>([&] { matmul(m, m, int32); }, "a product of float32 is asked for in int32", "convert");
  expect_error<DtypeError>([&] { einsum("ij->i", {m}, int8); }, "einsum: a product of float32");
  expect_error<DtypeError>([&] { unravel_index(v, {3}); }, "unravel_index: indices must be integers, got f32[3]");
  expect_error<ShapeError>([&] { ravel_multi_index({v}, {3, 2}); }, "1 arrays of indices for 2 extents");
  expect_error<ValueError>([&] { ravel_multi_index({v}, {3}, IndexMode::fill); }, "expected IndexMode::clip or wrap");
  expect_error<ShapeError>([&] { ix_({m}); }, "ix_: [3,3] given; expected a vector");
  expect_error<ValueError>([&] { mgrid({}); }, "mgrid: there is no range");
  expect_error<ShapeError>([&] { fill_diagonal(v, 1); }, "fill_diagonal: [3] given; expected a matrix");
  expect_error<ShapeError>([&] { fill_diagonal(m, ones({2})); }, "2 values for a diagonal of 3 elements");
  expect_error<ValueError>([&] { join_blocks({{v, v}, {Blocks{v}, v}}); }, "lists are nested", "expected one depth");
  expect_error<ValueError>([&] { join_blocks(std::vector<Blocks>{}); }, "join_blocks: a list is empty");
  const auto add = [](const Array& a, const Array& b) { return a + b; };
  const auto first_list = [](const Arrays& a, const Arrays&) { return a; };
  expect_error<DtypeError>([&] { reduce(add, m, ones({}, int32)); }, "its initial value i32[]", "convert one");
  expect_error<ShapeError>([&] { reduce(add, m, v); }, "the initial value of \"\" is f32[3]; expected a scalar");
  expect_error<ShapeError>([&] { reduce(add, m, 0.0, 2); }, "reduce");
  expect_error<StateError>([&] { reduce([](const Array& a, const Array& b) { return sum(a + b); }, m, 0.0); },
                           "reduce: the function's result");
  expect_error<ShapeError>([&] { reduce_window(add, m, 0.0, {.window = {2}}); }, "2 numbers of 1 or more", "[2]");
  expect_error<ValueError>([&] { reduce(first_list, Arrays{}, Arrays{}); }, "there are no elements");
  expect_error<StateError>([&] { reduce(first_list, Arrays{v, v}, Arrays{v}); }, "expected one structure");
  expect_error<ShapeError>([&] { conv_general_dilated_patches(m, {2}); }, "needs x [N, spatial..., C]", "[2]");
  expect_error<ValueError>([&] { nanquantile(v, 1.5); }, "nanquantile: q is 1.5; expected a number from 0 to 1");
  expect_error<ShapeError>([&] { linalg::tridiagonal_solve(v, v, m, v); }, "expected [..., m] each");
  expect_error<ShapeError>([&] { linalg::eig(ones({2, 3})); }, "linalg.eig");
  expect_error<ShapeError>([&] { linalg::sqrtm(v); }, "linalg.sqrtm");
  expect_error<ShapeError>([&] { signal::stft(full({}, 1.0f)); }, "signal.stft: a scalar given");
  expect_error<ValueError>([&] { signal::stft(v, {.segment = 2, .overlap = 2}); },
                           "segments of 2 samples that share 2");
  expect_error<ShapeError>([&] { signal::stft(v, {.segment = 2, .window = v}); }, "the window is [3]");
  expect_error<ShapeError>([&] { signal::istft(v); }, "expected [..., frequencies, times]");
  expect_error<ShapeError>([&] { signal::fftconvolve(m, v); }, "expected one rank");
  expect_error<ShapeError>([&] { signal::fftconvolve(ones({0}), v); }, "expected at least one element");
  expect_error<ValueError>([&] { signal::fftconvolve(v, v, "half"); }, "got \"half\"");
  expect_error<ShapeError>([&] { signal::convolve2d(ones({1, 3}), ones({2, 2}), "valid"); }, "holds the other");
  expect_error<ShapeError>([&] { signal::convolve2d(v, v); }, "[3] given; expected matrices");
  expect_error<ShapeError>([&] { signal::dct(ones({2, 0})); }, "has no elements along axis 1");
  const auto linear = image::ResizeMethod::linear;
  expect_error<ShapeError>([&] { image::resize(m, {3}, linear); }, "image.resize: the result's shape is [3]");
  expect_error<ShapeError>([&] { image::resize(ones({0}), {3}, linear); }, "has no element");
  expect_error<ShapeError>(
      [&] {
        image::scale_and_translate(m, {3, 2}, {0}, ones({1}), ones({1}), linear);
      },
      "name it in dims");
  expect_error<ShapeError>([&] { image::scale_and_translate(m, {3, 2}, {1}, v, ones({1}), linear); }, "expected [1]");
  expect_error<ValueError>(
      [&] {
        image::scale_and_translate(m, {3, 2}, {1}, v, v, image::ResizeMethod::nearest);
      },
      "no method nearest");
  expect_error<ValueError>([&] { image::map_coordinates(v, {v}, {.order = 3}); }, "order is 3; expected 0");
  expect_error<ShapeError>([&] { image::map_coordinates(m, {v}); }, "1 arrays of coordinates for [3,3]");
  expect_error<ShapeError>([&] { image::map_coordinates(m, {v, m}); }, "coordinates are [3] and [3,3]");
  expect_error<ShapeError>([&] { image::map_coordinates(ones({0}), {v}); }, "expected at least one");
}
