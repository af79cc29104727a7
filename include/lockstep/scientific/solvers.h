#pragma once

#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/implicit_differentiation.h>
#include <lockstep/ops.h>
#include <lockstep/tree.h>
#include <lockstep/tree_function.h>

// Solvers of linear systems and of equations of one unknown, on trees of floats or complex numbers. Their derivatives come
// from the equation (implicit_differentiation.h).
namespace lockstep {

// ---- systems of linear equations, by iteration -----------------------------------------------------------------------

/// When an iteration ends: at |b - A x| <= max(tol |b|, atol), or after max_iterations.
struct IterationOptions {
  double tol = 1e-5;
  double atol = 0;
  std::optional<std::int64_t> max_iterations = std::nullopt;  ///< Ten times the number of unknowns unless given.
  std::int64_t restart = 20;                                  ///< Of gmres: vectors that are kept.
};

namespace detail {
enum class Iteration : std::uint8_t { cg, bicgstab, gmres };
/// `start` and `preconditioner` may be absent: None, and null.
LOCKSTEP_API Tree iterate(Iteration kind, const TreeFunction& a, const Tree& b, const Tree& start,
                          const TreeFunction& preconditioner, const IterationOptions& options);

template <class T, class A>
T iterated(Iteration kind, const A& a, const T& b, const IterationOptions& options) {
  if constexpr (std::is_convertible_v<A, Array>) {
    const auto product = [matrix = Array(a)](const T& x) -> T { return matmul(matrix, x); };
    return from_tree<T>(iterate(kind, tree_function<decltype(product), T>(product), to_tree(b), {}, {}, options));
  } else {
    return from_tree<T>(iterate(kind, tree_function<A, T>(a), to_tree(b), {}, {}, options));
  }
}
template <class T, class A, class M>
T iterated(Iteration kind, const A& a, const T& b, const T& start, const M& preconditioner,
           const IterationOptions& options) {
  return from_tree<T>(
      iterate(kind, tree_function<A, T>(a), to_tree(b), to_tree(start), tree_function<M, T>(preconditioner), options));
}
}  // namespace detail

/// x with a x = b, a positive definite: a matrix, of vectors and matrices b, or a linear function of a tree. By conjugate
/// gradients (Hestenes and Stiefel 1952), in a while_loop. Where the iteration ends before the equation holds, x and its
/// derivatives are what was found until then. Throws DtypeError for a b that is no float, ShapeError or StateError where
/// a gives something else than b's types. (jax.scipy.sparse.linalg.cg, here and below)
template <class A, class T>
T cg(const A& a, const T& b, const IterationOptions& options = {}) {
  return detail::iterated<T>(detail::Iteration::cg, a, b, options);
}
/// From `start` on, with a linear function that comes near to the inverse of a; both functions.
template <class A, class T, class M>
T cg(const A& a, const T& b, const T& start, const M& preconditioner, const IterationOptions& options = {}) {
  return detail::iterated<T>(detail::Iteration::cg, a, b, start, preconditioner, options);
}
/// Of any a that can be inverted, by stabilised biconjugate gradients (van der Vorst 1992).
template <class A, class T>
T bicgstab(const A& a, const T& b, const IterationOptions& options = {}) {
  return detail::iterated<T>(detail::Iteration::bicgstab, a, b, options);
}
template <class A, class T, class M>
T bicgstab(const A& a, const T& b, const T& start, const M& preconditioner, const IterationOptions& options = {}) {
  return detail::iterated<T>(detail::Iteration::bicgstab, a, b, start, preconditioner, options);
}
/// By least residuals in Krylov spaces of up to `restart` vectors (Saad and Schultz 1986), each of which counts as one
/// iteration.
template <class A, class T>
T gmres(const A& a, const T& b, const IterationOptions& options = {}) {
  return detail::iterated<T>(detail::Iteration::gmres, a, b, options);
}
template <class A, class T, class M>
T gmres(const A& a, const T& b, const T& start, const M& preconditioner, const IterationOptions& options = {}) {
  return detail::iterated<T>(detail::Iteration::gmres, a, b, start, preconditioner, options);
}

/// How `nnls` iterates.
struct NnlsOptions {
  std::int64_t iterations = 1000;
  std::optional<double> norm_bound =
      std::nullopt;  ///< An upper bound of a^T a's largest eigenvalue; found unless given.
};
/// The x >= 0 with the smallest |a x - b|, a [m, n], b [m] or [m, k], by Polyak's fast projected gradient (2015), so many
/// iterations of it: a fori_loop of a fixed length, differentiable as such. Throws ShapeError for other shapes, DtypeError
/// for complex numbers, ValueError for options out of range. (optax.nnls)
LOCKSTEP_API Array nnls(const ArrayOperand& a, const ArrayOperand& b, const NnlsOptions& options = {});

// ---- roots of functions of one number, element by element ------------------------------------------------------------

/// When the search for a root ends: where a step, or half the interval, is at most tolerance (1 + |x|), or after
/// max_iterations.
struct RootOptions {
  double tolerance = 0;  ///< 0: as near as the dtype comes.
  std::int64_t max_iterations = 100;
};

namespace detail {
/// f of a tree that is one leaf, here and below.
LOCKSTEP_API Array bisect(const TreeFunction& f, const Array& low, const Array& high, const RootOptions& options);
/// Likewise.
LOCKSTEP_API Array newton(const TreeFunction& f, const Array& start, const RootOptions& options);
}  // namespace detail

/// A root of each element of f between low and high, where f has two signs; NaN where it has one. f works element by
/// element. Differentiable in what f captures, by the implicit function theorem.
template <class F>
Array bisect(const F& f, const Array& low, const Array& high, const RootOptions& options = {}) {
  return detail::bisect(detail::tree_function<F, Array>(f), low, high, options);
}
/// A root near the start, by Newton's iteration with f's own derivative; where it does not end, what it has come to.
/// Differentiable likewise.
template <class F>
Array newton(const F& f, const Array& start, const RootOptions& options = {}) {
  return detail::newton(detail::tree_function<F, Array>(f), start, options);
}

// ---- assignment -------------------------------------------------------------------------------------------------------

/// Which column each row takes, int32 [rows], such that no column is taken twice, as many are as can be and the sum of
/// cost[row, column] is least; -1 for a row that has none. A cost that is NaN or infinite is no pair. In float32 at
/// least, integers in float64; time grows with rows columns min(rows, columns). It has no derivative: of a loss, that is
/// of the costs picked, by take_along_axis. Jonker and Volgenant 1987. Throws ShapeError unless cost is a matrix,
/// DtypeError for bool and complex ones. (scipy.optimize.linear_sum_assignment, optax.assignment.hungarian_algorithm)
LOCKSTEP_API Array linear_sum_assignment(const ArrayOperand& cost);

}  // namespace lockstep
