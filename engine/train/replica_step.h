#pragma once

#include <map>
#include <string>

#include <lockstep/train.h>

namespace lockstep::train {

/// The mesh of a batch of that many rows. Default devices share the cores with the other processes.
Mesh batch_mesh(const DataParallelOptions& options, std::int64_t rows);

/// Throws DataError unless x, y and, where it is given, weight have equally many rows.
void check(const Batch& batch);
/// The checked batch with weights, ones where none are given.
Batch checked(const Batch& batch);

/// Loss, reduced gradients and new state of one replica; all but the inputs is invariant.
struct Differentiated {
  Array loss;
  Tree gradients;
  Tree state;
  Logs metrics;
};
Differentiated differentiate(const detail::StepParts& parts, const TrainState& state, const Batch& shard);

/// The loss that it differentiates.
Array replica_loss(const detail::StepParts& parts, const Tree& trainable, const Tree& non_trainable,
                   const Batch& shard);

/// One replica's step, for the body of a map: a pair of TrainState and Logs.
Tree replica_step(const detail::StepParts& parts, const TrainState& state, const Batch& shard);

/// One replica's evaluation: "loss" and the metrics, summed over the batch axis.
std::map<std::string, Weighted> replica_evaluation(const LossFunction& loss, const Tree& trainable,
                                                   const Tree& non_trainable, const Batch& shard);

}  // namespace lockstep::train
