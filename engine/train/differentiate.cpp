#include <utility>
#include <vector>

#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/sequential_map.h>
#include <lockstep/transforms.h>

#include "engine/train/declarations.h"
#include "engine/train/replica_step.h"
#include "engine/train/trainable_parts.h"

namespace lockstep::train {
namespace {

void check_invariant(const Tree& state) {
  const std::vector<std::string> paths = state.paths();
  const std::vector<Array> leaves = state.leaves();
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (leaves[i].type().varying.empty()) continue;
    throw AggregationError("[data_parallel] the new state's leaf '" + paths[i] + "' is " + to_string(leaves[i].type()) +
                           ": replicas may differ along " + to_string(leaves[i].type().varying) +
                           "; declare how they combine (mean, sum, only_first_replica) where the variable is declared, "
                           "or reduce the value with psum or pmean");
  }
}

void check_terms(std::size_t before, std::size_t now) {
  if (before == now) return;
  throw StateError("[data_parallel] the loss had " + std::to_string(before) + " terms when it was traced first and " +
                   std::to_string(now) + " when it was traced again; return the same terms on every call");
}

/// Loss, each term's weight of this part of the rows, new state and metrics, as one tree. `totals`: the terms' weights over
/// the whole batch where they are known, or null.
Tree outcome_of_loss(const WithAux& result, const std::vector<Array>* totals) {
  if (totals != nullptr) check_terms(totals->size(), result.loss.terms.size());
  std::map<std::string, Tree> metrics;
  for (const auto& [name, metric] : result.metrics) {
    metrics.emplace(name, Tree(ratio_over_batch(metric, "metric '" + name + "'")));
  }
  std::vector<Tree> weights;
  for (const Weighted& term : result.loss.terms) weights.emplace_back(stop_gradient(term.weight));
  check_invariant(result.state);
  return Tree::list({Tree(totals == nullptr ? loss_over_batch(result.loss) : loss_over_batch(result.loss, *totals)),
                     Tree::list(std::move(weights)), result.state, Tree::dict(std::move(metrics))});
}

/// Of a complex z = x + iy, grad's df/dx - i df/dy is the conjugate of the direction of steepest ascent, which is what an
/// optimizer's updates are made of.
Tree ascending(const Tree& gradients) {
  return map([](const Array& g) { return is_complex(g.dtype()) ? conj(g) : g; }, gradients);
}

/// An outcome whose first leaf is the loss times the scale, and whose last the loss.
Tree scaled(const Tree& outcome, const Array& scale) {
  if (!scale.has_value()) return outcome;
  std::vector<Tree> items(outcome.items().begin(), outcome.items().end());
  const Array loss = items[0].array();
  items[0] = Tree(loss * convert(scale, loss.dtype()));
  items.emplace_back(loss);
  return Tree::list(std::move(items));
}

/// The outcome that it was made of.
Tree unscaled(const Tree& outcome, const Array& scale) {
  if (!scale.has_value()) return outcome;
  std::vector<Tree> items(outcome.items().begin(), outcome.items().end());
  items[0] = std::move(items.back());
  items.pop_back();
  return Tree::list(std::move(items));
}

/// Gradients of the loss from those of the loss times the scale, in at least float32: a narrower dtype cannot hold what the
/// scale was for.
Tree divided(const Tree& gradients, const Array& scale) {
  if (!scale.has_value()) return gradients;
  const auto of_loss = [factor = 1.0 / scale](const Array& g) {
    const Array wide = convert(g, promote(g.dtype(), float32));
    return wide * convert(factor, wide.dtype());
  };
  return map(of_loss, gradients);
}

/// Value and gradients with respect to the trained leaves.
detail::ValueAndGradients with_gradients(const LossPoint& point, const std::vector<bool>& trained, const Tree& rows,
                                         const std::vector<Array>* totals) {
  const Tree entered = entering(point.trainable, point.declared);
  const auto function = [&](const std::vector<Tree>& arguments) {
    const WithAux result = point.objective.loss(with_part(entered, arguments[0], trained), point.non_trainable, rows);
    return scaled(outcome_of_loss(result, totals), point.loss_scale);
  };
  const Tree part = only(entered, trained);
  if (part.size() == 0) return {unscaled(function({part}), point.loss_scale), {part}};
  detail::ValueAndGradients result = detail::value_and_grad(function, {part}, {0});
  result.value = unscaled(result.value, point.loss_scale);
  result.gradients[0] = ascending(result.gradients[0]);
  return result;
}

/// Each term's weight in this shard, over all its microbatches: what scales the gradients of the first is known before it.
std::vector<Array> shard_weights(const LossPoint& point) {
  const auto weights = [&](const Tree& rows) {
    const WithAux result = point.objective.loss(point.trainable, point.non_trainable, rows);
    std::vector<Array> sums;
    for (const Weighted& term : result.loss.terms) {
      const Array weight = convert(stop_gradient(term.weight), promote(term.weight.dtype(), float32));
      sums.push_back(psum(pvary(weight, axes_of_batch()), {microbatch_axis}));
    }
    return to_tree(sums);
  };
  const SequentialMapOptions options{microbatch_axis, point.parts.options.microbatches, false, true};
  return from_tree<std::vector<Array>>(sequential_map(weights, point.shard, options));
}

/// What `outcome_of_loss` gives, of the whole shard; gradients of declared leaves are this replica's own.
std::pair<Tree, Tree> value_and_gradients(const LossPoint& point, const std::vector<bool>& trained) {
  if (point.parts.options.microbatches == 1) {
    auto [value, gradients] = with_gradients(point, trained, point.shard, nullptr);
    return {std::move(value), std::move(gradients[0])};
  }
  const std::vector<Array> own = shard_weights(point);
  std::vector<Array> totals;
  for (const Array& weight : own) totals.push_back(total_over_batch(weight));
  const auto differentiated = [&](const Tree& rows) {
    auto [value, gradients] = with_gradients(point, trained, rows, &totals);
    return Tree::list({value.items()[0], value.items()[2], value.items()[3], std::move(gradients[0])});
  };
  const Tree result =
      sequential_map(differentiated, point.shard, {microbatch_axis, point.parts.options.microbatches, true, true});
  return {Tree::list({result.items()[0], to_tree(own), result.items()[1], result.items()[2]}), result.items()[3]};
}

/// Gradients of what is declared, combined as it is.
Tree combined(const LossPoint& point, const Tree& gradients, const Tree& weights) {
  Declarations trained;
  for (const std::string& path : gradients.paths()) {
    if (const auto found = point.declared.find(path); found != point.declared.end()) trained.insert(*found);
  }
  Loss local;
  for (const Tree& weight : weights.items()) local.terms.push_back({.sum = {}, .weight = weight.array()});
  return combine_gradients(gradients, trained, local);
}

void refuse_declared(const LossPoint& point) {
  const std::vector<bool> trained = trained_leaves(point.objective, point.trainable);
  const std::vector<std::string> paths = point.trainable.paths();
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (!trained[i] || !point.declared.contains(paths[i])) continue;
    throw AggregationError(
        "[data_parallel] an optimizer asks for the loss at other parameters (line searches, sophia), "
        "but trainable leaf '" +
        paths[i] +
        "' declares how replicas' gradients combine, which is not the loss's derivative; train it by "
        "another optimizer, or leave the declaration out");
  }
}

}  // namespace

Differentiated differentiate(const LossPoint& point) {
  const std::vector<bool> trained = trained_leaves(point.objective, point.trainable);
  const auto [value, gradients] = value_and_gradients(point, trained);
  const Tree& next = value.items()[2];
  check_same_types(point.non_trainable, next, "non-trainable state after the step");
  return {.loss = value.items()[0].array(),
          .gradients = divided(combined(point, gradients, value.items()[1]), point.loss_scale),
          .state = next,
          .metrics = from_tree<std::map<std::string, Array>>(value.items()[3])};
}

optim::ValueFunction loss_function(const LossPoint& point) {
  refuse_declared(point);
  if (point.parts.options.microbatches == 1) {
    return [point](const Tree& trainable) {
      return loss_over_batch(point.objective.loss(trainable, point.non_trainable, point.shard).loss);
    };
  }
  std::vector<Array> totals;
  for (const Array& weight : shard_weights(point)) totals.push_back(total_over_batch(weight));
  return [point, totals = std::move(totals)](const Tree& trainable) {
    const auto value = [&](const Tree& rows) {
      return Tree(loss_over_batch(point.objective.loss(trainable, point.non_trainable, rows).loss, totals));
    };
    return sequential_map(value, point.shard, {microbatch_axis, point.parts.options.microbatches, true, true}).array();
  };
}

std::vector<Array> replica_losses(const detail::StepParts& parts, const Tree& trainable, const Tree& non_trainable,
                                  const Tree& shard) {
  const Declarations declared = find_declarations(parts, trainable, non_trainable, shard);
  std::vector<Array> losses;
  for (const Objective& objective : parts.objectives) {
    losses.push_back(loss_over_batch(objective.loss(entering(trainable, declared), non_trainable, shard).loss));
  }
  return losses;
}

}  // namespace lockstep::train
