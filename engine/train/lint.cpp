#include <iterator>

#include <lockstep/function.h>
#include <lockstep/parallel.h>
#include <lockstep/processes.h>
#include <lockstep/train.h>

#include "engine/train/batch_rows.h"
#include "engine/train/loss_over_mesh.h"
#include "engine/train/oversights.h"
#include "engine/train/replica_step.h"

namespace lockstep {

std::vector<std::string> lint(const TrainStep& step, const TrainState& state, const Tree& batch) {
  const auto whole = from_tree<TrainState>(gather(to_tree(state)));
  const detail::StepParts& parts = step.parts();
  const RowWeights& weight = parts.options.weight;
  const Tree given = train::without_empty_weights(batch, weight);
  train::check(given, weight);
  // As many rows as processes divide: each has a shard.
  const Tree rows = train::padded(train::with_weights(given, weight), weight, world()->size());
  const Mesh mesh = data_mesh(world()->size(), devices("cpu:0"), train::rows_of(rows));
  const auto of_shard = [&parts](const std::vector<Tree>& shard) {
    return to_tree(train::replica_losses(parts, shard[0], shard[1], shard[2]));
  };
  // Everything but the trainable variables is captured, so that they alone are differentiated.
  const auto loss = [&](const std::vector<Tree>& arguments) {
    return detail::pmap_call(
        of_shard, {.mesh = mesh, .in = {replicated, replicated, sharded(train::batch_axis)}, .out = {replicated}},
        {arguments[0], whole.non_trainable, rows}, 1);
  };
  std::vector<std::string> texts = trace(loss, {whole.trainable}).lint();
  const auto add = [&](std::vector<std::string> more) {
    texts.insert(texts.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  };
  add(train::ignored_weights(parts, whole, rows));
  add(train::ignored_state(parts, whole, rows));
  add(train::padded_state(parts, whole, rows));
  add(train::idle_masks(parts.objectives, whole.trainable));
  return texts;
}

std::vector<std::string> lint(const TrainStep& step, const TrainState& state, const Batch& batch) {
  return lint(step, state, to_tree(batch));
}

}  // namespace lockstep
