#include <algorithm>
#include <cstdint>
#include <vector>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/indexing.h>
#include <lockstep/linalg.h>

#include "engine/api/linalg/matrices.h"
#include "engine/api/transforms/bind.h"
#include "engine/ops/primitives.h"
#include "engine/trace/array_state.h"

namespace lockstep::linalg {

using api::RightSide;

namespace {

Array symmetrized(const Array& a) { return (a + api::adjoint(a)) * 0.5; }

/// Rows in the order of a permutation.
Array permuted_rows(const Array& x, const Array& permutation) {
  return take_along_axis(x, broadcast_to(expand_dims(permutation, -1), x.shape()), -2, IndexMode::promise_in_bounds);
}

/// The place of each number in a permutation.
Array inverse_permutation(const Array& permutation) {
  const std::int64_t n = permutation.dim(-1);
  if (n == 0) return permutation;
  const Array places = equal(expand_dims(permutation, -2), expand_dims(iota(permutation.shape(), -1), -1));
  return argmax(places, -1);
}

/// Throws ValueError where the numbers are there and are no permutation.
void check_permutation(const Array& permutation) {
  if (permutation.is_traced() || permutation.dtype() != int32 || permutation.state()->cut != nullptr) return;
  const auto n = static_cast<std::size_t>(permutation.dim(-1));
  const std::vector<std::int32_t> numbers = permutation.to_vector<std::int32_t>();
  for (std::size_t row = 0; n > 0 && row < numbers.size(); row += n) {
    std::vector<bool> is_taken(n);
    for (std::size_t i = row; i < row + n; ++i) {
      const auto number = static_cast<std::size_t>(numbers[i]);
      if (numbers[i] >= 0 && number < n && !is_taken[number]) {
        is_taken[number] = true;
        continue;
      }
      throw ValueError(
          fmt::format("linalg.lu_solve: the permutation has {} at place {}; expected each of 0 to {} once; give the "
                      "one that lu_factor "
                      "returned",
                      numbers[i], i - row, n - 1));
    }
  }
}

std::int64_t larger_extent(const Array& a) { return std::max(a.dim(-1), a.dim(-2)); }

}  // namespace

Array cholesky(const ArrayOperand& a, bool upper, bool symmetrize_input) {
  const Array matrix = api::square_matrices("linalg.cholesky", a);
  const Array l = api::bind_one(ops::primitives::cholesky(), {symmetrize_input ? symmetrized(matrix) : matrix});
  return upper ? api::adjoint(l) : l;
}

ChoFactor cho_factor(const ArrayOperand& a, bool lower) {
  const Array matrix = api::square_matrices("linalg.cho_factor", a);
  return {cholesky(lower ? matrix : api::adjoint(matrix), !lower, false), lower};
}

Qr qr(const ArrayOperand& a, bool full_matrices) {
  const std::vector<Array> factors =
      api::bind(ops::primitives::qr(), {{api::matrices("linalg.qr", a)}}, {{"full_matrices", full_matrices}});
  return {factors[0], factors[1]};
}

Svd svd(const ArrayOperand& a, bool full_matrices) {
  const std::vector<Array> factors = api::bind(ops::primitives::svd(), {{api::matrices("linalg.svd", a)}},
                                               {{"full_matrices", full_matrices}, {"compute_uv", true}});
  return {factors[0], factors[1], factors[2]};
}

Array svdvals(const ArrayOperand& a) {
  return api::bind_one(ops::primitives::svd(), {api::matrices("linalg.svdvals", a)},
                       {{"full_matrices", false}, {"compute_uv", false}});
}

Eigh eigh(const ArrayOperand& a, bool lower, bool symmetrize_input) {
  const Array matrix = api::square_matrices("linalg.eigh", a);
  const std::vector<Array> parts =
      api::bind(ops::primitives::eigh(), {{symmetrize_input ? symmetrized(matrix) : matrix}}, {{"lower", lower}});
  return {parts[0], parts[1]};
}

Array eigvalsh(const ArrayOperand& a, bool lower, bool symmetrize_input) {
  return eigh(a, lower, symmetrize_input).eigenvalues;
}

LuFactor lu_factor(const ArrayOperand& a) {
  const std::vector<Array> factors = api::bind(ops::primitives::lu(), {{api::matrices("linalg.lu_factor", a)}});
  return {factors[0], factors[1], factors[2]};
}

Array lu_solve(const LuFactor& factors, const ArrayOperand& b, bool transposed) {
  const RightSide right("linalg.lu_solve", api::square_matrices("linalg.lu_solve", factors.lu), b);
  check_permutation(factors.permutation);
  const Array& lu = right.a;
  const Shape rows(lu.shape().dims().first(static_cast<std::size_t>(lu.ndim() - 1)));
  const Array permutation = broadcast_to(factors.permutation, rows);
  if (!transposed) {
    const Array y = api::triangular_solve(lu, permuted_rows(right.b, permutation), {.unit_diagonal = true});
    return right.as_given(api::triangular_solve(lu, y, {.lower = false}));
  }
  const Array y = api::triangular_solve(lu, right.b, {.lower = false, .transposed = true});
  const Array x = api::triangular_solve(lu, y, {.transposed = true, .unit_diagonal = true});
  return right.as_given(permuted_rows(x, inverse_permutation(permutation)));
}

Array solve(const ArrayOperand& a, const ArrayOperand& b) {
  const Array matrix = api::square_matrices("linalg.solve", a);
  const RightSide checked("linalg.solve", matrix, b);
  return lu_solve(lu_factor(convert(matrix, checked.a.dtype())), b);
}

Array inv(const ArrayOperand& a) {
  const Array matrix = api::square_matrices("linalg.inv", a);
  return solve(matrix, api::identity_of(matrix));
}

Array cho_solve(const ArrayOperand& factor, const ArrayOperand& b, bool lower) {
  const RightSide right("linalg.cho_solve", api::square_matrices("linalg.cho_solve", factor), b);
  // factor factor^H, or factor^H factor of an upper one.
  const Array y = api::triangular_solve(right.a, right.b, {.lower = lower, .transposed = !lower, .conjugated = !lower});
  return right.as_given(api::triangular_solve(right.a, y, {.lower = lower, .transposed = lower, .conjugated = lower}));
}

Array cho_solve(const ChoFactor& factor, const ArrayOperand& b) { return cho_solve(factor.factor, b, factor.lower); }

Array solve_triangular(const ArrayOperand& a, const ArrayOperand& b, const TriangularOptions& options) {
  const RightSide right("linalg.solve_triangular", api::square_matrices("linalg.solve_triangular", a), b);
  return right.as_given(api::triangular_solve(
      right.a, right.b,
      {.lower = options.lower, .transposed = options.transposed, .unit_diagonal = options.unit_diagonal}));
}

Array pinv(const ArrayOperand& a, std::optional<double> rtol) {
  const Array matrix = api::matrices("linalg.pinv", a);
  const double bound = rtol.value_or(10 * static_cast<double>(larger_extent(a)) * api::epsilon(matrix.dtype()));
  return api::bind_one(ops::primitives::pinv(), {matrix}, {{"rtol", bound}});
}

Lstsq lstsq(const ArrayOperand& a, const ArrayOperand& b, std::optional<double> rcond) {
  api::expect_rank("linalg.lstsq", a, 2);
  const Array matrix = api::matrices("linalg.lstsq", a);
  if (b.ndim() != 1 && b.ndim() != 2) {
    throw ShapeError(fmt::format("linalg.lstsq: b is a vector or a matrix, got {}; vmap over the other dimensions",
                                 to_string(b.type())));
  }
  if (b.dim(0) != a.dim(0)) {
    throw ShapeError(fmt::format("linalg.lstsq: {} has {} rows, expected {}, as many as {} has; transpose or slice it",
                                 to_string(b.type()), b.dim(0), a.dim(0), to_string(a.type())));
  }
  const double bound = rcond.value_or(static_cast<double>(larger_extent(a)) * api::epsilon(matrix.dtype()));
  const Array x = matmul(pinv(matrix, bound), b);
  const Array rank = matrix_rank(matrix, bound);
  const Array s = svdvals(matrix);
  const Array columns = b.ndim() == 1 ? expand_dims(b - matmul(matrix, x), -1) : b - matmul(matrix, x);
  if (a.dim(0) <= a.dim(1)) return {x, zeros({0}, s.dtype()), rank, s};
  const Array sums = sum(api::squared_magnitudes(columns), Axes{0});
  const Array full_rank = equal(rank, static_cast<int>(a.dim(1)));
  return {x, where(full_rank, sums, std::numeric_limits<double>::quiet_NaN()), rank, s};
}

}  // namespace lockstep::linalg
