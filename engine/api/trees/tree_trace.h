#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/parallel.h>
#include <lockstep/tree.h>

#include "engine/api/numpy/weak_types.h"
#include "engine/ir/function.h"
#include "engine/trace/touched_cells.h"

namespace lockstep::api {

/// A function's arguments, flattened.
class FlatArguments {
 public:
  explicit FlatArguments(const std::vector<Tree>& trees);

  const std::vector<Array>& leaves() const { return leaves_; }
  std::size_t size() const { return leaves_.size(); }
  /// Which argument a leaf belongs to.
  std::size_t argument(std::size_t leaf) const { return argument_[leaf]; }
  /// "argument 1/w".
  std::string path(std::size_t leaf) const;
  /// "w".
  std::string path_in_argument(std::size_t leaf) const;
  /// Types as the open trace sees them.
  std::vector<ArrayType> types() const;
  /// Which leaves are weak, or numbers.
  const std::vector<WeakType>& weak_types() const { return weak_; }
  /// The arguments with other leaves, as formulas see them.
  std::vector<Tree> rebuild(std::span<const Array> leaves) const;

 private:
  std::vector<Tree> trees_;
  std::vector<Array> leaves_;
  std::vector<WeakType> weak_;
  std::vector<std::size_t> argument_;
  mutable std::vector<std::string> paths_;  ///< Made when first asked for.
};

/// A traced function of trees: inputs are the arguments' leaves, then the captured arrays; outputs the result's leaves, then
/// the values of the cells that it replaced.
struct TracedTree {
  ir::FunctionPtr function;
  std::vector<Array> captured;
  Tree result;                       ///< The structure; its leaves hold nothing.
  std::vector<WeakType> weak;        ///< Of the result's leaves.
  std::vector<TouchedCell> cells;    ///< Of outer functions.
  std::optional<std::size_t> index;  ///< See trace.h.

  std::size_t results() const { return function->outputs().size() - written(); }
  std::size_t written() const;
  /// Of the result's leaves.
  std::vector<ArrayType> result_types() const;
  /// The result's tree of other leaves.
  Tree tree_of(std::span<const Array> leaves) const;
  /// The result's tree of the first of these values; the others, or as many of them as there are cells replaced, go to
  /// the cells.
  Tree received(std::span<const Array> values) const;
};

TracedTree trace_tree(const TreeFunction& function, const FlatArguments& arguments, std::span<const ArrayType> types,
                      const ir::AxisSizes& axes = {}, std::optional<Mapping> mapping = std::nullopt);
/// The function without its cells' values.
ir::FunctionPtr without_cells(const TracedTree& traced);

/// The tree with leaves that hold nothing.
Tree skeleton(const Tree& tree);

/// Per type, whether it is a float or complex one.
std::vector<bool> inexact_of(const std::vector<ArrayType>& types);

/// Checks that `given` has the structure and types of `expected`, and returns the leaves that `active` selects; `weak` says
/// which leaves of `expected` are. Throws StateError, DtypeError or ShapeError: "{op}: {what} ...".
std::vector<Array> matching_leaves(std::string_view op, std::string_view what, const Tree& expected,
                                   const std::vector<ArrayType>& types, const Tree& given,
                                   const std::vector<bool>& active, std::span<const WeakType> weak);
/// The same of tangents and cotangents: one that is the same on all replicas, of what varies, is made to vary.
std::vector<Array> matching_directions(std::string_view op, std::string_view what, const Tree& expected,
                                       const std::vector<ArrayType>& types, const Tree& given,
                                       const std::vector<bool>& active, std::span<const WeakType> weak);

std::vector<Array> joined(std::vector<Array> a, std::span<const Array> b);

/// "w" below argument 1: "argument 1/w".
std::string argument_path(std::size_t argument, const std::string& path);

}  // namespace lockstep::api
