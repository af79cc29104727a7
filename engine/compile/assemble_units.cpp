#include <algorithm>
#include <memory>
#include <utility>

#include "engine/compile/make_units.h"
#include "engine/compile/memory/memory_plan.h"
#include "engine/core/lists.h"
#include "engine/executable/copy_kernel.h"
#include "engine/executable/gather_blocks_kernel.h"

// How the shards' blocks of a map's result become what lies outside of it, and how blocks of processes come to lie apart.
namespace lockstep::compile {
namespace {

/// Lets the shards write their blocks of the whole themselves. False where the blocks are not contiguous, are shared by
/// shards, lie in memory that is not theirs, or begin where a buffer of its own would not: a library's product may add
/// in another order there, and which shards write into a whole depends on the number of processes.
bool write_through(const Program& program, const Item& item, UnitProgram& to) {
  const Mesh& mesh = program.meshes[item.mesh];
  const StoredValue local = to.values[item.inputs[0]];
  const StoredValue& root = to.values[local.root];
  const StoredValue& whole = to.values[item.outputs[0]];
  const bool stacked = item.stacked >= 0;
  if ((program.processes > 1 && !stacked && !item.of_part) || root.memory != Memory::own || root.pmap != item.mesh ||
      root.cut >= 0)
    return false;
  if (local.offset != 0 || !local.is_contiguous() || local.nbytes() != root.nbytes()) return false;
  if (mesh.shards > 1 && local.nbytes() % buffer_alignment != 0) return false;
  const auto blocks = static_cast<int>(mesh.part_of(item.layout).distinct_shards().size());
  if (!stacked && (blocks != mesh.local_shards || !is_contiguous(local.type.shape, whole.strides))) return false;
  const int cut = to.cuts.add(cut_offsets(mesh, item, local.type.shape, whole.strides, local.type.dtype));
  const int old_root = local.root;
  for (StoredValue& value : to.values) {
    if (value.root != old_root) continue;
    value.root = item.outputs[0];
    value.cut = cut;
  }
  return true;
}

/// Copies blocks of this process's shards; `offset(s)` is where shard s's begins, in bytes.
template <class Offset>
void copy_blocks(const Program& program, const Item& item, UnitProgram& to, const std::vector<int>& shards,
                 const Strides& strides, const Offset& offset) {
  const Kernel* const copy = program.kernels.adopt(std::make_unique<CopyKernel>());
  const bool varies = to.values[item.inputs[0]].pmap >= 0;
  ArrayType type = program.type(item.inputs[0]);
  type.varying = {};
  Unit unit;
  unit.mesh = item.mesh;
  for (const int s : shards) {
    const int block = to.new_view(item.outputs[0], type, strides, offset(s), -1);
    unit.calls.push_back({copy, nullptr, {{item.inputs[0], varies ? s : -1}}, {{block, -1}}, "copy"});
  }
  to.units.add(std::move(unit));
}

/// Puts the local shards' blocks one behind the other.
void stack_blocks(const Program& program, const Item& item, UnitProgram& to) {
  std::vector<int> shards;
  for (int s = 0; s < program.meshes[item.mesh].local_shards; ++s) shards.push_back(s);
  const Strides strides = contiguous_strides(program.type(item.inputs[0]).shape);
  copy_blocks(program, item, to, shards, strides, [&](int s) { return s * item.stacked; });
}

void assemble_part(const Program& program, const Item& item, UnitProgram& to) {
  const Mesh& mesh = program.meshes[item.mesh];
  const ArrayType& type = program.type(item.inputs[0]);
  const Strides strides = to.values[item.outputs[0]].strides;
  const auto offsets = cut_offsets(mesh, item, type.shape, strides, type.dtype);
  std::vector<int> shards;
  for (const std::int64_t shard : mesh.part_of(item.layout).distinct_shards()) {
    shards.push_back(static_cast<int>(shard) - mesh.first_shard);
  }
  copy_blocks(program, item, to, shards, strides, [&](int s) { return static_cast<std::int64_t>(nth(offsets, s)); });
}

}  // namespace

std::int64_t bytes_along(const ArrayType& block, int dim, const Strides& strides) {
  return block.shape[dim] * strides[static_cast<std::size_t>(dim)] * static_cast<std::int64_t>(size_of(block.dtype));
}

Ref one_behind_the_other(const Program& program, int mesh, Ref value, const ArrayType& type, int dim, UnitProgram& to) {
  ArrayType block = type;
  block.shape = block.shape.with(dim, block.shape[dim] / program.processes);
  bool is_so = true;
  for (int d = 0; d < dim; ++d) is_so = is_so && block.shape[d] == 1;
  if (is_so) return value;
  const Ref packed{to.new_value({block.dtype, block.shape.insert(0, program.processes), {}}, -1), -1};
  const Strides strides = contiguous_strides(type.shape);
  const Kernel* const copy = program.kernels.adopt(std::make_unique<CopyKernel>());
  Unit unit;
  unit.mesh = mesh;
  for (int p = 0; p < program.processes; ++p) {
    const int from =
        to.new_view(value.value, block, strides, p * bytes_along(block, dim, strides), to.values[value.value].pmap);
    const int part = to.new_view(packed.value, block, contiguous_strides(block.shape), p * block.nbytes(), -1);
    unit.calls.push_back({copy, nullptr, {{from, value.shard}}, {{part, -1}}, "copy"});
  }
  to.units.add(std::move(unit));
  return packed;
}

void add_assemble_units(const Program& program, const Item& item, UnitProgram& to) {
  if (write_through(program, item, to)) return;
  if (item.stacked >= 0) return stack_blocks(program, item, to);
  if (item.of_part) return assemble_part(program, item, to);
  add_assemble_whole_units(program, item, to);
}

Unit gather_unit(const Program& program, int mesh, std::vector<Ref> own, Ref to, const ArrayType& block,
                 std::int64_t blocks, int dim) {
  GatheredBlocks cut{.blocks = blocks, .row_bytes = size_of(block.dtype)};
  for (int d = 0; d < block.shape.rank(); ++d) {
    (d < dim ? cut.rows : cut.row_bytes) *= static_cast<std::size_t>(block.shape[d]);
  }
  const Kernel* const kernel = program.kernels.adopt(std::make_unique<GatherBlocks>(program.group, cut));
  Unit unit;
  unit.mesh = mesh;
  unit.on_caller = true;
  unit.gathers = true;
  unit.calls.push_back({kernel, nullptr, std::move(own), {to}, "gather_blocks"});
  return unit;
}

}  // namespace lockstep::compile
