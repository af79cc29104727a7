#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <lockstep/export.h>
#include <lockstep/partitioned.h>

// What steps of model_parallel are made of: a layout for each leaf, by any rule.
namespace lockstep::detail {

/// For each leaf of an argument or result.
using LayoutOfLeaf = std::function<Layout(const std::string& path, const ArrayType& type)>;
struct PartitionCall {
  Mesh mesh;
  std::vector<LayoutOfLeaf> in;
  std::vector<LayoutOfLeaf> out;
  bool is_explicit = false;
  std::int64_t contraction_blocks = 0;
  bool keep_cut = false;
};
/// As of PartitionOptions.
LOCKSTEP_API Tree partition_call(const TreeFunction& function, const PartitionCall& options,
                                 std::vector<Tree> arguments);
/// What it would move; nothing is run.
LOCKSTEP_API LayoutPlan partition_plan(const TreeFunction& function, const PartitionCall& options,
                                       const std::vector<Tree>& arguments);

}  // namespace lockstep::detail
