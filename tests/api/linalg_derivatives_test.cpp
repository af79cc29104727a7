#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/derivatives.h>
#include <lockstep/elementwise.h>
#include <lockstep/linalg.h>
#include <lockstep/transforms.h>

#include "tests/api/linalg_matrices.h"
#include "tests/api/scalar_function.h"
#include "tests/support/array_values.h"
#include "tests/support/gradient_checks.h"

using namespace lockstep;
using tests::check_close;
using tests::general;
using tests::larger;
using tests::ScalarFunction;
using tests::tall;
using tests::wide;

namespace {

struct FactorRow {
  std::string what;
  ScalarFunction f;
  Array x;
};

/// Numbers that are not alike, so that no part of a derivative cancels.
Array cosine_weights(const Shape& shape) {
  return cos(convert(reshape(arange(shape.size()), shape.to_vector()), float64) * 1.3 + 0.4);
}
Array weighted_sum(const Array& y) { return sum(y * cosine_weights(y.shape())); }
Array positive(const Array& x) { return matmul(x, transpose(x)) + eye(x.dim(0), float64); }

std::vector<double> differences(const ScalarFunction& f, const Array& x) {
  const std::vector<double> at = tests::values(x);
  const auto value = [&](std::size_t i, double h) {
    std::vector<double> moved = at;
    moved[i] += h;
    return tests::values(f(array(moved, x.shape())))[0];
  };
  std::vector<double> result;
  for (std::size_t i = 0; i < at.size(); ++i) {
    const auto slope = [&](double h) { return (value(i, h) - value(i, -h)) / (2 * h); };
    result.push_back(slope(5e-4) + (slope(5e-4) - slope(1e-3)) / 3);
  }
  return result;
}

const std::vector<FactorRow>& factor_rows() {
  static const std::vector<FactorRow> rows = {
      {"cholesky", [](const Array& x) { return weighted_sum(linalg::cholesky(positive(x))); }, general},
      {"cholesky of one triangle",
       [](const Array& x) { return weighted_sum(linalg::cholesky(positive(x), true, false)); }, general},
      {"qr",
       [](const Array& x) {
         const auto [q, r] = linalg::qr(x);
         return weighted_sum(q) + weighted_sum(r);
       },
       tall},
      {"qr of wide",
       [](const Array& x) {
         const auto [q, r] = linalg::qr(x);
         return weighted_sum(q) + weighted_sum(r);
       },
       wide},
      {"svd",
       [](const Array& x) {
         const auto [u, s, vh] = linalg::svd(x, false);
         return weighted_sum(u) + weighted_sum(s) + weighted_sum(vh);
       },
       tall},
      {"svd of square",
       [](const Array& x) {
         const auto [u, s, vh] = linalg::svd(x);
         return weighted_sum(u) + weighted_sum(s) + weighted_sum(vh);
       },
       general},
      {"svd of wide",
       [](const Array& x) {
         const auto [u, s, vh] = linalg::svd(x, false);
         return weighted_sum(u) + weighted_sum(s) + weighted_sum(vh);
       },
       wide},
      {"svdvals", [](const Array& x) { return weighted_sum(linalg::svdvals(x)); }, general},
      {"eigh",
       [](const Array& x) {
         const auto [w, v] = linalg::eigh(x);
         return weighted_sum(w) + weighted_sum(v);
       },
       general},
      {"eigh of one triangle",
       [](const Array& x) {
         const auto [w, v] = linalg::eigh(x, false, false);
         return weighted_sum(w) + weighted_sum(v);
       },
       general},
      {"eigvalsh", [](const Array& x) { return weighted_sum(linalg::eigvalsh(x)); }, general},
      {"lu", [](const Array& x) { return weighted_sum(linalg::lu_factor(x).lu); }, larger},
      {"lu of tall", [](const Array& x) { return weighted_sum(linalg::lu_factor(x).lu); }, tall},
      {"lu of wide", [](const Array& x) { return weighted_sum(linalg::lu_factor(x).lu); }, wide},
      {"solve", [](const Array& x) { return weighted_sum(linalg::solve(x, tall)); }, general},
      {"solve for b", [](const Array& b) { return weighted_sum(square(linalg::solve(general, b))); }, tall},
      {"lu_solve transposed",
       [](const Array& x) { return weighted_sum(linalg::lu_solve(linalg::lu_factor(x), tall, true)); }, general},
      {"cho_solve", [](const Array& x) { return weighted_sum(linalg::cho_solve(linalg::cholesky(positive(x)), tall)); },
       general},
      {"solve_triangular", [](const Array& x) { return weighted_sum(linalg::solve_triangular(x, tall)); }, general},
      {"inv", [](const Array& x) { return weighted_sum(linalg::inv(x)); }, larger},
      {"pinv", [](const Array& x) { return weighted_sum(linalg::pinv(x)); }, tall},
      {"pinv of wide", [](const Array& x) { return weighted_sum(linalg::pinv(x)); }, wide},
      {"lstsq",
       [](const Array& x) {
         const auto found = linalg::lstsq(x, array({1.0, -2.0, 0.5}));
         return weighted_sum(found.x) + weighted_sum(found.residuals);
       },
       tall},
      {"det of 2", [](const Array& x) { return linalg::det(matmul(transpose(x), x)); }, tall},
      {"det of 3", [](const Array& x) { return linalg::det(x); }, general},
      {"det of 4", [](const Array& x) { return linalg::det(x); }, larger},
      {"slogdet", [](const Array& x) { return linalg::slogdet(x).logabsdet; }, larger},
      {"Frobenius norm", [](const Array& x) { return linalg::norm(x); }, tall},
      {"nuclear norm", [](const Array& x) { return linalg::norm(x, {.order = "nuc"}); }, tall},
      {"spectral norm", [](const Array& x) { return linalg::norm(x, {.order = 2}); }, tall},
      {"3-norm", [](const Array& x) { return linalg::norm(x, {.order = 3, .axes = Axes{-1}}); },
       array({1.0, -2.0, 0.5})},
      {"cond", [](const Array& x) { return linalg::cond(x); }, general},
      {"matrix_power", [](const Array& x) { return weighted_sum(linalg::matrix_power(x, -3)); }, general},
      {"expm", [](const Array& x) { return weighted_sum(linalg::expm(x)); }, general},
      {"expm of a large one", [](const Array& x) { return weighted_sum(linalg::expm(x * 5.0)) * 1e-4; }, general},
      {"cross", [](const Array& x) { return weighted_sum(linalg::cross(x, square(x), 0)); }, tall},
      {"kron", [](const Array& x) { return weighted_sum(linalg::kron(x, square(x))); }, tall},
      {"diagonal and diag",
       [](const Array& x) { return weighted_sum(linalg::diag(square(linalg::diagonal(x, 1)), -1)); }, larger},
      {"tril", [](const Array& x) { return weighted_sum(square(linalg::tril(x, -1))); }, larger},
  };
  return rows;
}

}  // namespace

TEST_CASE("gradients of linalg agree with differences") {
  for (const FactorRow& row : factor_rows()) {
    CAPTURE(row.what);
    check_close(grad(row.f)(row.x), row.x.shape(), differences(row.f, row.x), 1e-5);
  }
}

TEST_CASE("gradients of gradients of linalg agree with differences") {
  for (const FactorRow& row : factor_rows()) {
    CAPTURE(row.what);
    const ScalarFunction slope = [&](const Array& x) { return weighted_sum(grad(row.f)(x)); };
    check_close(grad(slope)(row.x), row.x.shape(), differences(slope, row.x), 1e-5);
  }
}

TEST_CASE("linalg over a batch is a loop over it") {
  for (const FactorRow& row : factor_rows()) {
    CAPTURE(row.what);
    const std::vector<Array> each = {row.x, row.x * 1.25, row.x + 0.1};
    const Array values = vmap(row.f)(stack(each, 0));
    const Array gradients = vmap([&](const Array& x) { return grad(row.f)(x); })(stack(each, 0));
    std::vector<double> expected;
    std::vector<double> expected_gradients;
    for (const Array& x : each) {
      expected.push_back(tests::values(row.f(x))[0]);
      for (const double slope : tests::values(grad(row.f)(x))) expected_gradients.push_back(slope);
    }
    check_close(values, {3}, expected, 1e-12);
    check_close(gradients, row.x.shape().insert(0, 3), expected_gradients, 1e-9);
  }
}

TEST_CASE("pinv has a derivative where singular values are equal") {
  const ScalarFunction f = [](const Array& x) { return weighted_sum(linalg::pinv(x)); };
  check_close(grad(f)(eye(3, float64)), {3, 3}, differences(f, eye(3, float64)), 1e-5);
}

TEST_CASE("det has a derivative at singular matrices of 2 and 3 rows") {
  const ScalarFunction f = [](const Array& x) { return linalg::det(x); };
  for (const Array& x : {ones({2, 2}, float64), ones({3, 3}, float64) + eye(3, float64) * 0.0}) {
    check_close(grad(f)(x), x.shape(), differences(f, x), 1e-5);
  }
}

TEST_CASE("det has a derivative at singular matrices of any rank: the cofactors") {
  const ScalarFunction f = [](const Array& x) { return linalg::det(x); };
  CHECK(grad(f)(zeros({1, 1}, float64)).item<double>() == 1);
  for (std::int64_t n = 1; n <= 12; ++n) {
    for (std::int64_t rank = n; rank >= std::max<std::int64_t>(n - 3, 0); --rank) {
      CAPTURE(n);
      CAPTURE(rank);
      const Array left = tests::wavy({n, rank}, 1), right = tests::wavy({rank, n}, 2);
      const Array product = rank == 0 ? zeros({n, n}, float64) : matmul(left, right);
      // A row and a column of zeros, whose pivots are 0 in the middle of the elimination.
      const Array kept = where(equal(arange(n), n / 2), 0, ones({n}, float64));
      for (const Array& x : {product, product * expand_dims(kept, 0), product * expand_dims(kept, 1)}) {
        const Array gradient = grad(f)(x);
        // Differences of a polynomial of the first degree in each element are exact but for rounding.
        const Array steps = reshape(eye(n * n, float64), {n * n, n, n});
        const auto expected = ((linalg::det(x + steps) - linalg::det(x - steps)) / 2).to_vector<double>();
        check_close(gradient, x.shape(), expected, 1e-9);
        const auto batched = vmap([&](const Array& v) { return grad(f)(v); })(stack(std::vector<Array>{x, 2 * x}, 0));
        check_close(batched[0], x.shape(), expected, 1e-9);
      }
    }
  }
}

TEST_CASE(
    "det's derivative at singular matrices of other dtypes, forward and in reverse, and its second one at others") {
  const auto f = [](const Array& x) { return linalg::det(x); };
  const Array ones_but_last = convert(array({1.0, 1.0, 1.0, 0.0}), float32);
  const Array x = eye(4) * ones_but_last;
  check_close(grad(f)(x), {4, 4}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1});
  check_close(jvp(f, std::tuple(x), std::tuple(full({4, 4}, 2.0, float32))).second, {}, {2});
  check_close(grad(f)(convert(x, float32) * 0), {4, 4}, std::vector<double>(16, 0.0));
  check_grads(f, std::tuple(tests::wavy({5, 5}) + 2 * eye(5, float64)), {.order = 2});
}

namespace {

/// The determinant is of the first degree in each element: its second differences are its second derivatives. A row or
/// column has none by two of its own elements; two of different ones have a minor of n - 2 rows with its sign.
std::vector<double> second_differences(const Array& x, const Array& direction) {
  const std::int64_t n = x.dim(0);
  const Array steps = reshape(eye(n * n, float64), {n * n, n, n}), others = expand_dims(steps, 1);
  const Array up = linalg::det(x + steps + others) - linalg::det(x - steps + others);
  const Array down = linalg::det(x + steps - others) - linalg::det(x - steps - others);
  const Array row = floor_divide(arange(n * n), n), column = rem(arange(n * n), n);
  const Array shares_none = bitwise_and(not_equal(expand_dims(row, 1), row), not_equal(expand_dims(column, 1), column));
  const Array mixed = where(shares_none, (up - down) / 4, 0);
  return sum(mixed * reshape(direction, {n * n, 1}), Axes{0}).to_vector<double>();
}

}  // namespace

TEST_CASE("det has its second derivative at singular matrices of any rank") {
  const ScalarFunction f = [](const Array& x) { return linalg::det(x); };
  for (std::int64_t n = 4; n <= 6; ++n) {
    for (std::int64_t rank = n; rank >= 0; --rank) {
      CAPTURE(n);
      CAPTURE(rank);
      const Array left = tests::wavy({n, rank}, 1), right = tests::wavy({rank, n}, 2);
      const Array x = rank == 0 ? zeros({n, n}, float64) : matmul(left, right);
      const Array direction = tests::wavy({n, n}, 3);
      const std::vector<double> expected = second_differences(x, direction);
      const auto slope = [&](const Array& v) { return sum(grad(f)(v) * direction); };
      check_close(grad(slope)(x), x.shape(), expected, 1e-9);
      check_close(jvp(grad(f), std::tuple(x), std::tuple(direction)).second, x.shape(), expected, 1e-9);
      check_close(vmap(grad(slope))(stack(std::vector<Array>{x, eye(n, float64)}, 0))[0], x.shape(), expected, 1e-9);
    }
  }
}

TEST_CASE("det's second derivative at singular matrices: numbers") {
  const ScalarFunction f = [](const Array& x) { return linalg::det(x); };
  const auto second = [&](const Array& x, std::int64_t row, std::int64_t column) {
    const auto slope = [&](const Array& v) { return grad(f)(v)[0][0]; };
    return grad(slope)(x)[row][column].item<double>();
  };
  // det(x) is x00 x11 x22 x33 beside what holds one of the others; of the zero matrix all of it has degree 4.
  const Array rank_2 = linalg::diag(array({0.0, 0.0, 3.0, 5.0}));
  CHECK(second(rank_2, 1, 1) == doctest::Approx(15).epsilon(1e-12));
  CHECK(second(rank_2, 0, 1) == 0);
  CHECK(second(linalg::diag(array({0.0, 2.0, 3.0, 5.0})), 2, 2) == doctest::Approx(10).epsilon(1e-12));
  CHECK(second(linalg::diag(array({0.0, 2.0, 3.0, 0.0})), 3, 3) == doctest::Approx(6).epsilon(1e-12));
  CHECK(second(zeros({4, 4}, float64), 1, 1) == 0);
  // The third one of the identity: elimination's.
  const auto by_two = [&](const Array& v) { return grad([&](const Array& u) { return grad(f)(u)[0][0]; })(v)[1][1]; };
  CHECK(grad(by_two)(eye(4, float64))[2][2].item<double>() == doctest::Approx(1).epsilon(1e-12));
}

namespace {

/// Of 3 and -4.
struct NormCase {
  double order, expected;
};

}  // namespace

TEST_CASE("the 2-norm has its second derivative by an element of 0, of complex numbers too") {
  // (1 - x^2 / |x|^2) / |x|.
  for (const bool is_complex : {false, true}) {
    CAPTURE(is_complex);
    const auto f = [&](const Array& x) {
      return linalg::norm(is_complex ? lockstep::complex(x, zeros({2}, float64)) : x);
    };
    const auto slope = [&](const Array& x) { return grad(f)(x)[1]; };
    check_close(grad(slope)(array({4.0, 0.0})), {2}, {0, 0.25}, 1e-12);
  }
}

TEST_CASE("norms whose powers would overflow or vanish") {
  for (const double scale : {1e30, 1.0, 1e-30}) {
    const Array x = array({3.F, -4.F}) * scale;
    const std::vector<NormCase> cases = {
        {2, 5}, {3, std::cbrt(91)}, {1, 7}, {0.5, std::pow(std::sqrt(3) + 2, 2)}, {-1, 12.0 / 7}};
    for (const NormCase& c : cases) {
      CAPTURE(scale);
      CAPTURE(c.order);
      CHECK(linalg::norm(x, {.order = c.order}).item<float>() / scale / c.expected == doctest::Approx(1).epsilon(1e-6));
    }
    CHECK(linalg::norm(x).item<float>() / scale == doctest::Approx(5).epsilon(1e-6));
    CHECK(linalg::norm(reshape(x, {1, 2}), {.order = "fro"}).item<float>() / scale == doctest::Approx(5).epsilon(1e-6));
    check_close(grad([](const Array& v) { return linalg::norm(v); })(x), {2}, {0.6, -0.8});
  }
  const Array narrow = full({4}, 30000.0, float16);
  CHECK(linalg::norm(narrow).astype(float32).item<float>() == 60000);
}

TEST_CASE("a norm's derivative at the zero vector is taken as 0") {
  for (const double p : {2.0, 3.0, 1.5}) {
    const auto f = [p](const Array& v) { return sum(linalg::norm(v, {.order = p, .axes = Axes{-1}})); };
    check_close(grad(f)(array({0.F, 0.F, 3.F, -4.F}, {2, 2}) * 1.0F)[0], {2}, {0, 0});
  }
  const auto f = [](const Array& v) { return linalg::norm(v); };
  check_close(grad(f)(zeros({3}, float64)), {3}, {0, 0, 0});
}
