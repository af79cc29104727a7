#pragma once

#include <cstdint>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/tree.h>

// Euclidean projections of a tree of real leaves, taken as one vector x, onto sets: the nearest element of the set, in the
// tree's dtypes (integers as float32). Differentiable, compiled and sharded like all functions; behind apply_updates they
// are a projected gradient method. `scale` is a number or a scalar, above 0. (Optax' projections)
namespace lockstep {

namespace detail {
/// What `project` projects onto.
enum class Ball : std::uint8_t { l1, l2, linf, simplex, l1_sphere, l2_sphere };
/// On trees, here and below; onto sets around 0.
LOCKSTEP_API Tree project(Ball set, const Tree& tree, const Operand& scale);
/// Between two trees like it.
LOCKSTEP_API Tree project_box(const Tree& tree, const Tree& lower, const Tree& upper);
/// What `project_plane` projects onto.
enum class Plane : std::uint8_t { vector, hyperplane, halfspace };
/// Of that normal vector, a tree like it.
LOCKSTEP_API Tree project_plane(Plane set, const Tree& tree, const Tree& normal, const Operand& offset);
}  // namespace detail

/// Onto { x >= 0, sum(x) = scale }. By sorting: Held, Wolfe and Crowder 1974.
template <class T>
T projection_simplex(const T& tree, const Operand& scale = 1) {
  return from_tree<T>(detail::project(detail::Ball::simplex, to_tree(tree), scale));
}
/// Onto { sum(|x|) <= scale }. Duchi et al. 2008.
template <class T>
T projection_l1_ball(const T& tree, const Operand& scale = 1) {
  return from_tree<T>(detail::project(detail::Ball::l1, to_tree(tree), scale));
}
/// Onto { sum(|x|) = scale }; elements that are 0 stay.
template <class T>
T projection_l1_sphere(const T& tree, const Operand& scale = 1) {
  return from_tree<T>(detail::project(detail::Ball::l1_sphere, to_tree(tree), scale));
}
/// Onto { |x| <= scale }.
template <class T>
T projection_l2_ball(const T& tree, const Operand& scale = 1) {
  return from_tree<T>(detail::project(detail::Ball::l2, to_tree(tree), scale));
}
/// Onto { |x| = scale }; NaN at 0.
template <class T>
T projection_l2_sphere(const T& tree, const Operand& scale = 1) {
  return from_tree<T>(detail::project(detail::Ball::l2_sphere, to_tree(tree), scale));
}
/// Onto { max(|x|) <= scale }.
template <class T>
T projection_linf_ball(const T& tree, const Operand& scale = 1) {
  return from_tree<T>(detail::project(detail::Ball::linf, to_tree(tree), scale));
}
/// Onto { lower <= x <= upper }, trees like the first.
template <class T>
T projection_box(const T& tree, const T& lower, const T& upper) {
  return from_tree<T>(detail::project_box(to_tree(tree), to_tree(lower), to_tree(upper)));
}
/// Onto the multiples of `a`, a tree like the first.
template <class T>
T projection_vector(const T& tree, const T& a) {
  return from_tree<T>(detail::project_plane(detail::Plane::vector, to_tree(tree), to_tree(a), 0));
}
/// Onto { <a, x> = b }.
template <class T>
T projection_hyperplane(const T& tree, const T& a, const Operand& b) {
  return from_tree<T>(detail::project_plane(detail::Plane::hyperplane, to_tree(tree), to_tree(a), b));
}
/// Onto { <a, x> <= b }.
template <class T>
T projection_halfspace(const T& tree, const T& a, const Operand& b) {
  return from_tree<T>(detail::project_plane(detail::Plane::halfspace, to_tree(tree), to_tree(a), b));
}

}  // namespace lockstep
