#include "engine/train/replica_step.h"

#include <utility>

#include <lockstep/elementwise.h>
#include <lockstep/gradient_transformations.h>
#include <lockstep/ops.h>
#include <lockstep/sequential_map.h>

#include "engine/train/batch_rows.h"
#include "engine/train/declarations.h"
#include "engine/train/loss_scale.h"
#include "engine/train/trainable_parts.h"

namespace lockstep::train {
namespace {

std::string in_objective(const Objective& objective, const std::string& name) {
  return objective.name.empty() ? name : objective.name + "." + name;
}

std::map<std::string, Weighted> evaluated(const WithAux& result) {
  std::map<std::string, Weighted> sums;
  for (const auto& [name, metric] : result.metrics) {
    sums.emplace(name, sums_over_batch(metric, "metric '" + name + "'"));
  }
  const Array value = loss_over_batch(result.loss);
  const Array weight = result.loss.terms.empty()
                           ? ones_like(value)
                           : convert(sums_over_batch(result.loss.terms[0], "loss").weight, value.dtype());
  sums["loss"] = {value * weight, weight};
  return sums;
}

/// The norm by the sum of plain squares, which is computed where the gradients are: those sums that optim::global_norm
/// has for numbers beyond the range of squares would cost a small model's step a tenth of its time.
Array plain_norm(const Tree& gradients) {
  Array total = full({}, 0.0, float32);
  for (const Array& leaf : gradients.leaves()) {
    const Array x = convert(leaf, promote(leaf.dtype(), float32));
    const Array squares = is_complex(x.dtype()) ? sum(square(real(x)) + square(imag(x))) : sum(x * x);
    total = total + squares;
  }
  return sqrt(total);
}

/// The loss as a function of what is trained, as it is kept.
optim::ValueFunction of_trained_part(optim::ValueFunction loss, const Tree& kept, const std::vector<bool>& trained,
                                     const VariableLayouts* layouts) {
  return [=, loss = std::move(loss)](const Tree& part) {
    const Tree whole = with_part(kept, part, trained);
    return loss(layouts == nullptr ? whole : layouts->read(whole));
  };
}

}  // namespace

std::pair<TrainState, Logs> replica_step(const detail::StepParts& parts, const TrainState& state, const Tree& shard,
                                         const VariableLayouts* layouts) {
  const Declarations declared =
      find_declarations(parts, state.trainable, state.non_trainable, one_part(shard, parts.options.microbatches));
  const Array scale = scale_of(parts.options, state);
  Array finite = full({}, true, bool_);
  TrainState next = state;
  std::map<std::string, Array> logs;
  for (const Objective& objective : parts.objectives) {
    const Tree& kept = objective.sees_updates ? next.trainable : state.trainable;
    const Tree seen = layouts == nullptr ? kept : layouts->read(kept);
    const LossPoint point{parts, objective, declared, seen, next.non_trainable, shard, scale};
    Differentiated d = differentiate(point);
    if (layouts != nullptr) d.gradients = layouts->reduced(d.gradients);
    if (scale.has_value()) finite = logical_and(finite, optim::all_finite(d.gradients));
    for (const auto& [name, metric] : d.metrics) logs[in_objective(objective, name)] = metric;
    logs[in_objective(objective, "loss")] = d.loss;
    logs[in_objective(objective, "grad_norm")] = plain_norm(d.gradients);
    const std::vector<bool> trained = trained_leaves(objective, next.trainable);
    StepGradients given{d.gradients, d.loss};
    if (needs_function(objective)) given.function = of_trained_part(loss_function(point), kept, trained, layouts);
    auto [part, slots] = updated(parts.objectives, objective, given, next.optimizer, only(next.trainable, trained));
    next.trainable = with_part(next.trainable, part, trained);
    next.optimizer = std::move(slots);
    next.non_trainable = std::move(d.state);
  }
  if (scale.has_value()) {
    next = kept_unless(finite, std::move(next), state);
    next.loss_scale = scale_after(finite, *parts.options.loss_scale, state.loss_scale);
    logs["loss_scale"] = scale;
    logs["gradients_finite"] = convert(finite, float32);
  }
  next.step = state.step + 1;
  return {std::move(next), Logs(to_tree(std::move(logs)))};
}

std::map<std::string, Weighted> replica_evaluation(const StepLoss& loss, const DataParallelOptions& options,
                                                   const Tree& trainable, const Tree& non_trainable,
                                                   const Tree& shard) {
  const auto sums = [&](const Tree& rows) { return evaluated(loss(trainable, non_trainable, rows)); };
  if (options.microbatches == 1) return sums(shard);
  return sequential_map(sums, shard, {microbatch_axis, options.microbatches, true, true});
}

}  // namespace lockstep::train
