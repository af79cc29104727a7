#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lockstep {

/// What all kernels of one op, from one backend, do in one call of a function.
struct OpCost {
  std::string op;
  std::string backend;    ///< "engine": a copy, a loop or an exchange of the engine's own.
  std::int64_t runs = 0;  ///< Of kernels, each tile and each shard counted.
  double flops = 0;       ///< Arithmetic operations; a multiply-add is two, a move none.
  double bytes = 0;       ///< Read and written, each operand and result once.
};

/// The collectives of one op and size in one call of a function.
struct CollectiveCost {
  std::string op;
  std::int64_t bytes = 0;  ///< Of one replica's operand.
  std::int64_t times = 0;
};

/// What a compiled function will do, before it runs. Costs are those of one call in this process: a region's for all its
/// shards, a scan's for all its steps, a while_loop's for one iteration, a cond's for its dearest branch.
struct Plan {
  std::int64_t arena_bytes = 0;                     ///< Invariant values, once per process.
  std::int64_t shard_bytes = 0;                     ///< Per local shard.
  std::int64_t scratch_bytes = 0;                   ///< Per device.
  std::int64_t constant_bytes = 0;                  ///< Part of the compiled function.
  std::int64_t result_bytes = 0;                    ///< In memory of their own, or in that of donated arguments.
  std::int64_t kernels = 0;                         ///< Bound kernel calls.
  std::map<std::string, std::int64_t> collectives;  ///< Count by name.
  double flops = 0;
  double bytes = 0;
  bool has_while_loops = false;                  ///< Costs are then a lower bound.
  std::vector<OpCost> ops;                       ///< The dearest first: by flops, then by bytes.
  std::vector<CollectiveCost> collective_costs;  ///< By op and size.
  std::string text;                              ///< Regions, kernels, slots and costs.
};

}  // namespace lockstep
