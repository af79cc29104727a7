#include <lockstep/function.h>
#include <lockstep/parallel.h>
#include <lockstep/train.h>

#include "engine/train/loss_over_mesh.h"
#include "engine/train/replica_step.h"

namespace lockstep {

std::vector<std::string> lint(const TrainStep& step, const TrainState& state, const Batch& batch) {
  detail::StepParts parts = step.parts();
  parts.options.microbatches = 1;
  const Tree rows = to_tree(train::checked(batch));
  const Mesh mesh = data_mesh(1, devices("cpu:0"), batch.x.dim(0));
  const auto of_shard = [&parts](const std::vector<Tree>& shard) {
    return Tree(train::replica_loss(parts, shard[0], shard[1], from_tree<Batch>(shard[2])));
  };
  // Everything but the trainable variables is captured, so that they alone are differentiated.
  const auto loss = [&](const std::vector<Tree>& arguments) {
    return detail::pmap_call(
        of_shard, {.mesh = mesh, .in = {replicated, replicated, sharded(train::batch_axis)}, .out = {replicated}},
        {arguments[0], state.non_trainable, rows}, 1);
  };
  return trace(loss, {state.trainable}).lint();
}

}  // namespace lockstep
