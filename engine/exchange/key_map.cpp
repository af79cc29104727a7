#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <lockstep/error.h>
#include <lockstep/exchange/key_map.h>
#include <lockstep/ops.h>

#include "engine/core/text/text_pattern.h"
#include "engine/exchange/nearest_name.h"
#include "engine/exchange/weight_forms.h"

namespace lockstep::exchange {
namespace {

constexpr std::size_t longest_list = 12;

/// Paths and leaves of both trees, and what was put in their place.
class Variables {
 public:
  Variables(const Tree& trainable, const Tree& non_trainable) {
    add(trainable);
    first_ = paths_.size();
    add(non_trainable);
  }

  const std::vector<std::string>& paths() const { return paths_; }
  const Array* find(const std::string& path) const {
    const auto at = places_.find(path);
    return at == places_.end() ? nullptr : &leaves_[at->second];
  }
  /// Of the layers' random state nothing is in a file.
  static bool is_kept(std::string_view path) { return path == "rng" || path.ends_with("/rng"); }

  std::pair<Tree, Tree> with(const std::map<std::string, Array>& values, const Tree& trainable,
                             const Tree& non_trainable) const {
    std::vector<Array> leaves = leaves_;
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      const auto found = values.find(paths_[i]);
      if (found != values.end()) leaves[i] = found->second;
    }
    const auto middle = leaves.begin() + static_cast<std::ptrdiff_t>(first_);
    return {trainable.unflatten({leaves.begin(), middle}), non_trainable.unflatten({middle, leaves.end()})};
  }

 private:
  void add(const Tree& tree) {
    const std::vector<std::string> paths = tree.paths();
    const std::vector<Array> leaves = tree.leaves();
    paths_.insert(paths_.end(), paths.begin(), paths.end());
    leaves_.insert(leaves_.end(), leaves.begin(), leaves.end());
    for (std::size_t i = paths_.size() - paths.size(); i < paths_.size(); ++i) places_.emplace(paths_[i], i);
  }

  std::vector<std::string> paths_;
  std::vector<Array> leaves_;
  std::unordered_map<std::string, std::size_t> places_;  ///< The first of each path.
  std::size_t first_ = 0;
};

/// What a rule says of one tensor.
struct Target {
  const KeyRule* rule = nullptr;
  std::string path;  ///< Empty: left out.
};

class Rules {
 public:
  Rules(const KeyMap& map, std::string who) : map_(map), who_(std::move(who)) {
    for (const KeyRule& rule : map) {
      std::string mistake;
      auto compiled = lockstep::detail::TextPattern::compile(rule.name, mistake);
      if (!compiled) {
        throw ValueError("[" + who_ + "] '" + rule.name + "' is no regular expression: " + mistake +
                         "; expected a pattern that matches all of a tensor's name, as \"encoder\\.(.*)\"");
      }
      expressions_.push_back(*std::move(compiled));
    }
  }

  /// Where the tensor goes; nothing where no rule fits.
  std::vector<Target> targets(const std::string& name, const Variables& variables) const {
    std::vector<Target> found;
    for (std::size_t i = 0; i < map_.size(); ++i) {
      if (!found.empty() && map_[i].of_tensor.count == 1 && !map_[i].also) continue;
      const std::optional<std::string> path = expressions_[i].replace(name, map_[i].path);
      if (path) found.push_back({&map_[i], choose(*path, variables)});
    }
    return found;
  }

 private:
  /// The first of the alternatives that the model has, else the first.
  static std::string choose(const std::string& paths, const Variables& variables) {
    std::string first;
    for (std::size_t at = 0; at <= paths.size();) {
      const std::size_t end = std::min(paths.find('|', at), paths.size());
      const std::string path = paths.substr(at, end - at);
      if (variables.find(path) != nullptr) return path;
      if (at == 0) first = path;
      at = end + 1;
    }
    return first;
  }

  const KeyMap& map_;
  std::string who_;
  std::vector<lockstep::detail::TextPattern> expressions_;
};

/// What does not fit, all of it, in one error.
class Complaints {
 public:
  explicit Complaints(std::string who) : who_(std::move(who)) {}

  void missing(const std::string& line) { missing_.push_back(line); }
  void left_over(const std::string& line) { left_over_.push_back(line); }
  void unlike(const std::string& line) { unlike_.push_back(line); }
  /// What is nearest to a name, in lines that will be shown.
  std::string nearest_to_missing(const std::string& name, const std::vector<std::string>& names) const {
    return missing_.size() < longest_list ? nearest(name, names) : "";
  }
  std::string nearest_to_left_over(const std::string& name, const std::vector<std::string>& names) const {
    return left_over_.size() < longest_list ? nearest(name, names) : "";
  }
  void throw_if_any() const {
    if (missing_.empty() && left_over_.empty() && unlike_.empty()) return;
    throw StateError("[" + who_ + "] the tensors and the model do not fit." +
                     list("variables for which there is no tensor", missing_) +
                     list("tensors for which there is no variable", left_over_) +
                     list("of another shape or dtype", unlike_) +
                     "\nGive rules (KeyMap) for these names, with an empty path for tensors to leave out");
  }

 private:
  static std::string list(const std::string& title, const std::vector<std::string>& lines) {
    if (lines.empty()) return "";
    std::string text = "\n" + title + ":";
    for (std::size_t i = 0; i < std::min(lines.size(), longest_list); ++i) text += "\n  " + lines[i];
    if (lines.size() > longest_list) text += "\n  and " + std::to_string(lines.size() - longest_list) + " more";
    return text;
  }

  std::string who_;
  std::vector<std::string> missing_, left_over_, unlike_;
};

/// But for dimensions of extent 1.
bool are_alike(const Shape& a, const Shape& b) {
  std::vector<std::int64_t> extents = a.to_vector(), others = b.to_vector();
  std::erase(extents, 1);
  std::erase(others, 1);
  return extents == others;
}

bool converts(DType from, DType to) { return from == to || (is_float(from) && is_float(to)); }

/// Fills variables, whole or in parts along their last dimension.
class VariableFiller {
 public:
  VariableFiller(const Variables& variables, Complaints& complaints) : variables_(variables), complaints_(complaints) {}

  void put(const std::string& name, const Array& tensor, const Target& target) {
    const Array& variable = *variables_.find(target.path);
    const std::string of =
        "'" + name + "' " + to_string(tensor.type()) + " for '" + target.path + "' " + to_string(variable.type());
    if (!converts(tensor.dtype(), variable.dtype())) return complaints_.unlike(of);
    const EqualPart& part = target.rule->of_variable;
    Array value;
    try {
      const WeightForm form = plain_form(target.rule->form, target.path, variable.ndim());
      value = to_variable(take_part(tensor, target.rule->of_tensor, 0), form).astype(variable.dtype());
      const Shape wanted = take_part(variable, part, variable.ndim() - 1).shape();
      if (!are_alike(value.shape(), wanted)) return complaints_.unlike(of);
      value = reshape(value, wanted.to_vector());
    } catch (const ShapeError& error) {
      return complaints_.unlike(of + ": " + error.what());
    }
    std::map<std::int64_t, Array>& parts = parts_[target.path];
    if (!parts.emplace(part.index, value).second) {
      return complaints_.left_over("'" + name + "': '" + target.path + "' has a tensor already");
    }
    counts_[target.path] = part.count;
  }

  /// The whole variables; those without all of their parts are complained of.
  std::map<std::string, Array> values() const {
    std::map<std::string, Array> values;
    for (const auto& [path, parts] : parts_) {
      if (static_cast<std::int64_t>(parts.size()) != counts_.at(path)) {
        complaints_.missing("'" + path + "': " + std::to_string(parts.size()) + " of " +
                            std::to_string(counts_.at(path)) + " parts");
      } else if (parts.size() == 1) {
        values.emplace(path, parts.begin()->second);
      } else {
        std::vector<Array> in_order;
        for (const auto& [index, value] : parts) in_order.push_back(value);
        values.emplace(path, concatenate(in_order, -1));
      }
    }
    return values;
  }
  bool has(const std::string& path) const { return parts_.contains(path); }

 private:
  const Variables& variables_;
  Complaints& complaints_;
  std::map<std::string, std::map<std::int64_t, Array>> parts_;
  std::map<std::string, std::int64_t> counts_;
};

std::vector<std::string> tensor_names(const std::map<std::string, Array>& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

/// Calls `use(name, tensor, target)` for every tensor that goes somewhere.
template <class Use>
void for_each_target(const std::map<std::string, Array>& tensors, const Rules& rules, const Variables& variables,
                     Complaints& complaints, const Use& use) {
  for (const auto& [name, tensor] : tensors) {
    const std::vector<Target> targets = rules.targets(name, variables);
    if (targets.empty()) {
      complaints.left_over("'" + name + "' " + to_string(tensor.type()) + ": no rule fits" +
                           complaints.nearest_to_left_over(name, variables.paths()));
    }
    for (const Target& target : targets) {
      if (target.path.empty()) continue;
      if (variables.find(target.path) == nullptr) {
        complaints.left_over("'" + name + "' " + to_string(tensor.type()) + ": the model has no '" + target.path + "'" +
                             complaints.nearest_to_left_over(target.path, variables.paths()));
      } else {
        use(name, tensor, target);
      }
    }
  }
}

/// The tensor's new value, `parts` of it taken from the variables that the rules name.
Array tensor_of(const std::string& name, const Array& like, const std::vector<Target>& targets,
                const Variables& variables, Complaints& complaints) {
  std::map<std::int64_t, Array> parts;
  const std::int64_t count = targets[0].rule->of_tensor.count;
  for (const Target& target : targets) {
    const Array& variable = *variables.find(target.path);
    if (target.rule->also) continue;
    try {
      const Array own = take_part(variable, target.rule->of_variable, variable.ndim() - 1);
      parts[target.rule->of_tensor.index] =
          to_tensor(own, plain_form(target.rule->form, target.path, variable.ndim())).astype(like.dtype());
    } catch (const ShapeError& error) {
      complaints.unlike("'" + name + "' of '" + target.path + "': " + error.what());
      return like;
    }
  }
  std::vector<Array> in_order;
  for (const auto& [index, part] : parts) in_order.push_back(part);
  const Array value = in_order.size() == 1 ? in_order[0] : concatenate(in_order, 0);
  if (!are_alike(value.shape(), like.shape()) || static_cast<std::int64_t>(in_order.size()) != count) {
    complaints.unlike("'" + name + "' " + to_string(like.type()) + " would be " + to_string(value.type()));
    return like;
  }
  return reshape(value, like.shape().to_vector());
}

}  // namespace

KeyMap torch_module(std::string_view name, std::string_view path) {
  const std::string module = name.empty() ? "" : std::string(name) + "\\.";
  const std::string layer = path.empty() ? "" : std::string(path) + "/";
  return {{module + "weight", layer + "kernel|" + layer + "gamma|" + layer + "embeddings", WeightForm::torch_modules},
          {module + "bias", layer + "bias|" + layer + "beta"},
          {module + "running_mean", layer + "moving_mean"},
          {module + "running_var", layer + "moving_variance"},
          {module + "num_batches_tracked", ""}};
}

KeyMap joined(const std::vector<KeyMap>& maps) {
  KeyMap all;
  for (const KeyMap& map : maps) all.insert(all.end(), map.begin(), map.end());
  return all;
}

std::pair<Tree, Tree> import_weights(const Tree& trainable, const Tree& non_trainable,
                                     const std::map<std::string, Array>& tensors, const KeyMap& map) {
  const Variables variables(trainable, non_trainable);
  const Rules rules(map, "import_weights");
  Complaints complaints("import_weights");
  VariableFiller filler(variables, complaints);
  for_each_target(
      tensors, rules, variables, complaints,
      [&](const std::string& name, const Array& tensor, const Target& target) { filler.put(name, tensor, target); });
  const std::map<std::string, Array> values = filler.values();
  const std::vector<std::string> names = tensor_names(tensors);
  for (const std::string& path : variables.paths()) {
    if (filler.has(path) || Variables::is_kept(path)) continue;
    complaints.missing("'" + path + "' " + to_string(variables.find(path)->type()) +
                       complaints.nearest_to_missing(path, names));
  }
  complaints.throw_if_any();
  return variables.with(values, trainable, non_trainable);
}

std::map<std::string, Array> export_weights(const Tree& trainable, const Tree& non_trainable,
                                            const std::map<std::string, Array>& like, const KeyMap& map) {
  const Variables variables(trainable, non_trainable);
  const Rules rules(map, "export_weights");
  Complaints complaints("export_weights");
  std::map<std::string, std::vector<Target>> targets;
  for_each_target(like, rules, variables, complaints, [&](const std::string& name, const Array&, const Target& target) {
    targets[name].push_back(target);
  });
  std::map<std::string, Array> tensors = like;
  for (const auto& [name, found] : targets) {
    tensors[name] = tensor_of(name, like.at(name), found, variables, complaints);
  }
  complaints.throw_if_any();
  return tensors;
}

}  // namespace lockstep::exchange
