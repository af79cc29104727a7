#include "engine/compile/collectives/replica_groups.h"

#include <algorithm>
#include <map>
#include <utility>

#include "engine/core/lists.h"
#include "engine/ops/collective/dimension_axes.h"

namespace lockstep::compile {

namespace {

bool is_among(const std::vector<std::string>& axes, const std::string& name) {
  return std::find(axes.begin(), axes.end(), name) != axes.end();
}

}  // namespace

std::vector<ReplicaGroup> groups_of(const Mesh& mesh, const std::vector<std::string>& axes) {
  std::map<std::vector<std::int64_t>, ReplicaGroup> groups;
  for (int shard = 0; shard < mesh.shards; ++shard) {
    std::vector<std::int64_t> rest;
    for (const auto& axis : mesh.axes.axes()) {
      if (!is_among(axes, axis.name)) rest.push_back(mesh.coordinate(shard, axis.name));
    }
    groups[rest].push_back(shard);
  }
  std::vector<ReplicaGroup> result;
  for (auto& [key, group] : groups) result.push_back(std::move(group));
  return result;
}

bool has_equal_parts(const std::vector<ReplicaGroup>& groups, const Mesh& mesh, int processes) {
  const int members = static_cast<int>(groups[0].size());
  if (members % processes != 0) return false;
  return std::ranges::all_of(groups, [&](const ReplicaGroup& group) {
    for (int i = 0; i < members; ++i) {
      if (nth(group, i) / mesh.local_shards != i / (members / processes)) return false;
    }
    return true;
  });
}

std::vector<std::int64_t> extents_of(const Mesh& mesh, const std::vector<std::string>& axes) {
  std::vector<std::int64_t> extents;
  for (const auto& axis : mesh.axes.axes()) {
    if (is_among(axes, axis.name)) extents.push_back(axis.size);
  }
  return extents;
}

bool represents(const Mesh& mesh, const std::vector<std::string>& layout, int shard) {
  const auto& axes = mesh.axes.axes();
  const std::vector<std::string> cutting = ops::collective::axes_of_layout(layout);
  return std::all_of(axes.begin(), axes.end(), [&](const auto& axis) {
    return is_among(cutting, axis.name) || mesh.coordinate(shard, axis.name) == 0;
  });
}

}  // namespace lockstep::compile
