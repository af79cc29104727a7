#include "engine/train/replica_step.h"

#include <utility>

#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/transforms.h>

#include "engine/train/loss_over_mesh.h"

namespace lockstep::train {
namespace {

Declarations declarations(const detail::StepParts& parts, const Array& x) {
  Declarations declared;
  for (const Variable& v : detail::variables(parts.model, Tree(x))) {
    if (v.trainable && v.aggregation != Aggregation::none) declared.emplace(v.path, v.aggregation);
  }
  return declared;
}

/// Variables that declare an aggregation enter varying, so that each replica keeps its own gradient.
Tree entering(const Tree& trainable, const Declarations& declared) {
  if (declared.empty()) return trainable;
  return map_with_path([&](const std::string& path,
                           const Array& leaf) { return declared.contains(path) ? pvary(leaf, {batch_axis}) : leaf; },
                       trainable);
}

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

void add_to(Weighted& total, const Weighted& part) {
  total = total.sum.has_value() ? Weighted{total.sum + part.sum, total.weight + part.weight} : part;
}

/// The loss over all microbatches, terms added one by one; penalties are those of the first.
WithAux accumulated(const detail::StepParts& parts, const Tree& trainable, const Tree& non_trainable,
                    const Batch& shard) {
  WithAux all{.loss = {}, .state = non_trainable, .metrics = {}};
  const std::int64_t count = parts.options.microbatches;
  for (std::int64_t part = 0; part < count; ++part) {
    WithAux one = parts.loss(trainable, all.state, microbatch(shard, part, count));
    if (part == 0) {
      all.loss.terms.resize(one.loss.terms.size());
      all.loss.penalties = one.loss.penalties;
    }
    if (one.loss.terms.size() != all.loss.terms.size()) {
      throw StateError("[data_parallel] the loss had " + std::to_string(all.loss.terms.size()) +
                       " terms on the first microbatch and " + std::to_string(one.loss.terms.size()) +
                       " on another; return the same terms on every call");
    }
    for (std::size_t i = 0; i < one.loss.terms.size(); ++i) add_to(all.loss.terms[i], one.loss.terms[i]);
    for (const auto& [name, metric] : one.metrics) add_to(all.metrics[name], metric);
    all.state = std::move(one.state);
  }
  return all;
}

}  // namespace

void check(const Batch& batch) {
  if (!batch.x.has_value() || !batch.y.has_value() || batch.x.ndim() == 0 || batch.x.dim(0) == 0) {
    throw DataError("[batch] x or y is empty; give at least one row");
  }
  const std::int64_t rows = batch.x.dim(0);
  const auto rows_of = [](const Array& x) { return x.ndim() == 0 ? 0 : x.dim(0); };
  const bool has_weight = batch.weight.has_value();
  if (rows_of(batch.y) == rows && (!has_weight || (batch.weight.ndim() == 1 && batch.weight.dim(0) == rows))) return;
  const ArrayType weight = has_weight ? batch.weight.type() : ArrayType{float32, {rows}, {}};
  throw DataError("[batch] x is " + to_string(batch.x.type()) + ", y " + to_string(batch.y.type()) + ", weight " +
                  to_string(weight) + "; give all three the same number of rows, weight of rank 1");
}

Batch checked(const Batch& batch) {
  check(batch);
  Batch result = batch;
  if (!result.weight.has_value()) result.weight = ones({batch.x.dim(0)});
  return result;
}

Differentiated differentiate(const detail::StepParts& parts, const TrainState& state, const Batch& shard) {
  const Declarations declared = declarations(parts, shard.x);
  Loss local;
  const auto function = [&](const std::vector<Tree>& arguments) {
    WithAux result = accumulated(parts, arguments[0], state.non_trainable, shard);
    std::map<std::string, Tree> metrics;
    for (const auto& [name, metric] : result.metrics)
      metrics.emplace(name, Tree(ratio_over_batch(metric, "metric '" + name + "'")));
    std::vector<Tree> weights;
    for (const Weighted& term : result.loss.terms) weights.emplace_back(stop_gradient(term.weight));
    return Tree::list({Tree(loss_over_batch(result.loss)), Tree::list(std::move(weights)), std::move(result.state),
                       Tree::dict(std::move(metrics))});
  };
  auto [value, gradients] = detail::value_and_grad(function, {entering(state.trainable, declared)}, {0});
  for (const Tree& weight : value.items()[1].items()) local.terms.push_back({.sum = {}, .weight = weight.array()});
  const Tree& next = value.items()[2];
  check_invariant(next);
  check_same_types(state.non_trainable, next, "non-trainable state after the step");
  return {.loss = value.items()[0].array(),
          .gradients = combine_gradients(gradients[0], declared, local),
          .state = next,
          .metrics = from_tree<Logs>(value.items()[3])};
}

Array replica_loss(const detail::StepParts& parts, const Tree& trainable, const Tree& non_trainable,
                   const Batch& shard) {
  const Tree varying = entering(trainable, declarations(parts, shard.x));
  return loss_over_batch(accumulated(parts, varying, non_trainable, shard).loss);
}

Tree replica_step(const detail::StepParts& parts, const TrainState& state, const Batch& shard) {
  Differentiated d = differentiate(parts, state, shard);
  auto [updates, slots] = parts.optimizer.update(d.gradients, state.optimizer, state.trainable);
  check_same_types(state.optimizer, slots, "optimizer state after the step");
  Logs logs = std::move(d.metrics);
  logs["loss"] = d.loss;
  logs["grad_norm"] = optim::global_norm(d.gradients);
  TrainState next{.trainable = optim::apply_updates(state.trainable, updates),
                  .non_trainable = std::move(d.state),
                  .optimizer = std::move(slots),
                  .step = state.step + 1};
  return to_tree(std::pair(std::move(next), std::move(logs)));
}

std::map<std::string, Weighted> replica_evaluation(const LossFunction& loss, const Tree& trainable,
                                                   const Tree& non_trainable, const Batch& shard) {
  const WithAux result = loss(trainable, non_trainable, shard);
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

}  // namespace lockstep::train
