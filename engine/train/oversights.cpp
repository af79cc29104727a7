#include "engine/train/oversights.h"

#include <algorithm>
#include <utility>

#include <lockstep/elementwise.h>
#include <lockstep/function.h>
#include <lockstep/ops.h>
#include <lockstep/processes.h>
#include <lockstep/transforms.h>

#include "engine/train/batch_rows.h"
#include "engine/train/declarations.h"
#include "engine/train/loss_over_mesh.h"
#include "engine/train/replica_step.h"
#include "engine/train/trainable_parts.h"

namespace lockstep::train {
namespace {

/// Calls `body(trainable, non_trainable, shard)` as the one replica of a mesh; in several processes as one replica of each.
template <class Body>
Tree on_one_shard(const Body& body, const Tree& trainable, const Tree& non_trainable, const Tree& rows) {
  const Mesh mesh = data_mesh(world()->size(), devices("cpu:0"), rows_of(rows));
  const auto mapped = [&](const std::vector<Tree>& shard) { return body(shard[0], shard[1], shard[2]); };
  return detail::pmap_call(mapped,
                           {.mesh = mesh, .in = {replicated, replicated, sharded(batch_axis)}, .out = {replicated}},
                           {trainable, non_trainable, rows}, 1);
}

std::string of_objective(const Objective& objective) {
  return objective.name.empty() ? "" : " of objective '" + objective.name + "'";
}

/// A weight of the losses: a term's, or a metric's.
struct Counted {
  std::string name;
  bool is_metric = false;
  double before = 0, after = 0;
};

/// The weights of all terms and metrics of that batch, and what they are called.
std::vector<double> weights_of(const detail::StepParts& parts, const TrainState& state, const Tree& batch,
                               std::vector<Counted>& names) {
  names.clear();
  const auto body = [&](const Tree& trainable, const Tree& non_trainable, const Tree& shard) {
    const Declarations declared = find_declarations(parts, trainable, non_trainable, shard);
    std::vector<Array> weights;
    names.clear();
    for (const Objective& objective : parts.objectives) {
      const WithAux result = objective.loss(entering(trainable, declared), non_trainable, shard);
      for (std::size_t i = 0; i < result.loss.terms.size(); ++i) {
        names.push_back({"term " + std::to_string(i) + " of the loss" + of_objective(objective)});
        weights.push_back(sums_over_batch(result.loss.terms[i], "loss").weight);
      }
      for (const auto& [name, metric] : result.metrics) {
        names.push_back({"metric '" + name + "'" + of_objective(objective), true});
        weights.push_back(sums_over_batch(metric, "metric").weight);
      }
    }
    return to_tree(weights);
  };
  const auto function = [&](const std::vector<Tree>& arguments) {
    return on_one_shard(body, arguments[0], arguments[1], filled(arguments[2], parts.options.weight));
  };
  std::vector<double> found;
  for (const Array& weight :
       detail::JitCache().call(function, {state.trainable, state.non_trainable, batch}).leaves()) {
    found.push_back(convert(weight, float64).item<double>());
  }
  return found;
}

std::string listed_paths(const std::vector<std::string>& paths) {
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(paths.size(), 4); ++i) {
    text += (i == 0 ? "'" : ", '") + paths[i] + "'";
  }
  return paths.size() > 4 ? text + ", ..." : text;
}

}  // namespace

std::vector<std::string> ignored_weights(const detail::StepParts& parts, const TrainState& state, const Tree& rows) {
  const std::string& path = parts.options.weight.path();
  if (path.empty() || !rows.contains(path) || !rows.at(path).is_leaf()) return {};
  const Array given = rows.at(path).array();
  std::vector<double> masked = convert(given, float64).to_vector<double>();
  const auto first = std::find_if(masked.begin(), masked.end(), [](double w) { return w != 0; });
  if (first == masked.end()) return {};
  *first = 0;
  std::vector<Counted> names;
  const std::vector<double> before = weights_of(parts, state, rows, names);
  const std::vector<double> after =
      weights_of(parts, state, rows.with(path, Tree(convert(array(masked), given.dtype()))), names);
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < names.size(); ++i) {
    // A metric may count anything; one that counts as many as there are rows counts rows.
    if (before[i] != after[i] || (names[i].is_metric && before[i] != static_cast<double>(given.dim(0)))) continue;
    texts.push_back("weights: " + names[i].name + " counts " + std::to_string(before[i]) +
                    " also when a row's weight, '" + path +
                    "', becomes 0, so rows that pad a batch count like real ones; give it the batch's weights, as in "
                    "softmax_cross_entropy(logits, b.y, b.weight)");
  }
  return texts;
}

std::vector<std::string> ignored_state(const detail::StepParts& parts, const TrainState& state, const Tree& rows) {
  std::vector<std::string> texts;
  const auto find = [&](const Objective& objective, const Tree& trainable, const Tree& non_trainable,
                        const Tree& shard) {
    const detail::DeclarationLog log;
    const Tree returned = objective.loss(trainable, non_trainable, shard).state;
    const std::vector<std::string> paths = non_trainable.paths();
    const std::vector<Array> before = non_trainable.leaves(), after = returned.leaves();
    if (before.size() != after.size()) return;
    for (const detail::AssignedState& assigned : log.assigned()) {
      for (std::size_t i = 0; i < before.size(); ++i) {
        if (before[i].state() != assigned.before.state() || after[i].state() != before[i].state()) continue;
        std::string text = "state: the loss" + of_objective(objective) + " returns '" + paths[i] +
                           "' as it was given, although a training call has a new value for '" + assigned.path +
                           "'; return the state that stateless_call returns: auto [y, next] = ..., WithAux{loss, "
                           "next, metrics}";
        if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(std::move(text));
      }
    }
  };
  const auto body = [&](const Tree& trainable, const Tree& non_trainable, const Tree& shard) {
    const Declarations declared = find_declarations(parts, trainable, non_trainable, shard);
    for (const Objective& objective : parts.objectives) {
      find(objective, entering(trainable, declared), non_trainable, shard);
    }
    return Tree();
  };
  const auto function = [&](const std::vector<Tree>& arguments) {
    return on_one_shard(body, arguments[0], arguments[1], arguments[2]);
  };
  trace(function, {state.trainable, state.non_trainable, rows});
  return texts;
}

std::vector<std::string> padded_state(const detail::StepParts& parts, const TrainState& state, const Tree& rows) {
  if (!has_weights(rows, parts.options.weight) || rows_of(rows) < 2 || state.non_trainable.size() == 0) return {};
  const std::string& path = parts.options.weight.path();
  // Rows that hold something else than the first real one, with weight 0, and the same rows with what it holds.
  const Tree masked =
      with_last_rows_padding(filled(rows, parts.options.weight), parts.options.weight, rows_of(rows) / 2);
  const Tree alike = filled(masked, parts.options.weight);
  const auto body = [&](const Tree& trainable, const Tree& non_trainable, const Tree& shard) {
    const Declarations declared = find_declarations(parts, trainable, non_trainable, shard);
    Tree next = non_trainable;
    for (const Objective& objective : parts.objectives) {
      next = objective.loss(entering(trainable, declared), next, shard).state;
    }
    return next;
  };
  const auto function = [&](const std::vector<Tree>& arguments) {
    return on_one_shard(body, arguments[0], arguments[1], arguments[2]);
  };
  detail::JitCache compiled;
  const auto next = [&](const Tree& batch) {
    return compiled.call(function, {state.trainable, state.non_trainable, batch});
  };
  const Tree one = next(masked), other = next(alike);
  const std::vector<std::string> paths = one.paths();
  const std::vector<Array> a = one.leaves(), b = other.leaves();
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!is_float(a[i].dtype()) || allclose(a[i], b[i], 1e-4, 1e-30, true).item<bool>()) continue;
    texts.push_back("padding: the new value of '" + paths[i] + "' depends on rows of weight 0, '" + path +
                    "', which pad a batch; take means with scope.mean_over_rows(x), or weigh by scope.rows()");
  }
  return texts;
}

std::vector<std::string> idle_masks(const std::vector<Objective>& objectives, const Tree& trainable) {
  std::vector<std::string> texts;
  for (const Objective& objective : objectives) {
    for (const auto& [part, optimizer] : objective.optimizers) {
      const Tree seen = part.empty() ? trainable : trainable.at(part);
      const std::vector<std::string> paths = seen.paths();
      for (const optim::Selection& selection : optimizer.selections) {
        if (selection.optional || std::any_of(paths.begin(), paths.end(), selection.mask)) continue;
        texts.push_back("optimizer" + (part.empty() ? std::string() : " of '" + part + "'") + of_objective(objective) +
                        ": " + selection.text + " takes none of the leaves " + listed_paths(paths) +
                        "; paths are those of the part that the optimizer has: correct the mask, or write "
                        "optim::optional(mask) where it may select nothing");
      }
    }
  }
  return texts;
}

}  // namespace lockstep::train
