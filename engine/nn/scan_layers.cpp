#include <lockstep/control_flow.h>
#include <lockstep/derivatives.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/scan_layers.h>

#include "engine/nn/scope_frame.h"

namespace lockstep {
namespace detail {

Tree scan_layers(const Scope& scope, std::int64_t n, const LayerBody& body, const Tree& x, std::int64_t unroll) {
  if (n < 1) {
    throw ValueError("[scan_layers] '" + scope.path() + "' has " + std::to_string(n) + " layers; give at least 1");
  }
  const std::shared_ptr<ScopeFrame>& frame = scope.frame_;
  const Stack stack{scope.path(), n};
  // What the layers declare is found first, so that the loop can go along it.
  std::shared_ptr<ScopeFrame> found;
  const auto declare = [&](const std::vector<Tree>& arguments) {
    found = ScopeFrame::for_layer(frame, stack, std::nullopt);
    Tree y = body(scope.in(found), arguments[0]);
    found->close();
    return y;
  };
  eval_shape(declare, {x});
  const auto layer = [&](const Tree& carry, const Tree& slices) {
    const auto one = ScopeFrame::for_layer(frame, stack, slices);
    Tree y = body(scope.in(one), carry);
    one->close();
    return std::pair(std::move(y), one->changes());
  };
  auto [y, changes] = scan(layer, x, frame->slices_of(*found), ScanOptions{.length = n, .unroll = unroll});
  frame->take_changes(changes, stack);
  return y;
}

}  // namespace detail

namespace {

const Tree& subtree_at(const Tree& tree, std::string_view path) { return path.empty() ? tree : tree.at(path); }

Tree with(const Tree& tree, std::string_view path, Tree value) {
  return path.empty() ? value : tree.with(path, std::move(value));
}

bool holds_nothing(const Tree& tree, std::string_view path) {
  return !path.empty() && (!tree.contains(path) || tree.at(path).size() == 0);
}

}  // namespace

Tree stack_layers(const Tree& tree, std::string_view path) {
  if (holds_nothing(tree, path)) return tree;
  const Tree& layers = subtree_at(tree, path);
  const std::string where = "[stack_layers] '" + std::string(path) + "'";
  if (layers.kind() != Tree::Kind::dict) {
    throw StateError(where + " is " + layers.structure() + "; expected a dict of layers \"0\", \"1\", ...");
  }
  const std::size_t count = layers.entries().size();
  std::vector<std::vector<Array>> leaves;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string name = std::to_string(i);
    if (!layers.contains(name)) {
      throw StateError(where + " has " + std::to_string(count) + " entries, but none is \"" + name +
                       "\"; its layers are numbered from 0, without anything beside them");
    }
    check_same_types(layers.at("0"), layers.at(name), where + ": layer " + name + ", stacked with layer 0,");
    leaves.push_back(layers.at(name).leaves());
  }
  std::vector<Array> stacked;
  for (std::size_t leaf = 0; leaf < leaves[0].size(); ++leaf) {
    std::vector<Array> slices;
    for (const auto& of_layer : leaves) slices.push_back(of_layer[leaf]);
    stacked.push_back(stack(slices, 0));
  }
  return with(tree, path, layers.at("0").unflatten(std::move(stacked)));
}

Tree unstack_layers(const Tree& tree, std::string_view path) {
  if (holds_nothing(tree, path)) return tree;
  const Tree& stacked = subtree_at(tree, path);
  const std::vector<Array> leaves = stacked.leaves();
  const std::vector<std::string> paths = stacked.paths();
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (leaves[i].ndim() > 0 && leaves[0].ndim() > 0 && leaves[i].dim(0) == leaves[0].dim(0)) continue;
    throw StateError("[unstack_layers] '" + std::string(path) + "': leaf \"" + paths[i] + "\" is " +
                     to_string(leaves[i].type()) + ", \"" + paths[0] + "\" is " + to_string(leaves[0].type()) +
                     "; expected one first extent, the number of layers");
  }
  Tree layers = Tree::dict({});
  const std::int64_t count = leaves.empty() ? 0 : leaves[0].dim(0);
  for (std::int64_t i = 0; i < count; ++i) {
    std::vector<Array> slices;
    for (const Array& leaf : leaves) slices.push_back(squeeze(slice_in_dim(leaf, i, i + 1, 0), {0}));
    layers = layers.with(std::to_string(i), stacked.unflatten(std::move(slices)));
  }
  return with(tree, path, std::move(layers));
}

}  // namespace lockstep
