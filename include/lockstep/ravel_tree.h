#pragma once

#include <functional>
#include <utility>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/tree.h>

namespace lockstep {

namespace detail {
/// The leaves as one vector, and what takes such a vector apart.
LOCKSTEP_API std::pair<Array, std::function<Tree(const Array&)>> ravel_tree(const Tree& tree);
}  // namespace detail

/// A tree as one vector, and the way back.
template <class T>
struct RaveledTree {
  Array flat;
  std::function<T(const Array&)> unravel;
};
/// All leaves flattened and joined in order of path, in their promoted dtype; without a leaf an empty float32 vector.
/// `unravel` takes any vector of that many elements and gives the tree, leaves in shapes and dtypes of the tree that was
/// raveled; it may be called inside of transforms. It throws ShapeError for another number of elements, DtypeError for
/// another dtype. Keys throw DtypeError. (jax.flatten_util.ravel_pytree)
template <class T>
RaveledTree<T> ravel_tree(const T& tree) {
  auto [flat, unravel] = detail::ravel_tree(to_tree(tree));
  return {flat, [unravel = std::move(unravel)](const Array& vector) { return from_tree<T>(unravel(vector)); }};
}

}  // namespace lockstep
