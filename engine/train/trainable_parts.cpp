#include "engine/train/trainable_parts.h"

#include <algorithm>
#include <map>

#include <lockstep/error.h>

namespace lockstep::train {
namespace {

bool is_below(std::string_view path, const std::string& part) {
  if (part.empty() || path == part) return true;
  return path.starts_with(part) && path[part.size()] == '/';
}

/// The path as seen from the part.
std::string_view within(std::string_view path, const std::string& part) {
  if (part.empty()) return path;
  path.remove_prefix(std::min(part.size() + 1, path.size()));
  return path;
}

/// Tree::at, which takes no empty path.
Tree at(const Tree& tree, const std::string& path) { return path.empty() ? tree : tree.at(path); }
Tree with(const Tree& tree, const std::string& path, Tree value) {
  return path.empty() ? value : tree.with(path, std::move(value));
}

/// Where an optimizer's slots stand among all slots.
std::string place_of_slots(const std::vector<Objective>& objectives, const Objective& objective,
                           const std::string& part) {
  if (objectives.size() == 1 && objective.name.empty()) return part;
  return part.empty() ? objective.name : objective.name + "/" + part;
}

void check_parts(const Objective& objective) {
  const std::string which = objective.name.empty() ? "the objective" : "objective '" + objective.name + "'";
  if (objective.optimizers.empty()) {
    throw ValueError("[data_parallel] " + which +
                     " has no optimizer; give it one for each part of the trainable tree that it trains, \"\" for all");
  }
  for (const auto& [part, optimizer] : objective.optimizers) {
    for (const auto& [other, same] : objective.optimizers) {
      if (part == other || !is_below(other, part)) continue;
      throw ValueError("[data_parallel] " + which + " has optimizers for '" + part + "' and for '" + other +
                       "' below it; give each leaf to one of them");
    }
  }
}

Tree only_kept(const Tree& tree, const std::vector<bool>& kept, std::size_t& leaf) {
  switch (tree.kind()) {
    case Tree::Kind::leaf:
      return kept[leaf++] ? tree : Tree();
    case Tree::Kind::list: {
      std::vector<Tree> items;
      for (const Tree& item : tree.items()) items.push_back(only_kept(item, kept, leaf));
      return Tree::list(std::move(items));
    }
    case Tree::Kind::dict: {
      std::map<std::string, Tree> entries;
      for (const auto& [key, item] : tree.entries()) entries.emplace(key, only_kept(item, kept, leaf));
      return Tree::dict(std::move(entries));
    }
    default:
      return tree;
  }
}

}  // namespace

void check(const std::vector<Objective>& objectives) {
  if (objectives.empty()) throw ValueError("[data_parallel] there is no objective; give at least one loss");
  for (std::size_t i = 0; i < objectives.size(); ++i) {
    const std::string& name = objectives[i].name;
    check_parts(objectives[i]);
    if (name.find('/') != std::string::npos || (name.empty() && objectives.size() > 1)) {
      throw ValueError("[data_parallel] objective " + std::to_string(i) + " is called '" + name +
                       "'; give each of several a name without '/'");
    }
    for (std::size_t k = 0; k < i; ++k) {
      if (objectives[k].name != name) continue;
      throw ValueError("[data_parallel] two objectives are called '" + name + "'; give each a name of its own");
    }
  }
}

std::vector<bool> trained_leaves(const Objective& objective, const Tree& trainable) {
  for (const auto& [part, optimizer] : objective.optimizers) {
    if (part.empty() || trainable.contains(part)) continue;
    throw StateError("[data_parallel] there is an optimizer for '" + part + "', but the trainable tree, " +
                     trainable.structure() + ", has no such part; name one of its sub-trees");
  }
  std::vector<bool> trained;
  for (const std::string& path : trainable.paths()) {
    bool is_trained = false;
    for (const auto& [part, optimizer] : objective.optimizers) {
      if (is_below(path, part)) is_trained = !optimizer.frozen || !optimizer.frozen(within(path, part));
    }
    trained.push_back(is_trained);
  }
  return trained;
}

void check_trained_dtypes(const std::vector<Objective>& objectives, const Tree& trainable) {
  const std::vector<std::string> paths = trainable.paths();
  const std::vector<Array> leaves = trainable.leaves();
  for (const Objective& objective : objectives) {
    const std::vector<bool> trained = trained_leaves(objective, trainable);
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      if (!trained[i] || is_inexact(leaves[i].dtype())) continue;
      throw DtypeError(
          "[data_parallel] trainable leaf '" + paths[i] + "' is " + to_string(leaves[i].type()) +
          ": only floats and complex numbers have gradients; keep it in the non-trainable tree, freeze it, "
          "or convert it to a float dtype");
    }
  }
}

Tree only(const Tree& tree, const std::vector<bool>& kept) {
  bool all = true;
  for (const bool keep : kept) all = all && keep;
  if (all) return tree;
  std::size_t leaf = 0;
  return only_kept(tree, kept, leaf);
}

Tree with_part(const Tree& whole, const Tree& part, const std::vector<bool>& kept) {
  std::vector<Array> leaves = whole.leaves();
  const std::vector<Array> own = part.leaves();
  std::size_t next = 0;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (kept[i]) leaves[i] = own[next++];
  }
  return whole.unflatten(std::move(leaves));
}

Tree initial_slots(const std::vector<Objective>& objectives, const Tree& trainable) {
  Tree slots;
  for (const Objective& objective : objectives) {
    const Tree part = only(trainable, trained_leaves(objective, trainable));
    for (const auto& [path, optimizer] : objective.optimizers) {
      slots = with(slots, place_of_slots(objectives, objective, path), optimizer.init(at(part, path)));
    }
  }
  return slots;
}

bool needs_function(const Objective& objective) {
  return std::any_of(objective.optimizers.begin(), objective.optimizers.end(),
                     [](const auto& entry) { return entry.second.needs_function; });
}

std::pair<Tree, Tree> updated(const std::vector<Objective>& objectives, const Objective& objective,
                              const StepGradients& given, const Tree& slots, const Tree& part) {
  Tree next_part = part;
  Tree next_slots = slots;
  for (const auto& [path, optimizer] : objective.optimizers) {
    const std::string place = place_of_slots(objectives, objective, path);
    const Tree params = at(part, path);
    optim::KnownLoss loss(given.loss);
    if (optimizer.needs_function) {
      loss.function = [&, path = path](const Tree& own) { return given.function(with(part, path, own)); };
    }
    auto [updates, kept] = optim::update(optimizer, at(given.gradients, path), at(slots, place), params, loss);
    next_part = with(next_part, path, optim::apply_updates(params, updates));
    next_slots = with(next_slots, place, std::move(kept));
  }
  check_same_types(slots, next_slots, "optimizer state after the step");
  return {std::move(next_part), std::move(next_slots)};
}

}  // namespace lockstep::train
