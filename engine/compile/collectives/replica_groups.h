#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/compile/program.h"

namespace lockstep::compile {

/// The shards that take part together: those that differ in the given axes alone, in mesh order.
using ReplicaGroup = std::vector<int>;

/// All shards of the mesh in groups, ordered by their coordinates along the other axes.
std::vector<ReplicaGroup> groups_of(const Mesh& mesh, const std::vector<std::string>& axes);

/// Whether each process has as many members of every group, those of process 0 first.
bool has_equal_parts(const std::vector<ReplicaGroup>& groups, const Mesh& mesh, int processes);

/// Extents of the given axes in mesh order.
std::vector<std::int64_t> extents_of(const Mesh& mesh, const std::vector<std::string>& axes);

/// Of the shards that hold equal blocks of a whole laid out over the axes `layout`, the first one.
bool represents(const Mesh& mesh, const std::vector<std::string>& layout, int shard);

}  // namespace lockstep::compile
