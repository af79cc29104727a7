// Reductions over the mesh inside a vmap over a shard's rows.
#pragma once

#include <string_view>

#include <lockstep/types.h>

namespace lockstep::nn {

/// Throws MeshError, beginning with `[who]` and ending with `instead`, where a vmap around the call maps rows that differ
/// between the replicas of one of the axes: a reduction over that axis would join row i of every shard, which depends on
/// how the batch is sharded.
void check_no_mapped_rows(std::string_view who, const AxisSet& axes, std::string_view instead);

}  // namespace lockstep::nn
