#include <array>
#include <optional>
#include <span>
#include <utility>

#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/train.h>
#include <lockstep/transforms.h>

#include "engine/train/loss_over_mesh.h"
#include "engine/train/replica_step.h"

namespace lockstep {

namespace {

/// A batch as an argument: weights that are not given are made where the step is traced.
struct Rows {
  Rows() = default;
  explicit Rows(const Batch& batch) : x(batch.x), y(batch.y) {
    if (batch.weight.has_value()) weight = batch.weight;
  }
  Batch batch() const { return {x, y, weight.value_or(Array())}; }

  Array x;
  Array y;
  std::optional<Array> weight;
};
LOCKSTEP_TREE(Rows, x, y, weight);

}  // namespace

struct TrainStep::Impl {
  detail::StepParts parts;
  mutable detail::JitCache cache;
};

TrainStep::TrainStep(detail::StepParts parts) {
  if (parts.options.microbatches < 1) {
    throw ValueError("[data_parallel] microbatches is " + std::to_string(parts.options.microbatches) +
                     "; it must be at least 1");
  }
  auto impl = std::make_shared<Impl>();
  impl->cache = detail::JitCache(parts.options.debug, parts.options.precision);
  impl->parts = std::move(parts);
  impl_ = std::move(impl);
}

const detail::StepParts& TrainStep::parts() const { return impl_->parts; }
std::size_t TrainStep::traces() const { return impl_->cache.traces(); }

Mesh TrainStep::mesh(std::int64_t rows) const { return train::batch_mesh(impl_->parts.options, rows); }

TrainState TrainStep::init(Tree trainable, Tree non_trainable) const {
  Tree slots = detail::JitCache().call(
      [this](const std::vector<Tree>& arguments) { return impl_->parts.optimizer.init(arguments[0]); }, {trainable});
  return {std::move(trainable), std::move(non_trainable), std::move(slots), array<std::int64_t>(0)};
}

std::pair<TrainState, Logs> TrainStep::operator()(TrainState state, const Batch& batch) const {
  train::check(batch);
  // Called once per types: what is done here, ones for missing weights too, costs a steady step nothing.
  const auto function = [this](const std::vector<Tree>& arguments) {
    const detail::StepParts& parts = impl_->parts;
    const Batch given = from_tree<Rows>(arguments[1]).batch();
    const Batch rows = train::checked(given.weight.has_value() ? train::filled(given) : given);
    const Mesh mesh = this->mesh(rows.x.dim(0));
    const Batch whole = train::padded(rows, mesh.shards() * parts.options.microbatches);
    const auto mapped = [&parts](const std::vector<Tree>& shard) {
      return train::replica_step(parts, from_tree<TrainState>(shard[0]), from_tree<Batch>(shard[1]));
    };
    return detail::pmap_call(mapped,
                             {.mesh = mesh, .in = {replicated, sharded(train::batch_axis)}, .out = {replicated}},
                             {arguments[0], to_tree(whole)}, 1);
  };
  std::array<Tree, 2> arguments = {to_tree(std::move(state)), to_tree(Rows(batch))};
  return from_tree<std::pair<TrainState, Logs>>(impl_->cache.call(function, std::span<Tree>(arguments)));
}

struct EvaluateStep::Impl {
  LossFunction loss;
  DataParallelOptions options;
  mutable detail::JitCache cache;
};

EvaluateStep::EvaluateStep(LossFunction loss, DataParallelOptions options)
    : impl_(std::make_shared<Impl>(Impl{std::move(loss), options, detail::JitCache({}, options.precision)})) {}

std::map<std::string, Weighted> EvaluateStep::operator()(const Tree& trainable, const Tree& non_trainable,
                                                         const Batch& batch) const {
  const Batch rows = train::checked(batch);
  const Mesh mesh = train::batch_mesh(impl_->options, rows.x.dim(0));
  const auto mapped = [this](const std::vector<Tree>& shard) {
    return to_tree(train::replica_evaluation(impl_->loss, shard[0], shard[1], from_tree<Batch>(shard[2])));
  };
  const auto function = [&](const std::vector<Tree>& arguments) {
    const Batch whole = train::padded(train::filled(from_tree<Batch>(arguments[2])), mesh.shards());
    return detail::pmap_call(
        mapped, {.mesh = mesh, .in = {replicated, replicated, sharded(train::batch_axis)}, .out = {replicated}},
        {arguments[0], arguments[1], to_tree(whole)}, 1);
  };
  return from_tree<std::map<std::string, Weighted>>(
      impl_->cache.call(function, {trainable, non_trainable, to_tree(rows)}));
}

}  // namespace lockstep
