#pragma once

#include <lockstep/array.h>
#include <lockstep/convolution.h>
#include <lockstep/export.h>
#include <lockstep/ops.h>
#include <lockstep/tree.h>
#include <lockstep/tree_function.h>
#include <lockstep/weak_types.h>

// Reductions with a function of one's own.
namespace lockstep {

namespace detail {
/// Throws ValueError for no leaf, StateError, ShapeError or DtypeError where leaves, initial values and results differ.
LOCKSTEP_API Tree reduce(const TreeFunction& combine, const Tree& elems, const Tree& initial, const OptionalAxes& axes);
/// Likewise.
LOCKSTEP_API Tree reduce_window(const TreeFunction& combine, const Tree& elems, const Tree& initial,
                                const ReduceWindowOptions& options);
}  // namespace detail

/// All elements along the axes (all axes unless given) combined by `fn`, which is associative and commutative, works on
/// many elements at once and leaves every element as it is beside `initial`, a scalar in each leaf. The order is a tree:
/// fn of the halves, element by element, and of their halves, in about log2(n) rounds. Leaves have one shape; the axes
/// are dropped. No elements give `initial`. Differentiable as fn is. Throws ValueError for no leaf, ShapeError where
/// leaves differ in shape, DtypeError where an initial value does, StateError where fn returns something else than it
/// takes.
/// (jax.lax.reduce)
template <class F, class Elems, class Initial>
Elems reduce(const F& fn, const Elems& elems, const Initial& initial, const OptionalAxes& axes = std::nullopt) {
  const TreeFunction combine = detail::tree_function<F, Elems, Elems>(fn);
  return from_tree<Elems>(detail::reduce(combine, to_tree(elems), to_tree(detail::traced_form(initial)), axes));
}

/// The same over windows: padding and holes are `initial`. (jax.lax.reduce_window)
template <class F, class Elems, class Initial>
Elems reduce_window(const F& fn, const Elems& elems, const Initial& initial, const ReduceWindowOptions& options) {
  const TreeFunction combine = detail::tree_function<F, Elems, Elems>(fn);
  return from_tree<Elems>(
      detail::reduce_window(combine, to_tree(elems), to_tree(detail::traced_form(initial)), options));
}

}  // namespace lockstep
