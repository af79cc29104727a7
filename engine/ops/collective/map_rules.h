#pragma once

#include <vector>

#include "engine/ir/primitive.h"

// How a map is differentiated, cut and batched: each time it is a map of what becomes of its body.
namespace lockstep::ops::collective {

/// A map of the body's jvp. A tangent has its primal's layout.
ir::JointTangents differentiate_map(const ir::JvpContext& context);
/// A map of the body's known part and one of its unknown part. A residual travels with one leading dimension for each
/// axis it varies along, cut along it; one that is an operand of the map is passed again.
ir::SplitResult split_map(const ir::SplitContext& context);
/// A map of the transposed body. A cotangent has its primal's layout.
std::vector<ir::Tangent> transpose_map(const ir::TransposeContext& context);
/// A map of the batched body. The batch is whole on every shard.
std::vector<ir::Value> batch_map(const ir::BatchContext& context);
/// Evaluates the body on all shards.
std::vector<ir::PerShard> evaluate_map(const ir::EvaluateContext& context);
std::vector<ir::KeyElements> follow_map_keys(const ir::KeyContext& context);

}  // namespace lockstep::ops::collective
