#include "engine/api/trees/tree_trace.h"

#include <algorithm>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/parallel.h>

#include "engine/api/trees/tree_paths.h"
#include "engine/trace/array_state.h"
#include "engine/trace/trace.h"

namespace lockstep::api {

FlatArguments::FlatArguments(const std::vector<Tree>& trees) : trees_(trees) {
  for (std::size_t i = 0; i < trees.size(); ++i) {
    append_leaves(trees[i], leaves_);
    argument_.resize(leaves_.size(), i);
  }
  leaves_ = passed(leaves_, weak_);
}

std::string argument_path(std::size_t argument, const std::string& path) {
  return fmt::format("argument {}{}{}", argument, path.empty() ? "" : "/", path);
}

std::string FlatArguments::path(std::size_t leaf) const {
  if (paths_.empty()) {
    for (std::size_t i = 0; i < trees_.size(); ++i) {
      for (const std::string& path : trees_[i].paths()) paths_.push_back(argument_path(i, path));
    }
  }
  return paths_[leaf];
}

std::string FlatArguments::path_in_argument(std::size_t leaf) const {
  return path(leaf).substr(std::min(path(leaf).size(), argument_path(argument(leaf), "").size() + 1));
}

std::vector<ArrayType> FlatArguments::types() const {
  std::vector<ArrayType> types;
  types.reserve(leaves_.size());
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    if (!leaves_[i].has_value()) {
      throw ValueError(fmt::format("{}: {}", path(i), why_empty(leaves_[i])));
    }
    types.push_back(tracing::type_in_trace(leaves_[i]));
  }
  return types;
}

std::vector<Tree> FlatArguments::rebuild(std::span<const Array> leaves) const {
  std::vector<Tree> trees;
  trees.reserve(trees_.size());
  std::size_t next = 0;
  for (const Tree& tree : trees_) {
    const std::size_t count = tree.size();
    const auto own = leaves.subspan(next, count);
    std::vector<Array> seen(own.begin(), own.end());
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t leaf = next + i;
      seen[i] = visible(seen[i], weak_[leaf]);
      if (weak_[leaf] == WeakType::weak) seen[i] = noted(seen[i], leaves_[leaf].state()->uses);
    }
    trees.push_back(tree.unflatten(std::move(seen)));
    next += count;
  }
  return trees;
}

std::size_t TracedTree::written() const { return tracing::count_written(cells); }

std::vector<ArrayType> TracedTree::result_types() const {
  std::vector<ArrayType> types = function->output_types();
  types.resize(results());
  return types;
}

Tree TracedTree::received(std::span<const Array> values) const {
  tracing::replace_all(cells, values.subspan(results()));
  return tree_of(values.first(results()));
}

Tree TracedTree::tree_of(std::span<const Array> leaves) const { return unflattened(result, leaves, weak); }

TracedTree trace_tree(const TreeFunction& function, const FlatArguments& arguments, std::span<const ArrayType> types,
                      const ir::AxisSizes& axes, std::optional<Mapping> mapping) {
  Tree result;
  std::vector<WeakType> weak;
  const auto body = [&](std::span<const Array> inputs) {
    result = function(arguments.rebuild(inputs));
    return passed(result.leaves(), weak);
  };
  tracing::Traced traced = tracing::trace(body, types, axes, std::move(mapping));
  return {std::move(traced.function), std::move(traced.captured),
          skeleton(result),           std::move(weak),
          std::move(traced.cells),    traced.index};
}

ir::FunctionPtr without_cells(const TracedTree& traced) {
  if (traced.written() == 0) return traced.function;
  const ir::Function& f = *traced.function;
  const auto end = f.outputs().begin() + static_cast<std::ptrdiff_t>(traced.results());
  return std::make_shared<const ir::Function>(f.axes(), f.types(), f.inputs(), f.equations(),
                                              std::vector<ir::Var>(f.outputs().begin(), end));
}

Tree skeleton(const Tree& tree) {
  return map([](const Array&) { return Array(); }, tree);
}

std::vector<bool> inexact_of(const std::vector<ArrayType>& types) {
  std::vector<bool> flags;
  for (const ArrayType& type : types) flags.push_back(is_inexact(type.dtype));
  return flags;
}

std::vector<Array> matching_leaves(std::string_view op, std::string_view what, const Tree& expected,
                                   const std::vector<ArrayType>& types, const Tree& given,
                                   const std::vector<bool>& active, std::span<const WeakType> weak) {
  if (const auto difference = first_difference(expected, given)) {
    throw StateError(
        fmt::format("{}: {} must have the structure of what it belongs to; at \"{}\" {} was expected, {} given", op,
                    what, difference->path, difference->a, difference->b));
  }
  std::vector<Array> leaves = given.leaves();
  std::vector<Array> selected;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (!active[i]) continue;
    leaves[i] = fitted(leaves[i], types[i].dtype, weak[i]);
    if (leaves[i].dtype() != types[i].dtype) {
      throw DtypeError(fmt::format("{}: {} \"{}\" is {}, expected {}", op, what, given.paths()[i],
                                   to_string(leaves[i].type()), to_string(types[i])));
    }
    if (!(leaves[i].shape() == types[i].shape)) {
      throw ShapeError(fmt::format("{}: {} \"{}\" is {}, expected {}", op, what, given.paths()[i],
                                   to_string(leaves[i].type()), to_string(types[i])));
    }
    selected.push_back(leaves[i]);
  }
  return selected;
}

std::vector<Array> matching_directions(std::string_view op, std::string_view what, const Tree& expected,
                                       const std::vector<ArrayType>& types, const Tree& given,
                                       const std::vector<bool>& active, std::span<const WeakType> weak) {
  std::vector<Array> directions = matching_leaves(op, what, expected, types, given, active, weak);
  std::size_t next = 0;
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (!active[i]) continue;
    Array& direction = directions[next++];
    if (!types[i].varying.empty()) direction = pvary(direction, types[i].varying);
  }
  return directions;
}

std::vector<Array> joined(std::vector<Array> a, std::span<const Array> b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace lockstep::api
