#include "engine/train/declarations.h"

#include <utility>

#include <lockstep/error.h>
#include <lockstep/function.h>
#include <lockstep/model.h>

namespace lockstep::train {
namespace {

bool ends_with(const std::string& path, const std::string& end) {
  if (path == end) return true;
  return path.size() > end.size() && path.ends_with(end) && path[path.size() - end.size() - 1] == '/';
}

void declare(Declarations& declared, const std::string& path, Aggregation aggregation) {
  const auto [found, is_new] = declared.emplace(path, aggregation);
  if (is_new || found->second == aggregation) return;
  throw AggregationError("[data_parallel] trainable variable '" + path +
                         "' is declared aggregation=" + std::string(name(found->second)) +
                         " and aggregation=" + std::string(name(aggregation)) + "; declare one of the two");
}

/// The trainable leaf that a model's variable is: the very array, or else, where the loss has converted it, say, the only
/// one with that path below whatever the loss has put above.
std::string leaf_of(const detail::DeclaredAggregation& variable, const Tree& trainable) {
  const std::vector<std::string> paths = trainable.paths();
  const std::vector<Array> leaves = trainable.leaves();
  std::vector<std::string> named;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (leaves[i].state() == variable.value.state()) return paths[i];
    if (ends_with(paths[i], variable.path) && leaves[i].shape() == variable.value.shape()) named.push_back(paths[i]);
  }
  if (named.size() == 1) return named[0];
  throw AggregationError(
      "[data_parallel] a model that the loss calls declares aggregation=" + std::string(name(variable.aggregation)) +
      " for '" + variable.path + "', and " + std::to_string(named.size()) +
      " leaves of the trainable tree may be it; pass the model the leaves as they are, or say by path "
      "in DataParallelOptions::aggregations which one it is");
}

void add_given(Declarations& declared, const std::map<std::string, Aggregation>& given, const Tree& trainable) {
  const std::vector<std::string> paths = trainable.paths();
  const std::vector<Array> leaves = trainable.leaves();
  for (const auto& [path, aggregation] : given) {
    const optim::Mask is_meant = optim::below(path);
    bool found = false;
    for (std::size_t i = 0; i < paths.size(); ++i) {
      if (!is_meant(paths[i])) continue;
      found = true;
      check_aggregation(paths[i], leaves[i].dtype(), aggregation);
      if (aggregation != Aggregation::none) declare(declared, paths[i], aggregation);
    }
    if (found) continue;
    throw AggregationError("[data_parallel] aggregations names '" + path + "', but the trainable tree, " +
                           trainable.structure() + ", has no such leaf or part; correct the path");
  }
}

}  // namespace

Declarations find_declarations(const detail::StepParts& parts, const Tree& trainable, const Tree& non_trainable,
                               const Tree& shard) {
  Declarations declared;
  add_given(declared, parts.options.aggregations, trainable);
  for (const Objective& objective : parts.objectives) {
    const auto listen = [&](const std::vector<Tree>& arguments) {
      const detail::DeclarationLog log;
      objective.loss(arguments[0], arguments[1], arguments[2]);
      for (const detail::DeclaredAggregation& variable : log.found()) {
        if (parts.options.aggregations.contains(variable.path)) continue;
        declare(declared, leaf_of(variable, arguments[0]), variable.aggregation);
      }
      return Tree();
    };
    trace(listen, {trainable, non_trainable, shard});
  }
  return declared;
}

Tree entering(const Tree& trainable, const Declarations& declared) {
  if (declared.empty()) return trainable;
  return map_with_path([&](const std::string& path,
                           const Array& leaf) { return declared.contains(path) ? pvary(leaf, {batch_axis}) : leaf; },
                       trainable);
}

}  // namespace lockstep::train
