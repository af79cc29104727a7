#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>

#include <lockstep/export.h>
#include <lockstep/tree.h>
#include <lockstep/tree_function.h>

namespace lockstep {

/// How a map goes over its parts.
struct SequentialMapOptions {
  std::string axis;        ///< Its name inside; bound by no map around it.
  std::int64_t parts = 1;  ///< How many replicas it has.
  /// false: of debug::print and the like inside there is nothing, as for a map of which only values are asked.
  bool effects = true;
  bool stacked = false;  ///< The rows come as [parts, rows of a part, ...].
};

/// The axis of a training step's microbatches, which run one after the other.
LOCKSTEP_API extern const std::string microbatch_axis;

namespace detail {
/// `function` of each part of the rows.
LOCKSTEP_API Tree sequential_map(const std::function<Tree(const Tree&)>& function, const Tree& rows,
                                 const SequentialMapOptions& options);
}  // namespace detail

/// A map whose replicas run one after the other: `f` of each part of the rows, cut along dimension 0 of every leaf into
/// `parts` equal ones, so that only one part's values live at a time and a program's size does not depend on their
/// number. A leaf of rank 0 is the same for all parts. Inside, `axis` is an axis as of pmap: the rows vary along it, what `f` captures does not; axis_index is the
/// part's number; psum, pmax, pmin and all_gather_invariant along it reduce over the parts; what is the same for all is
/// computed once. Results must not vary along it: reduce them. In a pmap the axis comes behind the map's own, so that
/// row i of part m of shard s is row (s * parts + m) * rows_of_a_part + i of the whole. What a reduction gives cannot
/// be used by the parts that it is made of. Throws ShapeError where `parts` does not divide the rows or leaves differ
/// in number of rows, MeshError naming op and layer where a part needs a reduction over all of them, for other
/// collectives along the axis, and where a result varies along it.
template <class F, class Rows>
auto sequential_map(const F& f, const Rows& rows, const SequentialMapOptions& options) {
  using Result = detail::ResultOf<F, Rows>;
  return from_tree<Result>(
      detail::sequential_map(detail::of_one(detail::tree_function<F, Rows>(f)), to_tree(rows), options));
}

}  // namespace lockstep
