#pragma once

#include <lockstep/array.h>

#include "engine/nn/losses/loss_operands.h"

namespace lockstep::nn {

/// Vectors along the last dimension, divided by their length or by 1e-6 where that is larger. No overflow, and a
/// derivative at 0.
Array unit_vectors(const Array& x);

/// Of the angle between vectors along the last dimension, [B, ...] of [B, ..., D]. Throws ShapeError unless both have
/// one shape of rank 2 or more.
Array cosine_of(const LossCall& of, const Array& a, const Array& b);

}  // namespace lockstep::nn
