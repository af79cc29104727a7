#pragma once

#include <vector>

#include <lockstep/model_parallel.h>

#include "engine/train/variable_layouts.h"

namespace lockstep::train {

/// One step on whole arrays, (state, batch) -> (state, logs), partitioned over the mesh of `parts.partitioned`.
Tree partitioned_step(const detail::StepParts& parts, const std::vector<Tree>& arguments);
/// One evaluation likewise, (trainable, non_trainable, batch) -> sums.
Tree partitioned_evaluation(const detail::StepParts& parts, const std::vector<Tree>& arguments);
/// What the step moves.
LayoutPlan plan_of_step(const detail::StepParts& parts, const std::vector<Tree>& arguments);
/// The state of a step that begins, every leaf cut as its layout says; each process makes its own blocks of the slots.
/// Throws MeshError where rules do not fit the variables.
TrainState cut_state(const detail::StepParts& parts, Tree trainable, Tree non_trainable);

}  // namespace lockstep::train
