#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/core/lists.h"
#include "engine/ops/linalg/matrices.h"
#include "engine/ops/linalg/matrix_samples.h"
#include "engine/ops/linalg/reference_matrix.h"
#include "engine/ops/rules/define.h"
#include "engine/ops/rules/layout.h"

namespace lockstep::ops {

namespace {

std::vector<ArrayType> lu_infer(const ir::InferContext& context) {
  infer::expect_operands(context, 1);
  expect_matrices(context, 0);
  const Shape& a = context.inputs[0].shape;
  const std::int64_t k = std::min(a.dim(-1), a.dim(-2));
  return {{context.inputs[0].dtype, a, {}},
          {DType::int32, batch_then(a, {k}), {}},
          {DType::int32, batch_then(a, {a.dim(-2)}), {}}};
}

/// `x` with zero rows and columns after its own, `extent` of both.
Value widened(const Value& x, std::int64_t extent) {
  const auto rank = static_cast<std::size_t>(x.rank());
  if (rows(x) == extent && columns(x) == extent) return x;
  const Dims none(rank, 0);
  Dims high = none;
  high[rank - 2] = extent - rows(x);
  high[rank - 1] = extent - columns(x);
  return pad(x, 0, none, high, none);
}

/// u with ones on the diagonal of the rows it has not.
Value square_upper(const Value& u) {
  const std::int64_t n = columns(u);
  const std::int64_t missing = n - rows(u);
  if (missing == 0) return u;
  const auto rank = static_cast<std::size_t>(u.rank());
  const Dims none(rank, 0);
  Dims low = none;
  low[rank - 2] = low[rank - 1] = rows(u);
  const Value ones = identity(u.builder(), u.dtype(), batch_then(u.shape(), {missing, missing}));
  return widened(u, n) + pad(ones, 0, low, none, none);
}

/// With P a = l u: l^-1 P da u^-1 = l^-1 dl + du u^-1, strictly lower and upper triangular. Where a is not square, l or
/// u is bordered with ones to be so.
Value lu_tangent(const JvpContext& context) {
  const Value& lu = context.outputs[0];
  const Value& da = *context.tangents[0];
  const std::int64_t m = rows(lu);
  const std::int64_t n = columns(lu);
  const std::int64_t k = std::min(m, n);
  Dims kept = repeated(lu.rank() - 1);
  std::iota(kept.begin(), kept.end(), std::int64_t{0});
  const Value order = broadcast_in_dim(context.outputs[2], da.shape(), kept);
  const Value permuted = apply_one(primitives::take_along_axis(), {da, order}, {{"axis", da.rank() - std::int64_t{2}}});
  const Value l = widened(lower_triangle(block(lu, 0, m, 0, k), true), m);
  const Value u = square_upper(upper_triangle(block(lu, 0, k, 0, n)));
  const Value left = triangular_solve(l, permuted, TriangularSolve(true, true, false, false, true));
  const Value both = triangular_solve(u, left, TriangularSolve(false, false, false, false, false));
  return matmul(l + identity(l.builder(), l.dtype(), l.shape()), lower_triangle(both, true)) +
         matmul(upper_triangle(both), u);
}

std::vector<Tangent> lu_jvp(const JvpContext& context) {
  if (context.outputs[0].type().size() == 0) return {std::nullopt, std::nullopt, std::nullopt};
  return {lu_tangent(context), std::nullopt, std::nullopt};
}

/// What LAPACK calls the magnitude of a pivot.
double pivot_size(double x) { return std::abs(x); }
double pivot_size(Complex x) { return std::abs(x.real()) + std::abs(x.imag()); }

template <class T>
std::int64_t pivot_row(const reference::Matrix<T>& a, std::int64_t j) {
  std::int64_t best = j;
  for (std::int64_t i = j + 1; i < a.rows(); ++i) {
    if (pivot_size(a(i, j)) > pivot_size(a(best, j))) best = i;
  }
  return best;
}

template <class T>
void lu_matrix(const ir::ReferenceContext& context, std::int64_t k) {
  auto a = reference::load_matrix<T>(context.inputs[0], k);
  std::vector<std::int64_t> pivots;
  std::vector<std::int64_t> permutation = repeated(a.rows());
  std::iota(permutation.begin(), permutation.end(), std::int64_t{0});
  for (std::int64_t j = 0; j < std::min(a.rows(), a.columns()); ++j) {
    const std::int64_t pivot = pivot_row(a, j);
    pivots.push_back(pivot);
    std::swap(nth(permutation, j), nth(permutation, pivot));
    for (std::int64_t c = 0; c < a.columns(); ++c) std::swap(a(j, c), a(pivot, c));
    if (a(j, j) == T{}) continue;
    for (std::int64_t i = j + 1; i < a.rows(); ++i) {
      a(i, j) /= a(j, j);
      for (std::int64_t c = j + 1; c < a.columns(); ++c) a(i, c) -= a(i, j) * a(j, c);
    }
  }
  reference::store_matrix(context.outputs[0], k, a);
  reference::store_row(context.outputs[1], k, pivots);
  reference::store_row(context.outputs[2], k, permutation);
}

double lu_flops(double m, double n) {
  const double k = std::min(m, n);
  return 2 * m * n * k - (m + n) * k * k + 2 * k * k * k / 3;
}

}  // namespace

const Primitive& primitives::lu() {
  static const Primitive op{
      .name = "lu",
      .infer = lu_infer,
      .derivative = derivative::jvp(lu_jvp),
      .batch = batch::pointwise(lu),
      .reference = reference::by_matrix(
          []<class T>(const ir::ReferenceContext& context, std::int64_t k) { lu_matrix<T>(context, k); }),
      .flops = flops::per_matrix(lu_flops),
      .samples =
          [] {
            return matrix_samples({{4, 4}, {5, 3}, {3, 5}, {2, 3, 3}, {1, 1}, {0, 0}, {0, 3}, {3, 0}, {0, 2, 2}}, {},
                                  {{-2, 2, true}});
          },
      .error_samples = matrix_errors({}),
      .traits = {},
      .layout = layout::leading(2)};
  return op;
}

}  // namespace lockstep::ops
