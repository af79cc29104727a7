#pragma once

#include <cstdint>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/tree.h>
#include <lockstep/tree_function.h>

namespace lockstep {

/// How finely odeint steps.
struct OdeOptions {
  double rtol = 1.4e-8;  ///< Of a step's error, beside that of an element's own size,
  double atol = 1.4e-8;  ///< and of any size; in float32 neither is met below its digits.
  /// Steps, taken or refused, from one time to the next; where they do not reach it, what follows is NaN. They are a scan
  /// of that length, which does nothing once the time is reached, but under vmap or where reverse mode keeps it.
  std::int64_t max_steps = 256;
};

namespace detail {
/// On trees: f takes the state and the time.
LOCKSTEP_API Tree odeint(const TreeFunction& f, const Tree& start, const Array& times, const OdeOptions& options);
}  // namespace detail

/// y at each of `times` (ascending, the first one where it is `start`), stacked along a new first dimension of each leaf,
/// of the solution of dy/dt = f(y, t), f from a tree of floats and a scalar to one of the same types. By the method of
/// Dormand and Prince of order 5 (1980) with steps of adapted size (Hairer, Norsett and Wanner, Solving Ordinary
/// Differential Equations I, II.4). Derivatives are those of the steps that were taken, through the scan (jax.
/// experimental.ode solves an adjoint equation instead, reverse mode alone): forwards, backwards and any number of times,
/// in start, times and whatever f captures; sizes of steps count as constants. Throws ShapeError where times are no
/// vector of one element or more, DtypeError for leaves that are no floats, StateError where f
/// returns something else than the start's types, ValueError for options below 0.
template <class F, class Y>
Y odeint(const F& f, const Y& start, const Array& times, const OdeOptions& options = {}) {
  return from_tree<Y>(detail::odeint(detail::tree_function<F, Y, Array>(f), to_tree(start), times, options));
}

}  // namespace lockstep
