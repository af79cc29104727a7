#include "engine/trainer/changes.h"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/processes.h>

namespace lockstep {
namespace trainer {
namespace {

constexpr const char* asked_by_callbacks = "what callbacks ask for";

struct Hyperparameter {
  std::string name;
  std::string path;
  Array value;
};

/// Whether that is the state of optim::inject_hyperparams.
bool holds_hyperparameters(const Tree& tree) {
  return tree.kind() == Tree::Kind::dict && tree.entries().size() == 3 && tree.contains("count") &&
         tree.contains("inner") && tree.contains("values") && tree.at("values").kind() == Tree::Kind::dict;
}

void find(const Tree& tree, std::vector<Hyperparameter>& found) {
  // Paths as the tree itself writes them, so that keys of any letters are found again.
  const std::vector<std::string> paths = tree.paths();
  const std::vector<Array> leaves = tree.leaves();
  const std::string values = "values/";
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const std::string& path = paths[i];
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos || slash + 1 < values.size()) continue;
    const std::size_t at = slash + 1 - values.size();
    if (path.compare(at, values.size(), values) != 0 || (at > 0 && path[at - 1] != '/')) continue;
    const Tree& holder = at == 0 ? tree : tree.at(path.substr(0, at - 1));
    if (holds_hyperparameters(holder)) found.push_back({path.substr(slash + 1), path, leaves[i]});
  }
}

std::vector<Hyperparameter> hyperparameters_of(const Tree& state) {
  std::vector<Hyperparameter> found;
  find(state, found);
  for (Hyperparameter& one : found) {
    std::size_t same = 0;
    for (const Hyperparameter& other : found) same += other.path.ends_with("/" + one.name) ? 1 : 0;
    if (same > 1) one.name = one.path;
  }
  return found;
}

Tree with_hyperparameter(const Tree& state, const std::string& name, double value) {
  std::vector<std::string> names;
  for (const Hyperparameter& one : hyperparameters_of(state)) {
    if (one.name == name) return state.with(one.path, Tree(full({}, value, one.value.dtype())));
    names.push_back("'" + one.name + "'");
  }
  throw StateError(
      fmt::format("[fit] a callback asked for the hyper-parameter '{}', and the state has {}; make the optimizer with "
                  "optim::inject_hyperparams, which keeps it in the state",
                  name, names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
}

Tree with_values(const Tree& state, const std::string& path, const Tree& values) {
  if (!path.empty() && !state.contains(path)) {
    throw StateError(fmt::format("[fit] a callback asked to replace '{}', which the state has not", path));
  }
  check_same_types(path.empty() ? state : state.at(path), values,
                   fmt::format("[fit] what a callback put in place of '{}'", path));
  return path.empty() ? values : state.with(path, values);
}

}  // namespace

Tree changed(Tree state, const Requests& requests) {
  for (const auto& [path, values] : requests.replaced()) state = with_values(state, path, values);
  for (const auto& [name, value] : requests.hyperparameters()) state = with_hyperparameter(state, name, value);
  return state;
}

void check_requests(const Requests& requests, std::int64_t step) {
  if (world()->size() == 1) return;
  ProcessEntries entries;
  if (requests.stop_reason()) {
    entries.emplace_back("the reason to stop", *requests.stop_reason());
    entries.emplace_back("whether the end is saved", requests.saves_at_end() ? "yes" : "no");
  }
  if (requests.is_save()) entries.emplace_back("a checkpoint", "asked for");
  for (const auto& [name, value] : requests.hyperparameters()) {
    entries.emplace_back("the hyper-parameter '" + name + "'", fmt::format("{}", value));
  }
  for (const auto& [path, values] : requests.replaced()) {
    entries.emplace_back("the structure of what replaces '" + path + "'", values.structure());
  }
  if (entries.empty()) return;
  const std::string what = fmt::format("{} behind step {}", asked_by_callbacks, step);
  world()->expect_same(what, entries);
  for (const auto& [path, values] : requests.replaced()) {
    check_replicas(fmt::format("{}, what replaces '{}'", what, path), values);
  }
}

}  // namespace trainer

std::map<std::string, double> hyperparameters(const Tree& state) {
  std::map<std::string, double> values;
  for (const auto& one : trainer::hyperparameters_of(state)) values.emplace(one.name, one.value.item<double>());
  return values;
}

}  // namespace lockstep
