#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/linalg.h>
#include <lockstep/transforms.h>

#include "tests/support/array_values.h"

using namespace lockstep;
using tests::check_close;

namespace {

using Scalar = std::function<Array(const Array&)>;

struct Row {
  std::string what;
  Scalar f;
  Array x;
};

const Array general = array(std::vector<double>{2, -1, 0.5, 0.3, 1.5, -2, -1.2, 0.7, 3}, {3, 3});
const Array tall = array(std::vector<double>{1, 2, 3, -1, 0.5, 4}, {3, 2});
const Array wide = transpose(tall);
const Array larger =
    array(std::vector<double>{2, -1, 0.5, 1, 0.3, 1.5, -2, 0, -1.2, 0.7, 3, 0.4, 1, 0.2, -0.6, 2.5}, {4, 4});

/// Numbers that are not alike, so that no part of a derivative cancels.
Array weights(const Shape& shape) {
  return cos(convert(reshape(arange(shape.size()), shape.to_vector()), float64) * 1.3 + 0.4);
}
Array weighted(const Array& y) { return sum(y * weights(y.shape())); }
Array positive(const Array& x) { return matmul(x, transpose(x)) + eye(x.dim(0), float64); }

std::vector<double> differences(const Scalar& f, const Array& x) {
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

const std::vector<Row>& functions() {
  static const std::vector<Row> rows = {
      {"cholesky", [](const Array& x) { return weighted(linalg::cholesky(positive(x))); }, general},
      {"cholesky of one triangle", [](const Array& x) { return weighted(linalg::cholesky(positive(x), true, false)); },
       general},
      {"qr",
       [](const Array& x) {
         const auto [q, r] = linalg::qr(x);
         return weighted(q) + weighted(r);
       },
       tall},
      {"qr of wide",
       [](const Array& x) {
         const auto [q, r] = linalg::qr(x);
         return weighted(q) + weighted(r);
       },
       wide},
      {"svd",
       [](const Array& x) {
         const auto [u, s, vh] = linalg::svd(x, false);
         return weighted(u) + weighted(s) + weighted(vh);
       },
       tall},
      {"svd of square",
       [](const Array& x) {
         const auto [u, s, vh] = linalg::svd(x);
         return weighted(u) + weighted(s) + weighted(vh);
       },
       general},
      {"svd of wide",
       [](const Array& x) {
         const auto [u, s, vh] = linalg::svd(x, false);
         return weighted(u) + weighted(s) + weighted(vh);
       },
       wide},
      {"svdvals", [](const Array& x) { return weighted(linalg::svdvals(x)); }, general},
      {"eigh",
       [](const Array& x) {
         const auto [w, v] = linalg::eigh(x);
         return weighted(w) + weighted(v);
       },
       general},
      {"eigh of one triangle",
       [](const Array& x) {
         const auto [w, v] = linalg::eigh(x, false, false);
         return weighted(w) + weighted(v);
       },
       general},
      {"eigvalsh", [](const Array& x) { return weighted(linalg::eigvalsh(x)); }, general},
      {"lu", [](const Array& x) { return weighted(linalg::lu_factor(x).lu); }, larger},
      {"lu of tall", [](const Array& x) { return weighted(linalg::lu_factor(x).lu); }, tall},
      {"lu of wide", [](const Array& x) { return weighted(linalg::lu_factor(x).lu); }, wide},
      {"solve", [](const Array& x) { return weighted(linalg::solve(x, tall)); }, general},
      {"solve for b", [](const Array& b) { return weighted(square(linalg::solve(general, b))); }, tall},
      {"lu_solve transposed",
       [](const Array& x) { return weighted(linalg::lu_solve(linalg::lu_factor(x), tall, true)); }, general},
      {"cho_solve", [](const Array& x) { return weighted(linalg::cho_solve(linalg::cholesky(positive(x)), tall)); },
       general},
      {"solve_triangular", [](const Array& x) { return weighted(linalg::solve_triangular(x, tall)); }, general},
      {"inv", [](const Array& x) { return weighted(linalg::inv(x)); }, larger},
      {"pinv", [](const Array& x) { return weighted(linalg::pinv(x)); }, tall},
      {"pinv of wide", [](const Array& x) { return weighted(linalg::pinv(x)); }, wide},
      {"lstsq",
       [](const Array& x) {
         const auto found = linalg::lstsq(x, array({1.0, -2.0, 0.5}));
         return weighted(found.x) + weighted(found.residuals);
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
      {"matrix_power", [](const Array& x) { return weighted(linalg::matrix_power(x, -3)); }, general},
      {"expm", [](const Array& x) { return weighted(linalg::expm(x)); }, general},
      {"expm of a large one", [](const Array& x) { return weighted(linalg::expm(x * 5.0)) * 1e-4; }, general},
      {"cross", [](const Array& x) { return weighted(linalg::cross(x, square(x), 0)); }, tall},
      {"kron", [](const Array& x) { return weighted(linalg::kron(x, square(x))); }, tall},
      {"diagonal and diag", [](const Array& x) { return weighted(linalg::diag(square(linalg::diagonal(x, 1)), -1)); },
       larger},
      {"tril", [](const Array& x) { return weighted(square(linalg::tril(x, -1))); }, larger},
  };
  return rows;
}

}  // namespace

TEST_CASE("gradients of linalg agree with differences") {
  for (const Row& row : functions()) {
    CAPTURE(row.what);
    check_close(grad(row.f)(row.x), row.x.shape(), differences(row.f, row.x), 1e-5);
  }
}

TEST_CASE("gradients of gradients of linalg agree with differences") {
  for (const Row& row : functions()) {
    CAPTURE(row.what);
    const Scalar slope = [&](const Array& x) { return weighted(grad(row.f)(x)); };
    check_close(grad(slope)(row.x), row.x.shape(), differences(slope, row.x), 1e-5);
  }
}

TEST_CASE("linalg over a batch is a loop over it") {
  for (const Row& row : functions()) {
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
  const Scalar f = [](const Array& x) { return weighted(linalg::pinv(x)); };
  check_close(grad(f)(eye(3, float64)), {3, 3}, differences(f, eye(3, float64)), 1e-5);
}

TEST_CASE("det has a derivative at singular matrices of 2 and 3 rows") {
  const Scalar f = [](const Array& x) { return linalg::det(x); };
  for (const Array& x : {ones({2, 2}, float64), ones({3, 3}, float64) + eye(3, float64) * 0.0}) {
    check_close(grad(f)(x), x.shape(), differences(f, x), 1e-5);
  }
}
