#include <array>
#include <optional>
#include <span>
#include <utility>

#include <lockstep/error.h>
#include <lockstep/moved_from.h>
#include <lockstep/ops.h>
#include <lockstep/train.h>
#include <lockstep/transforms.h>

#include "engine/train/batch_rows.h"
#include "engine/train/loss_over_mesh.h"
#include "engine/train/model_parallel.h"
#include "engine/train/oversights.h"
#include "engine/train/replica_step.h"
#include "engine/train/trainable_parts.h"

namespace lockstep {

template class detail::StructTree<TrainState>;
template class Named<Aggregation>;

namespace {

/// The usual batch as an argument: weights that are not given are nothing.
struct BatchArgument {
  BatchArgument() = default;
  explicit BatchArgument(const Batch& batch) : x(batch.x), y(batch.y) {
    if (batch.weight.has_value()) weight = batch.weight;
  }

  Array x;
  Array y;
  std::optional<Array> weight;
};
LOCKSTEP_TREE(BatchArgument, x, y, weight);

void check(const DataParallelOptions& options) {
  if (options.loss_scale) static_cast<void>(loss_scale_state(*options.loss_scale));
  constexpr std::int64_t most = std::int64_t{1} << 20;
  if (options.microbatches >= 1 && options.microbatches <= most) return;
  throw ValueError("[data_parallel] microbatches is " + std::to_string(options.microbatches) +
                   "; it must be at least 1, and no more than " + std::to_string(most));
}

/// The batch as the mesh cuts it: rows for each shard and microbatch, with their weights, real ones where these are 0.
Tree batch_for_mesh(const Tree& batch, const DataParallelOptions& options, const Mesh& mesh) {
  const Tree filled = train::filled(batch, options.weight);
  return train::padded(train::with_weights(filled, options.weight), options.weight,
                       mesh.shards() * options.microbatches);
}

/// One step, as it is traced: (state, batch) -> (state, logs).
Tree traced_step(const detail::StepParts& parts, const std::vector<Tree>& arguments) {
  if (parts.partitioned) return train::partitioned_step(parts, arguments);
  const Mesh mesh = train::batch_mesh(parts.options, train::rows_of(arguments[1]));
  const auto mapped = [&parts](const std::vector<Tree>& shard) {
    const Tree rows = train::in_parts(shard[1], parts.options.microbatches);
    return to_tree(train::replica_step(parts, from_tree<TrainState>(shard[0]), rows));
  };
  return detail::pmap_call(mapped, {.mesh = mesh, .in = {replicated, sharded(train::batch_axis)}, .out = {replicated}},
                           {arguments[0], batch_for_mesh(arguments[1], parts.options, mesh)}, 1);
}

}  // namespace

struct TrainStep::Impl {
  detail::StepParts parts;
  mutable detail::JitCache cache;

  std::pair<TrainState, Logs> call(TrainState state, Tree batch) const {
    const auto function = [this](const std::vector<Tree>& arguments) { return traced_step(parts, arguments); };
    std::array<Tree, 2> arguments = {to_tree(std::move(state)), std::move(batch)};
    return from_tree<std::pair<TrainState, Logs>>(cache.call(function, std::span<Tree>(arguments)));
  }
};

StepLoss::StepLoss(const StepLoss& other) = default;
StepLoss::StepLoss(StepLoss&& other) noexcept = default;
StepLoss& StepLoss::operator=(const StepLoss& other) = default;
StepLoss& StepLoss::operator=(StepLoss&& other) noexcept = default;
StepLoss::~StepLoss() = default;
StepLoss::operator bool() const { return static_cast<bool>(function_); }

WithAux StepLoss::operator()(const Tree& trainable, const Tree& non_trainable, const Tree& batch) const {
  return function_(trainable, non_trainable, batch);
}

Batch StepLoss::batch_of_arrays(const Tree& tree) {
  const Tree& weight = tree.at("weight");
  return {tree.at("x").array(), tree.at("y").array(), weight.is_leaf() ? weight.array() : Array()};
}

RowWeights::RowWeights(const RowWeights& other) = default;
RowWeights::RowWeights(RowWeights&& other) noexcept = default;
RowWeights& RowWeights::operator=(const RowWeights& other) = default;
RowWeights& RowWeights::operator=(RowWeights&& other) noexcept = default;
RowWeights::~RowWeights() = default;
RowWeights::RowWeights(std::string path) : path_(std::move(path)) {}
RowWeights::RowWeights(const char* path) : path_(path) {}
const RowWeights no_row_weights{""};

TrainStep detail::step_of(StepLoss&& loss, optim::GradientTransformation& optimizer, DataParallelOptions& options) {
  Objective only{.name = {}, .loss = std::move(loss), .optimizers = {{"", std::move(optimizer)}}};
  return TrainStep({{std::move(only)}, std::move(options)});
}

TrainStep data_parallel(StepLoss loss, optim::GradientTransformation optimizer, DataParallelOptions options) {
  return detail::step_of(std::move(loss), optimizer, options);
}

TrainStep data_parallel(std::vector<Objective> objectives, DataParallelOptions options) {
  return TrainStep({std::move(objectives), std::move(options)});
}

TrainStep::TrainStep(detail::StepParts parts) {
  check(parts.options);
  train::check(parts.objectives);
  for (const Objective& objective : parts.objectives) {
    detail::expect_held(objective.loss, "[step] the loss");
    for (const auto& [path, optimizer] : objective.optimizers) {
      detail::expect_held(optimizer.init, "[step] the optimizer of '" + path + "'");
      detail::expect_held(optimizer.update, "[step] the optimizer of '" + path + "'");
    }
  }
  auto impl = std::make_shared<Impl>();
  impl->cache = detail::JitCache(parts.options.debug, parts.options.precision);
  impl->parts = std::move(parts);
  impl_ = std::move(impl);
}

const detail::StepParts& TrainStep::parts() const { return detail::held(impl_, "training step").parts; }
std::size_t TrainStep::traces() const { return detail::held(impl_, "training step").cache.traces(); }

Mesh TrainStep::mesh(std::int64_t rows) const {
  const detail::StepParts& own = parts();
  return own.partitioned ? own.partitioned->mesh : train::batch_mesh(own.options, rows);
}

TrainState TrainStep::init(Tree trainable, Tree non_trainable) const {
  const detail::StepParts& own = parts();
  train::check_trained_dtypes(own.objectives, trainable);
  const std::vector<std::string> idle = train::idle_masks(own.objectives, trainable);
  if (!idle.empty()) throw ValueError("[TrainStep::init] " + idle.front());
  if (own.partitioned) return train::cut_state(own, std::move(trainable), std::move(non_trainable));
  Tree slots = detail::JitCache().call(
      [&own](const std::vector<Tree>& arguments) { return train::initial_slots(own.objectives, arguments[0]); },
      {trainable});
  TrainState state{std::move(trainable), std::move(non_trainable), std::move(slots), array<std::int64_t>(0)};
  if (own.options.loss_scale) state.loss_scale = loss_scale_state(*own.options.loss_scale);
  return state;
}

std::pair<TrainState, Logs> TrainStep::operator()(TrainState state, const Batch& batch) const {
  train::check(batch);
  return detail::held(impl_, "training step").call(std::move(state), to_tree(BatchArgument(batch)));
}

std::pair<TrainState, Logs> TrainStep::run(TrainState state, Tree batch) const {
  const Impl& impl = detail::held(impl_, "training step");
  const RowWeights& weight = impl.parts.options.weight;
  batch = train::without_empty_weights(std::move(batch), weight);
  train::check(batch, weight);
  return impl.call(std::move(state), std::move(batch));
}

Function TrainStep::traced(const TrainState& state, const Tree& batch) const {
  const RowWeights& weight = detail::held(impl_, "training step").parts.options.weight;
  const Tree rows = train::without_empty_weights(batch, weight);
  train::check(rows, weight);
  return trace(
      [this](const std::vector<Tree>& arguments) {
        return traced_step(detail::held(impl_, "training step").parts, arguments);
      },
      {to_tree(state), rows});
}

namespace {

/// One evaluation, as it is traced: (trainable, non_trainable, batch) -> sums.
Tree whole_evaluation(const detail::StepParts& parts, const std::vector<Tree>& arguments) {
  if (parts.partitioned) return train::partitioned_evaluation(parts, arguments);
  const Mesh mesh = train::batch_mesh(parts.options, train::rows_of(arguments[2]));
  const auto mapped = [&](const std::vector<Tree>& shard) {
    const Tree rows = train::in_parts(shard[2], parts.options.microbatches);
    return to_tree(train::replica_evaluation(parts.objectives[0].loss, parts.options, shard[0], shard[1], rows));
  };
  return detail::pmap_call(
      mapped, {.mesh = mesh, .in = {replicated, replicated, sharded(train::batch_axis)}, .out = {replicated}},
      {arguments[0], arguments[1], batch_for_mesh(arguments[2], parts.options, mesh)}, 1);
}

}  // namespace

struct EvaluateStep::Impl {
  detail::StepParts parts;  ///< Of one objective, its loss.
  mutable detail::JitCache cache;

  std::map<std::string, Weighted> call(const Tree& trainable, const Tree& non_trainable, Tree batch) const {
    const auto function = [this](const std::vector<Tree>& arguments) { return whole_evaluation(parts, arguments); };
    return from_tree<std::map<std::string, Weighted>>(
        cache.call(function, {trainable, non_trainable, std::move(batch)}));
  }
};

EvaluateStep::EvaluateStep(StepLoss loss, DataParallelOptions options)
    : EvaluateStep(
          detail::StepParts{{Objective{.name = {}, .loss = std::move(loss), .optimizers = {}}}, std::move(options)}) {}

EvaluateStep::EvaluateStep(detail::StepParts parts) {
  check(parts.options);
  detail::expect_held(parts.objectives[0].loss, "[evaluate] the loss");
  detail::JitCache cache({}, parts.options.precision);
  impl_ = std::make_shared<Impl>(Impl{std::move(parts), std::move(cache)});
}

std::map<std::string, Weighted> EvaluateStep::operator()(const Tree& trainable, const Tree& non_trainable,
                                                         const Batch& batch) const {
  train::check(batch);
  return detail::held(impl_, "evaluation step").call(trainable, non_trainable, to_tree(BatchArgument(batch)));
}

std::map<std::string, Weighted> EvaluateStep::run(const Tree& trainable, const Tree& non_trainable, Tree batch) const {
  const Impl& impl = detail::held(impl_, "evaluation step");
  const RowWeights& weight = impl.parts.options.weight;
  batch = train::without_empty_weights(std::move(batch), weight);
  train::check(batch, weight);
  return impl.call(trainable, non_trainable, std::move(batch));
}

template class detail::OutOfLine<std::vector<Device>>;

}  // namespace lockstep
