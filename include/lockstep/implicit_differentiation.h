#pragma once

#include <functional>
#include <type_traits>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/tree.h>
#include <lockstep/tree_function.h>

// Solutions of equations, in trees of floats or complex numbers, whose derivatives come from the equation (implicit
// differentiation), whatever found them: forwards, backwards and any number of times, with respect to everything that
// the functions of the equation capture. Functions are traced once.
namespace lockstep {

namespace detail {
using SolveWith = std::function<Tree(const TreeFunction& function, const Tree& given)>;

/// `transpose_solve` may be null.
LOCKSTEP_API Tree custom_linear_solve(const TreeFunction& matvec, const Tree& b, const SolveWith& solve,
                                      const SolveWith& transpose_solve, bool symmetric);
/// On trees.
LOCKSTEP_API Tree custom_root(const TreeFunction& f, const Tree& start, const SolveWith& solve,
                              const SolveWith& tangent_solve);

/// A function of trees as one of T.
template <class T>
std::function<T(const T&)> typed(const TreeFunction& function) {
  return [function](const T& x) { return from_tree<T>(function({to_tree(x)})); };
}
/// A user's way to solve.
template <class T, class Solve>
SolveWith solve_with(const Solve& solve) {
  return [&solve](const TreeFunction& function, const Tree& given) {
    return to_tree(solve(typed<T>(function), from_tree<T>(given)));
  };
}
}  // namespace detail

/// What custom_linear_solve knows beside its functions.
struct LinearSolveOptions {
  bool symmetric = false;  ///< matvec is its own transpose, so that `solve` solves with that, too.
};
/// x with matvec(x) = b, a linear function of a tree to one of the same types, found by solve(matvec, b), where matvec
/// comes as std::function. Its derivative solves again, by `solve` forwards and backwards with the transpose of matvec by
/// `transpose_solve`, or by `solve` where `symmetric`; without either, reverse mode throws TraceError. Throws DtypeError
/// for a b that is no float, StateError, ShapeError or DtypeError where a function returns something else than b's types.
/// (jax.lax.custom_linear_solve)
template <class Matvec, class T, class Solve>
T custom_linear_solve(const Matvec& matvec, const T& b, const Solve& solve, LinearSolveOptions options = {}) {
  return from_tree<T>(detail::custom_linear_solve(detail::tree_function<Matvec, T>(matvec), to_tree(b),
                                                  detail::solve_with<T>(solve), {}, options.symmetric));
}
template <class Matvec, class T, class Solve, class TransposeSolve>
requires(!std::is_same_v<TransposeSolve, LinearSolveOptions>) T
    custom_linear_solve(const Matvec& matvec, const T& b, const Solve& solve, const TransposeSolve& transpose_solve) {
  return from_tree<T>(detail::custom_linear_solve(detail::tree_function<Matvec, T>(matvec), to_tree(b),
                                                  detail::solve_with<T>(solve), detail::solve_with<T>(transpose_solve),
                                                  false));
}

/// x with f(x) = 0, f from a tree to one of the same types, found by solve(f, start). Its derivative is that of the
/// equation: tangent_solve(g, y) solves g(x) = y for the linear functions that are f's derivative at the root, and its
/// transpose. The start has no derivative. Throws as custom_linear_solve does. (jax.lax.custom_root)
template <class F, class T, class Solve, class TangentSolve>
T custom_root(const F& f, const T& start, const Solve& solve, const TangentSolve& tangent_solve) {
  return from_tree<T>(detail::custom_root(detail::tree_function<F, T>(f), to_tree(start), detail::solve_with<T>(solve),
                                          detail::solve_with<T>(tangent_solve)));
}

}  // namespace lockstep
