#pragma once

#include <map>
#include <string>

#include <lockstep/train.h>

#include "engine/train/loss_over_mesh.h"
#include "engine/train/variable_layouts.h"

namespace lockstep::train {

/// The mesh of a batch of that many rows. Default devices share the cores with the other processes.
Mesh batch_mesh(const DataParallelOptions& options, std::int64_t rows);

/// What one objective's loss is differentiated at, in one replica.
struct LossPoint {
  const detail::StepParts& parts;
  const Objective& objective;
  const Declarations& declared;
  Tree trainable;
  Tree non_trainable;
  Tree shard;             ///< Rows, with their weights, in parts (batch_rows.h) where there are several microbatches.
  Array loss_scale = {};  ///< What the loss is differentiated times; nothing: 1.
};

/// Loss, reduced gradients, divided by the loss scale, and new state of one replica; all but the inputs is invariant. Gradients have nothing where a
/// leaf is not trained.
struct Differentiated {
  Array loss;
  Tree gradients;
  Tree state;
  std::map<std::string, Array> metrics;
};
Differentiated differentiate(const LossPoint& point);

/// The loss of the same rows as a function of the whole trainable tree, which starts from the point's: what optimizers ask for
/// that look further than a gradient. Throws AggregationError where a trained leaf declares how gradients combine.
optim::ValueFunction loss_function(const LossPoint& point);

/// The losses that are differentiated, of the whole shard, by objective.
std::vector<Array> replica_losses(const detail::StepParts& parts, const Tree& trainable, const Tree& non_trainable,
                                  const Tree& shard);

/// One replica's step, for the body of a map. `shard` as in LossPoint. `layouts`: of a step that is partitioned, else null.
std::pair<TrainState, Logs> replica_step(const detail::StepParts& parts, const TrainState& state, const Tree& shard,
                                         const VariableLayouts* layouts = nullptr);

/// One replica's evaluation: "loss" and the metrics, summed over the batch axis. `shard` as in LossPoint.
std::map<std::string, Weighted> replica_evaluation(const StepLoss& loss, const DataParallelOptions& options,
                                                   const Tree& trainable, const Tree& non_trainable, const Tree& shard);

}  // namespace lockstep::train
