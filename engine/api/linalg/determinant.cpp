#include <tuple>
#include <utility>

#include <lockstep/control_flow.h>
#include <lockstep/custom_derivatives.h>
#include <lockstep/linalg.h>
#include <lockstep/ops.h>
#include <lockstep/reductions.h>
#include <lockstep/transforms.h>

#include "engine/api/linalg/matrices.h"
#include "engine/api/numpy/axes.h"

namespace lockstep::linalg {

namespace {

/// Element (i, j) of matrices.
Array element(const Array& a, std::int64_t i, std::int64_t j) {
  return squeeze(slice_in_dim(slice_in_dim(a, i, i + 1, -2), j, j + 1, -1), {-2, -1});
}

/// 1 or -1 for an even or odd number of exchanges.
Array exchange_sign(const LuFactor& factors) {
  const Array moved = not_equal(factors.pivots, iota(factors.pivots.shape(), -1));
  const Array odd = rem(sum(moved, Axes{-1}), 2);
  return convert(1 - 2 * odd, factors.lu.dtype());
}

Array minor_2(const Array& a, std::int64_t first, std::int64_t second) {
  return element(a, 1, first) * element(a, 2, second) - element(a, 1, second) * element(a, 2, first);
}

Array pivots_of(const LuFactor& factors) { return diagonal(factors.lu, 0, -2, -1); }

/// By elimination.
Array determinant_by_elimination(const Array& matrix) {
  const LuFactor factors = lu_factor(matrix);
  return exchange_sign(factors) * prod(pivots_of(factors), Axes{-1});
}

/// For each of d[0], d[1], ... the product of those before it, with `reverse` of those behind it.
Array products_of_others(const Array& d, bool reverse) {
  const std::int64_t n = d.dim(-1);
  const Array one = ones_like(slice_in_dim(d, 0, 1, -1));
  const Array part = slice_in_dim(d, reverse ? 1 : 0, reverse ? n : n - 1, -1);
  return cumprod(reverse ? concatenate({part, one}, -1) : concatenate({one, part}, -1), -1, reverse);
}

/// The adjugate of upper triangular matrices u, without a division. Element (i, j) of their inverse is E(i, j) over the
/// product of u's diagonal from i to j, E(i, i) being 1 and E(i, j) the negative sum over k from i to j - 1 of
/// E(i, k) u(k, j) times the diagonal between k and j.
Array adjugate_of_upper(const Array& u) {
  const std::int64_t n = u.dim(-1);
  const Array d = diagonal(u, 0, -2, -1), places = arange(n);
  using Carry = std::tuple<Array, Array>;  // E, and for each k the product of the diagonal between k and j
  using Column = std::tuple<Array, Array, Array>;
  const auto body = [&](const Carry& carry, const Column& column) {
    const auto& [e, between] = carry;
    const auto& [j, u_j, d_j] = column;
    const Array before = less(places, j), here = equal(places, j);
    const Array terms = where(before, between * u_j, 0);
    const Array e_j = convert(here, u.dtype()) - sum(e * expand_dims(terms, -2), Axes{-1});
    return std::pair(Carry(where(here, expand_dims(e_j, -1), e), where(before, between * expand_dims(d_j, -1), 1)), j);
  };
  const Carry start(zeros_like(u), ones_like(d));
  const Carry end = scan(body, start, Column(places, moveaxis(u, -1, 0), moveaxis(d, -1, 0))).first;
  return std::get<0>(end) * expand_dims(products_of_others(d, false), -1) *
         expand_dims(products_of_others(d, true), -2);
}

/// With P a = l u it is det(P) adj(u) l^-1 P.
Array eliminated_adjugate(const Array& matrix) {
  const LuFactor factors = lu_factor(matrix);
  const Array upper = adjugate_of_upper(triu(factors.lu));
  const Array mixed =
      api::triangular_solve(factors.lu, upper, {.left_side = false, .lower = true, .unit_diagonal = true});
  const Array from = expand_dims(argsort(factors.permutation, -1), -2);
  const Array columns = take_along_axis(mixed, broadcast_to(from, mixed.shape()), -1);
  return columns * expand_dims(expand_dims(exchange_sign(factors), -1), -1);
}

/// [..., n] -> [..., n, n]: the product of all but elements i and j, 0 where i is j.
Array products_without_two(const Array& s) {
  const Array one = eye(s.dim(-1), s.dtype());
  const Array others = where(not_equal(one, 0), 1, expand_dims(s, -2));  // row i: element i left out
  return products_of_others(others, false) * products_of_others(others, true) * (1 - one);
}

/// Of an orthogonal or unitary matrix.
Array unit_determinant(const Array& q) { return expand_dims(expand_dims(determinant_by_elimination(q), -1), -1); }

/// How the adjugate of u diag(s) vh moves with the matrix: as that of a diagonal matrix in the bases of u and vh, which is
/// a polynomial of s and divides by nothing.
Array adjugate_along(const Array& matrix, const Array& step) {
  const Svd parts = svd(matrix);
  const Array v = api::adjoint(parts.vh);
  const Array moved = matmul(matmul(api::adjoint(parts.u), step), v);
  const Array products = convert(products_without_two(parts.s), matrix.dtype());
  const Array own = sum(products * expand_dims(diagonal(moved, 0, -2, -1), -2), Axes{-1}, true);
  const Array inner = eye(matrix.dim(-1), matrix.dtype()) * own - products * moved;
  return unit_determinant(parts.u) * unit_determinant(parts.vh) * matmul(matmul(v, inner), api::adjoint(parts.u));
}

/// Whether elimination's derivatives, which divide by pivots, are those of the matrix; [..., 1, 1].
Array is_regular(const Array& matrix) {
  const Array s = stop_gradient(svdvals(matrix));
  const double least = s.dtype() == float64 ? 0x1p-26 : 0x1p-12;
  return greater(api::smallest(s, {s.ndim() - 1}, true), api::largest(s, {s.ndim() - 1}, true) * least);
}

/// The matrices' adjugate, of singular ones too, with its derivative.
Array adjugate(const Array& matrix) {
  const auto rule = [](const std::tuple<Array>& at, const std::tuple<Array>& along) {
    const auto& [x] = at;
    const auto& [dx] = along;
    // Neither way may meet a matrix that it is not for: what it gives there is left out, but 0 times NaN is NaN.
    const Array regular = expand_dims(is_regular(x), -1);
    const Array steep = convert(diag(arange(x.dim(-1)) + 1), x.dtype());  // singular values apart
    const Array by_pivots = jvp(eliminated_adjugate, std::tuple(where(regular, x, steep)), std::tuple(dx)).second;
    return std::pair(eliminated_adjugate(x), where(regular, by_pivots, adjugate_along(where(regular, steep, x), dx)));
  };
  return custom_jvp(eliminated_adjugate, rule)(matrix);
}

}  // namespace

Array det(const ArrayOperand& a) {
  const Array matrix = api::square_matrices("linalg.det", a);
  // Few rows by cofactors, whose derivatives are those of singular matrices too.
  if (a.dim(-1) == 0) return determinant_by_elimination(matrix);
  if (a.dim(-1) == 1) return element(matrix, 0, 0);
  if (a.dim(-1) == 2) {
    return element(matrix, 0, 0) * element(matrix, 1, 1) - element(matrix, 0, 1) * element(matrix, 1, 0);
  }
  if (a.dim(-1) == 3) {
    return element(matrix, 0, 0) * minor_2(matrix, 1, 2) - element(matrix, 0, 1) * minor_2(matrix, 0, 2) +
           element(matrix, 0, 2) * minor_2(matrix, 0, 1);
  }
  const auto rule = [](const std::tuple<Array>& at, const std::tuple<Array>& along) {
    const auto& [x] = at;
    const auto& [dx] = along;
    return std::pair(determinant_by_elimination(x), sum(api::matrix_transpose(adjugate(x)) * dx, Axes{-2, -1}));
  };
  return custom_jvp(determinant_by_elimination, rule)(matrix);
}

Slogdet slogdet(const ArrayOperand& a) {
  const LuFactor factors = lu_factor(api::square_matrices("linalg.slogdet", a));
  const Array pivots = pivots_of(factors);
  return {exchange_sign(factors) * prod(sign(pivots), Axes{-1}), sum(log(abs(pivots)), Axes{-1})};
}

}  // namespace lockstep::linalg
