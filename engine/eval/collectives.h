#pragma once

#include <span>
#include <vector>

#include "engine/eval/kernel_runner.h"
#include "engine/eval/shards.h"
#include "engine/ir/primitive.h"

namespace lockstep::eval {

/// What a collective does for all shards of a mesh at once.
struct CollectiveCall {
  const ir::Primitive& primitive;  ///< One that exchanges something, or waits for one that does.
  const Attrs& attrs;
  ArrayType input;  ///< Unused by axis_index.
  ArrayType output;
};

/// One result per shard; `operands` has one per shard, too. Sums in the order of `fold_tree`, several axes in mesh order,
/// last first. Shards on which the result is the same share its memory.
std::vector<BufferPtr> run_collective(const CollectiveCall& call, const Shards& shards,
                                      std::span<const BufferPtr> operands, const Backend& backend);

}  // namespace lockstep::eval
