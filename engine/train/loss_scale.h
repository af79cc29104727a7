#pragma once

#include <lockstep/train.h>

// What a step does with a loss scale, in one replica; all of it is invariant.
namespace lockstep::train {

/// The scale of this step; nothing where it has none. Throws StateError where the step has one and the state has not.
Array scale_of(const DataParallelOptions& options, const TrainState& state);
/// `next`, or where gradients are not finite `state`, bit for bit.
TrainState kept_unless(const Array& finite, TrainState next, const TrainState& state);
/// The scale's state behind the step.
Tree scale_after(const Array& finite, const LossScale& options, const Tree& before);

}  // namespace lockstep::train
