#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/layout_map.h>
#include <lockstep/out_of_line.h>
#include <lockstep/parallel.h>
#include <lockstep/tree.h>
#include <lockstep/tree_function.h>

namespace lockstep {

/// x, laid out so from here on where the function is partitioned; its gradient too. Everywhere else x. What it takes is a
/// collective that the program asks for. Throws ShapeError for a dimension that x has not, MeshError, where the function
/// is partitioned, for an axis that the mesh has not.
LOCKSTEP_API Array reshard(const ArrayOperand& x, const Layout& layout);

/// A collective that partitioning a function put in.
struct InsertedCollective {
  std::string op;
  AxisSet axes;
  std::int64_t bytes = 0;  ///< Of one shard's operand.
  std::int64_t times = 1;  ///< In one call: iterations of the scans it stands in.
  std::string made_by;     ///< The op that made the value, or the argument.
  std::string read_by;     ///< The op that reads it, or the result.
  std::string layer;       ///< The path of the reader's layer, or empty.
  std::string place;  ///< Where the program calls the reader, or else what made the value: "model.cpp:42", or empty.
  bool backward = false;  ///< Whether the reader belongs to a derivative.
  std::string from, to;   ///< Layouts of the whole value: "[data, -]", "[-, -] summed over model".
  std::string reason;
};

/// What a partitioned function moves, known before anything is allocated.
struct LOCKSTEP_API LayoutPlan {
  std::vector<InsertedCollective> collectives;
  std::vector<std::string> unused_rules;  ///< Patterns that match no leaf.
  std::int64_t bytes = 0;                 ///< Of all collectives' operands on one shard, in one call.
  std::string text;                       ///< A line for each.
  /// How many there are of an op.
  std::int64_t count(std::string_view op) const;
};

extern template class LOCKSTEP_API detail::OutOfLine<std::vector<LayoutMap>>;

/// Where a function on whole arrays runs and how its arguments and results are cut.
struct PartitionOptions {
  Mesh mesh = {};
  detail::OutOfLine<std::vector<LayoutMap>> in =
      {};  ///< One for each argument; paths are those of its leaves ("" of an array).
  /// One for each result, or for the single tree there is; empty: as they come.
  detail::OutOfLine<std::vector<LayoutMap>> out = {};
  /// Collectives that nobody asked for are MeshErrors that propose a reshard.
  bool is_explicit = false;
  /// K, a power of two: sums are K partial sums, joined by the tree of sums over replicas, however many of them a shard
  /// has; their bits do not depend on the layouts then. 0: K is 1, and bits depend on the logical mesh.
  std::int64_t contraction_blocks = 0;
  bool keep_cut = false;  ///< Whether results that their layouts cut stay cut, as `is_cut` says.
};

namespace detail {

/// What `partitioned` calls.
LOCKSTEP_API Tree partition_call(const TreeFunction& function, const PartitionOptions& options,
                                 std::vector<Tree> arguments);
/// What it would move; nothing is run. Also patterns of `maps` that match none of the arguments' leaves.
LOCKSTEP_API LayoutPlan partition_plan(const TreeFunction& function, const PartitionOptions& options,
                                       const std::vector<Tree>& arguments);

}  // namespace detail

/// The function, written for one device, partitioned over the mesh: every value gets a layout, from those of the arguments
/// on, and each shard computes its blocks (the rules are in docs/parallel.md). The value is that of the function. Throws
/// MeshError and ShapeError naming the leaf, dimension and axis where a layout does not fit.
template <class F>
auto partitioned(F function, PartitionOptions options) {
  auto call = [function = std::move(function), options = std::move(options)]<class... Args>(Args&&... args) {
    using Call = detail::CallOf<F, std::remove_cvref_t<Args>...>;
    return from_tree<typename Call::Result>(
        detail::partition_call(Call::function(function), options, Call::forwarded_trees(std::forward<Args>(args)...)));
  };
  return detail::transformed<F>(std::move(call));
}

/// What `partitioned(function, options)` moves for arguments of these types.
template <class F, class... Args>
LayoutPlan layout_plan(const F& function, const PartitionOptions& options, const Args&... args) {
  using Call = detail::CallOf<F, Args...>;
  return detail::partition_plan(Call::function(function), options, Call::trees(args...));
}

}  // namespace lockstep
