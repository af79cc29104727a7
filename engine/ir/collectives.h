#pragma once

#include <span>
#include <vector>

#include "engine/ir/kernel_runner.h"
#include "engine/ir/primitive.h"
#include "engine/ir/shards.h"

namespace lockstep::ir {

/// S(0, n) with S(a, b) = x_a if b = a + 1, else add(S(a, m), S(m, b)), m = (a + b) / 2: the one order in which anything
/// is summed over shards, whatever runs them. At least one value.
template <class T, class Add>
T fold_tree(std::span<const T> values, const Add& add) {
  if (values.size() == 1) return values.front();
  const std::size_t middle = values.size() / 2;
  return add(fold_tree(values.first(middle), add), fold_tree(values.subspan(middle), add));
}

/// The dtype in which sums over shards of a dtype are kept until they are complete: float32 for float16 and bfloat16.
DType accumulation_dtype(DType dtype);

/// What a collective does for all shards of a mesh at once.
struct CollectiveCall {
  const Primitive& primitive;  ///< One that exchanges something, or waits for one that does.
  const Attrs& attrs;
  ArrayType input;  ///< Unused by axis_index.
  ArrayType output;
};

/// One result per shard; `operands` has one per shard, too. Sums in the order of `fold_tree`, several axes in mesh order,
/// last first. Shards on which the result is the same share its memory.
std::vector<BufferPtr> run_collective(const CollectiveCall& call, const Shards& shards,
                                      std::span<const BufferPtr> operands, const Backend& backend);

}  // namespace lockstep::ir
