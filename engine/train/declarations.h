#pragma once

#include <vector>

#include "engine/train/loss_over_mesh.h"

// How the gradients of trainable variables combine, as layers declare it where a loss calls their model.
namespace lockstep::train {

/// What the losses' calls declare for leaves of the trainable tree, and what the options say by path. Called in a replica:
/// each loss is traced once for it, and nothing of that is kept. Throws AggregationError where a leaf is declared in two
/// ways, where it cannot be told which leaf a declared variable is, and for a path of the options that names no leaf.
Declarations find_declarations(const detail::StepParts& parts, const Tree& trainable, const Tree& non_trainable,
                               const Tree& shard);

/// The tree in which declared leaves vary over the shards, so that each replica keeps its own gradient of them.
Tree entering(const Tree& trainable, const Declarations& declared);

}  // namespace lockstep::train
