#pragma once

#include <cstdint>
#include <optional>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/tree.h>
#include <lockstep/tree_function.h>

namespace lockstep {

/// When minimize ends.
struct MinimizeOptions {
  double tolerance = 1e-5;                                    ///< Largest magnitude of the gradient that is none.
  std::optional<std::int64_t> max_iterations = std::nullopt;  ///< 200 times the number of unknowns unless given.
};

/// What minimize gives.
template <class T>
struct Minimum {
  T x;
  Array value;       ///< At x.
  T gradient;        ///< At x.
  Array inverse;     ///< Estimate of the inverse of the second derivatives, of x raveled: [n, n].
  Array converged;   ///< bool: whether the gradient is as small as asked for.
  Array iterations;  ///< int32
};

namespace detail {
/// On trees.
LOCKSTEP_API Minimum<Tree> minimize(const TreeFunction& f, const Tree& start, const MinimizeOptions& options);
}  // namespace detail

/// A local minimum of f, from a tree of floats to a scalar, near the start: by the method of Broyden, Fletcher, Goldfarb
/// and Shanno with a line search that meets Wolfe's conditions by bisection (Nocedal and Wright, Numerical Optimization,
/// 2006, 6.1; Lewis and Overton 2013). It ends too where no step lowers f any further. A while_loop: differentiable
/// forwards alone; custom_root of f's gradient makes the place differentiable backwards. Throws ShapeError where f gives
/// no scalar, DtypeError where the start is no float, ValueError for options below 0. (jax.scipy.optimize.minimize)
template <class F, class T>
Minimum<T> minimize(const F& f, const T& start, const MinimizeOptions& options = {}) {
  const Minimum<Tree> found = detail::minimize(detail::tree_function<F, T>(f), to_tree(start), options);
  return {from_tree<T>(found.x), found.value,     from_tree<T>(found.gradient),
          found.inverse,         found.converged, found.iterations};
}

}  // namespace lockstep
