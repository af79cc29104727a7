#include <algorithm>
#include <utility>

#include <lockstep/error.h>

#include "engine/compile/collectives/replica_groups.h"
#include "engine/compile/make_units.h"
#include "engine/compile/memory/memory_plan.h"
#include "engine/core/fold_tree.h"
#include "engine/core/lists.h"
#include "engine/executable/copy_kernel.h"
#include "engine/executable/process_kernels.h"
#include "engine/ir/exchange.h"
#include "engine/ops/collective/dimension_axes.h"

namespace lockstep::compile {
namespace {

const ir::Primitive& exchanged_by(const Item& item) { return ir::exchanged_by(*item.primitive, item.attrs); }

/// Of a value's way out of a map, too, which is no op.
ir::Collective exchange_of(const Item& item) {
  return item.primitive == nullptr ? ir::Collective{} : exchanged_by(item).collective;
}

std::vector<std::string> reduced_axes(const Item& item) {
  if (item.attrs.has("axes")) return item.attrs.get<std::vector<std::string>>("axes");
  return {item.attrs.get<std::string>("axis")};
}

/// Lowers one collective.
class CollectiveWriter {
 public:
  CollectiveWriter(const Program& program, const Item& item, UnitProgram& to)
      : program_(program),
        item_(item),
        to_(to),
        exchange_(exchange_of(item)),
        mesh_(program.meshes[item.mesh]),
        copy_(program.kernels.adopt(std::make_unique<CopyKernel>())),
        operand_(item.inputs[0]),
        type_(program.type(item.inputs[0])) {
    type_.varying = {};
  }

  void run() {
    std::vector<ReplicaGroup> groups = groups_of(mesh_, reduced_axes(item_));
    if (to_.values[item_.outputs[0]].pmap < 0) keep_one(groups);
    if (gathers_blocks(groups)) return gather_blocks(groups[0]);
    find_leaves(groups);
    write(groups);
    to_.units.back().collectives = {{exchanged_by(item_).name, type_.nbytes()}};
  }

  /// Joins the shards' blocks into the one value outside of the map.
  void assemble() {
    std::vector<ReplicaGroup> all(1);
    for (int shard = 0; shard < mesh_.shards; ++shard) all[0].push_back(shard);
    find_leaves(all);
    const int whole = item_.outputs[0];
    const StoredValue target = to_.values[whole];
    const int width = static_cast<int>(size_of(type_.dtype));
    Unit unit = new_unit();
    for (int shard = 0; shard < mesh_.shards; ++shard) {
      if (!represents(mesh_, item_.layout, shard)) continue;
      std::int64_t elements = 0;
      for (std::size_t d = 0; d < item_.layout.size(); ++d) {
        elements += mesh_.block(shard, item_.layout[d]) * type_.shape[static_cast<int>(d)] * target.strides[d];
      }
      const int part = to_.new_view(whole, type_, target.strides, elements * width, -1);
      add_copy(unit, leaf(shard), {part, -1});
    }
    to_.units.add(std::move(unit));
  }

 private:
  void write(const std::vector<ReplicaGroup>& groups) {
    switch (exchange_.exchange) {
      case ir::Exchange::reduce:
        return reduce_all(groups, std::vector<int>(groups.size(), item_.outputs[0]));
      case ir::Exchange::reduce_scatter:
        return scatter(groups);
      case ir::Exchange::all_to_all:
        return exchange_blocks(groups);
      case ir::Exchange::permute:
        return permute(groups);
      case ir::Exchange::gather:
        return gather(groups);
      case ir::Exchange::index:
      case ir::Exchange::none:
        break;
    }
    throw IrError("compile: " + item_.op + " exchanges nothing");
  }

  Unit new_unit() const {
    Unit unit;
    unit.mesh = item_.mesh;
    return unit;
  }

  bool is_local(int shard) const {
    return shard >= mesh_.first_shard && shard < mesh_.first_shard + mesh_.local_shards;
  }
  int process_of(int shard) const { return shard / mesh_.local_shards; }
  int local(int shard) const { return shard - mesh_.first_shard; }
  bool operand_varies() const { return to_.values[operand_].pmap >= 0; }

  void add_copy(Unit& unit, Ref from, Ref to) const { unit.calls.push_back({copy_, nullptr, {from}, {to}, "copy"}); }

  /// Every group has the same result: one of them is enough, at best one that this process has whole.
  void keep_one(std::vector<ReplicaGroup>& groups) const {
    const auto here = std::ranges::find_if(groups, [&](const ReplicaGroup& group) { return !crosses(group); });
    groups.assign(1, ReplicaGroup(here == groups.end() ? groups.front() : *here));
  }

  /// Whether the reduction is the tree over all shards, cut at the processes.
  bool is_whole(const std::vector<ReplicaGroup>& groups) const {
    return static_cast<int>(groups[0].size()) == mesh_.shards && exchange_.exchange == ir::Exchange::reduce;
  }

  /// Whether each process adds up its members of every group, and gets its blocks of the sum alone.
  bool scatters_blocks(const std::vector<ReplicaGroup>& groups) const {
    return exchange_.exchange == ir::Exchange::reduce_scatter && program_.processes > 1 && operand_varies() &&
           has_equal_parts(groups, mesh_, program_.processes);
  }

  /// Whether one result is made of blocks of all processes, which lie where they can be sent from.
  bool gathers_blocks(const std::vector<ReplicaGroup>& groups) const {
    const StoredValue& result = to_.values[item_.outputs[0]];
    if (exchange_.exchange != ir::Exchange::gather || program_.processes == 1 || !operand_varies()) return false;
    return result.pmap < 0 && result.is_contiguous() && to_.values[operand_].is_contiguous() &&
           has_equal_parts(groups, mesh_, program_.processes);
  }

  /// Where each shard's operand is read: in place, or, if it may be another process's, from a gathered copy.
  void find_leaves(const std::vector<ReplicaGroup>& groups) {
    const bool all_local = std::all_of(groups.begin(), groups.end(), [&](const ReplicaGroup& group) {
      return std::all_of(group.begin(), group.end(), [&](int s) { return process_of(s) == process_of(group[0]); });
    });
    if (program_.processes == 1 || all_local || is_whole(groups) || !operand_varies() || scatters_blocks(groups))
      return;
    const Strides strides = contiguous_strides(type_.shape);
    const int stacked = to_.new_value({type_.dtype, type_.shape.insert(0, mesh_.local_shards), {}}, -1);
    gathered_ = to_.new_value({type_.dtype, type_.shape.insert(0, mesh_.shards), {}}, -1);
    Unit stack = new_unit();
    for (int s = 0; s < mesh_.local_shards; ++s) {
      add_copy(stack, {operand_, s}, {to_.new_view(stacked, type_, strides, s * type_.nbytes(), -1), -1});
    }
    to_.units.add(std::move(stack));
    Unit exchange = new_unit();
    exchange.on_caller = true;
    exchange.calls.push_back({program_.kernels.adopt(std::make_unique<GatherFromProcesses>(program_.group)),
                              nullptr,
                              {{stacked, -1}},
                              {{gathered_, -1}},
                              "gather_from_processes"});
    to_.units.add(std::move(exchange));
  }

  Ref leaf(int shard) {
    if (!operand_varies()) return {operand_, -1};
    if (gathered_ < 0) return {operand_, local(shard)};
    return {to_.new_view(gathered_, type_, contiguous_strides(type_.shape), shard * type_.nbytes(), -1), -1};
  }

  // ---- reductions ------------------------------------------------------------------------------------------------

  DType sum_dtype() const { return exchange_.convert == nullptr ? type_.dtype : ir::accumulation_dtype(type_.dtype); }
  ArrayType sum_type() const { return {sum_dtype(), type_.shape, {}}; }
  bool is_widened() const { return sum_dtype() != type_.dtype; }

  /// A call of a pointwise kernel on whole values, or on tiles of them where the unit is cut.
  void add_pointwise(Unit& unit, const std::string& op, const Attrs& attrs, std::vector<Ref> inputs, Ref output) {
    const bool tiled = unit.tiled > 0;
    const auto kernel = [&](std::int64_t elements) {
      std::vector<ArrayType> types;
      for (const Ref& ref : inputs) types.push_back(to_.values[ref.value].type);
      types.push_back(to_.values[output.value].type);
      if (tiled) {
        for (ArrayType& type : types) type.shape = Shape{elements};
      }
      const std::span<const ArrayType> all(types);
      return program_.kernels.get(op, attrs, all.first(inputs.size()), all.last(1));
    };
    const std::int64_t rest = tiled ? unit.tiled % tile_elements : 0;
    unit.calls.push_back({kernel(tile_elements), rest == 0 ? nullptr : kernel(rest), std::move(inputs), {output}, op});
  }

  /// A partial sum at a node of the tree, kept apart from its sibling's.
  Ref temporary(TreeNode node) {
    const auto slot = static_cast<std::size_t>(2 * node.level + node.side);
    while (temporaries_.size() <= slot) temporaries_.push_back(-1);
    if (temporaries_[slot] < 0) temporaries_[slot] = to_.new_value(sum_type(), -1);
    return {temporaries_[slot], -1};
  }

  Ref sum_leaf(Unit& unit, int shard, TreeNode node) {
    const Ref source = leaf(shard);
    if (!is_widened()) return source;
    const Ref widened = temporary(node);
    add_pointwise(unit, exchange_.convert().name, Attrs{{"dtype", sum_dtype()}}, {source}, widened);
    return widened;
  }

  /// The members from `first` on, along `extents`: each axis is a tree of the next one's, so the last is summed first. The
  /// sum is in `target`, unless it is of one member.
  Ref fold(Unit& unit, const ReplicaGroup& group, std::span<const std::int64_t> extents, std::size_t first, Ref target,
           TreeNode root = {}) {
    std::size_t members = 1;  // of each leaf
    for (std::int64_t e : extents.subspan(1)) members *= static_cast<std::size_t>(e);
    const auto leaf = [&](std::int64_t i, TreeNode node) {
      const std::size_t member = first + static_cast<std::size_t>(i) * members;
      if (extents.size() == 1) return sum_leaf(unit, group[member], node);
      return fold(unit, group, extents.subspan(1), member, target, node);
    };
    const auto combine = [&](Ref left, Ref right, TreeNode node) {
      const Ref result = node.level == 0 ? target : temporary(node);
      add_pointwise(unit, exchange_.combine().name, {}, {left, right}, result);
      return result;
    };
    return fold_tree<Ref>(0, extents[0], leaf, combine, root);
  }

  Unit new_reduction() const {
    Unit unit = new_unit();
    if (type_.size() >= tile_elements) unit.tiled = type_.size();
    return unit;
  }

  /// The members of `group` whose operands this process adds up, and the axes they stand along.
  std::pair<ReplicaGroup, std::vector<std::int64_t>> local_part(const ReplicaGroup& group) const {
    std::vector<std::int64_t> extents = extents_of(mesh_, reduced_axes(item_));
    if (program_.processes == 1 || gathered_ >= 0 || !crosses(group)) return {group, extents};
    ReplicaGroup here;
    for (int shard : group) {
      if (is_local(shard)) here.push_back(shard);
    }
    return {here, {static_cast<std::int64_t>(here.size())}};
  }
  bool crosses(const ReplicaGroup& group) const {
    return !std::all_of(group.begin(), group.end(), [&](int s) { return is_local(s); });
  }

  /// One unit for all groups: a root has one writer.
  void reduce_all(const std::vector<ReplicaGroup>& groups, const std::vector<int>& results) {
    Unit unit = new_reduction();
    for (std::size_t g = 0; g < groups.size(); ++g) reduce(unit, groups[g], results[g]);
    if (!unit.calls.empty()) to_.units.add(std::move(unit));
  }

  void reduce(Unit& unit, const ReplicaGroup& group, int result) {
    const std::vector<Ref> targets = targets_of(group, result);
    if (targets.empty()) return;
    const auto [members, extents] = local_part(group);
    const bool across = program_.processes > 1 && gathered_ < 0 && crosses(group);
    Ref sum = is_widened() ? Ref{to_.new_value(sum_type(), -1), -1} : targets[0];
    if (across) {
      const Ref total = std::exchange(sum, sum_of_local(unit, members, extents));
      if (!unit.calls.empty()) to_.units.add(std::exchange(unit, new_reduction()));
      to_.units.add(fold_unit(item_.mesh, exchange_.combine(), sum, total));
      sum = total;
    } else {
      const Ref node = fold(unit, members, extents, 0, sum);
      if (node.value != sum.value || node.shard != sum.shard) add_flat_copy(unit, node, sum);
    }
    if (is_widened()) {
      add_pointwise(unit, exchange_.convert().name, Attrs{{"dtype", type_.dtype}}, {sum}, targets[0]);
    }
    for (std::size_t i = 1; i < targets.size(); ++i) add_flat_copy(unit, targets[0], targets[i]);
  }

  /// What this process gives to a sum over processes, in one piece: of one member, what that has.
  Ref sum_of_local(Unit& unit, const ReplicaGroup& members, std::span<const std::int64_t> extents) {
    if (members.size() == 1 && !is_widened()) {
      const Ref only = leaf(members[0]);
      if (to_.values[only.value].is_contiguous()) return only;
    }
    const Ref sum{to_.new_value(sum_type(), -1), -1};
    const Ref node = fold(unit, members, extents, 0, sum);
    if (node.value != sum.value || node.shard != sum.shard) add_flat_copy(unit, node, sum);
    return sum;
  }

  /// Where this process keeps the group's result.
  std::vector<Ref> targets_of(const ReplicaGroup& group, int result) const {
    if (to_.values[result].pmap < 0) return {{result, -1}};
    std::vector<Ref> targets;
    for (int shard : group) {
      if (is_local(shard)) targets.push_back({result, local(shard)});
    }
    return targets;
  }

  void add_flat_copy(Unit& unit, Ref from, Ref to) const {
    unit.calls.push_back({copy_, unit.tiled > 0 ? copy_ : nullptr, {from}, {to}, "copy"});
  }

  // ---- moves -----------------------------------------------------------------------------------------------------

  int dim() const {
    return normalize_axis(item_.attrs.get<std::int64_t>("dim"), type_.shape.rank(), exchanged_by(item_).name);
  }

  void scatter(const std::vector<ReplicaGroup>& all_groups) {
    if (scatters_blocks(all_groups)) {
      Unit unit = new_unit();
      for (const ReplicaGroup& group : all_groups) scatter_blocks(group, unit);
      to_.units.add(std::move(unit));
      return;
    }
    std::vector<ReplicaGroup> groups;
    std::vector<int> totals;
    for (const ReplicaGroup& group : all_groups) {
      if (std::none_of(group.begin(), group.end(), [&](int s) { return is_local(s); })) continue;
      groups.push_back(group);
      totals.push_back(to_.new_value(type_, -1));
    }
    reduce_all(groups, totals);
    Unit unit = new_unit();
    for (std::size_t g = 0; g < groups.size(); ++g) {
      for (std::size_t i = 0; i < groups[g].size(); ++i) {
        if (is_local(groups[g][i])) add_block_copy(unit, totals[g], groups[g], i);
      }
    }
    to_.units.add(std::move(unit));
  }

  /// This process's members of a group are added up; their blocks of the whole sum come from all processes.
  void scatter_blocks(const ReplicaGroup& group, Unit& unit) {
    const auto [members, extents] = local_part(group);
    const auto processes = static_cast<std::int64_t>(program_.processes);
    Unit sums = new_reduction();
    const Ref sum = sum_of_local(sums, members, extents);
    if (!sums.calls.empty()) to_.units.add(std::move(sums));
    ArrayType blocks = sum_type();
    blocks.shape = blocks.shape.with(dim(), blocks.shape[dim()] / processes);
    const Ref total{to_.new_value(blocks, -1), -1};
    const Ref packed = one_behind_the_other(program_, item_.mesh, sum, sum_type(), dim(), to_);
    to_.units.add(fold_blocks_unit(item_.mesh, exchange_.combine(), packed, total));
    ArrayType block = blocks;
    block.shape = block.shape.with(dim(), block.shape[dim()] / static_cast<std::int64_t>(members.size()));
    const Strides strides = contiguous_strides(blocks.shape);
    for (std::size_t i = 0; i < members.size(); ++i) {
      const std::int64_t offset = static_cast<std::int64_t>(i) * bytes_along(block, dim(), strides);
      const Ref own{to_.new_view(total.value, block, strides, offset, -1), -1};
      const Ref target{item_.outputs[0], local(members[i])};
      if (is_widened()) {
        add_pointwise(unit, exchange_.convert().name, Attrs{{"dtype", type_.dtype}}, {own}, target);
      } else {
        add_copy(unit, own, target);
      }
    }
  }

  /// Member i's block of the group's sum.
  void add_block_copy(Unit& unit, int total, const ReplicaGroup& group, std::size_t i) {
    ArrayType block = type_;
    block.shape = block.shape.with(dim(), block.shape[dim()] / static_cast<std::int64_t>(group.size()));
    const Strides strides = contiguous_strides(type_.shape);
    const std::int64_t step =
        block.shape[dim()] * strides[static_cast<std::size_t>(dim())] * static_cast<std::int64_t>(size_of(type_.dtype));
    const int part = to_.new_view(total, block, strides, static_cast<std::int64_t>(i) * step, -1);
    add_copy(unit, {part, -1}, {item_.outputs[0], local(group[i])});
  }

  void gather_blocks(const ReplicaGroup& group) {
    std::vector<Ref> blocks;
    for (const int shard : group) {
      if (is_local(shard)) blocks.push_back({operand_, local(shard)});
    }
    to_.units.add(gather_unit(program_, item_.mesh, std::move(blocks), {item_.outputs[0], -1}, type_,
                              static_cast<std::int64_t>(group.size()), dim()));
    to_.units.back().collectives = {{exchanged_by(item_).name, type_.nbytes()}};
  }

  void gather(const std::vector<ReplicaGroup>& groups) {
    const int result = item_.outputs[0];
    const bool once = to_.values[result].pmap < 0;
    Unit unit = new_unit();
    for (const ReplicaGroup& group : groups) {
      if (once) {
        gather_into(unit, group, {result, -1});
        continue;
      }
      for (int shard : group) {
        if (is_local(shard)) gather_into(unit, group, {result, local(shard)});
      }
    }
    to_.units.add(std::move(unit));
  }

  void gather_into(Unit& unit, const ReplicaGroup& group, Ref target) {
    const Strides strides = to_.values[target.value].strides;
    const std::int64_t step =
        type_.shape[dim()] * strides[static_cast<std::size_t>(dim())] * static_cast<std::int64_t>(size_of(type_.dtype));
    for (std::size_t i = 0; i < group.size(); ++i) {
      const int part = to_.new_view(target.value, type_, strides, static_cast<std::int64_t>(i) * step,
                                    to_.values[target.value].pmap);
      add_copy(unit, leaf(group[i]), {part, target.shard});
    }
  }

  /// Each member's result is made of its block of every member's operand.
  void exchange_blocks(const std::vector<ReplicaGroup>& groups) {
    Unit unit = new_unit();
    for (const ReplicaGroup& group : groups) {
      for (std::size_t i = 0; i < group.size(); ++i) {
        if (is_local(group[i])) collect_blocks(unit, group, i);
      }
    }
    to_.units.add(std::move(unit));
  }

  void collect_blocks(Unit& unit, const ReplicaGroup& group, std::size_t receiver) {
    const auto size = static_cast<std::int64_t>(group.size());
    const auto attrs = ir::AllToAll::of(item_.attrs);
    const int split = static_cast<int>(attrs.split), concat = static_cast<int>(attrs.concat);
    ArrayType block = type_;
    block.shape = block.shape.with(split, block.shape[split] / size);
    const auto step = [&](int dim, const Strides& strides) {
      return block.shape[dim] * strides[static_cast<std::size_t>(dim)] *
             static_cast<std::int64_t>(size_of(type_.dtype));
    };
    const int result = item_.outputs[0];
    const Strides into = to_.values[result].strides;
    for (std::size_t sender = 0; sender < group.size(); ++sender) {
      const Ref source = leaf(group[sender]);
      const StoredValue operand = to_.values[source.value];
      const int from = to_.new_view(source.value, block, operand.strides,
                                    static_cast<std::int64_t>(receiver) * step(split, operand.strides), operand.pmap);
      const int to = to_.new_view(result, block, into, static_cast<std::int64_t>(sender) * step(concat, into),
                                  to_.values[result].pmap);
      add_copy(unit, {from, source.shard}, {to, local(group[receiver])});
    }
  }

  void permute(const std::vector<ReplicaGroup>& groups) {
    Unit unit = new_unit();
    const auto& pairs = item_.attrs.get<std::vector<std::vector<std::int64_t>>>("pairs");
    const Kernel* zeros = program_.kernels.adopt(std::make_unique<ZeroKernel>());
    for (const ReplicaGroup& group : groups) {
      for (std::size_t i = 0; i < group.size(); ++i) {
        if (!is_local(group[i])) continue;
        const Ref target{item_.outputs[0], local(group[i])};
        const auto pair = std::find_if(pairs.begin(), pairs.end(),
                                       [&](const auto& p) { return p[1] == static_cast<std::int64_t>(i); });
        if (pair != pairs.end()) {
          add_copy(unit, leaf(group[static_cast<std::size_t>((*pair)[0])]), target);
        } else {
          // Zeros wait for the exchange, or processes would not agree on the order of this exchange and the next.
          unit.calls.push_back({zeros, nullptr, {leaf(group[i])}, {target}, "zeros"});
        }
      }
    }
    to_.units.add(std::move(unit));
  }

  const Program& program_;
  const Item& item_;
  UnitProgram& to_;
  const ir::Collective exchange_;
  const Mesh mesh_;
  const Kernel* copy_;
  int operand_;
  ArrayType type_;
  int gathered_ = -1;
  std::vector<int> temporaries_;
};

}  // namespace

bool is_collective(const Item& item) {
  return item.kind == Item::Kind::equation && ir::communicates(exchanged_by(item).collective.exchange);
}

void add_collective_units(const Program& program, const Item& item, UnitProgram& to) {
  const bool has_sender = exchanged_by(item).collective.exchange != ir::Exchange::permute ||
                          !item.attrs.get<std::vector<std::vector<std::int64_t>>>("pairs").empty();
  if (program.meshes[item.mesh].shards > 1 || !has_sender) {
    CollectiveWriter(program, item, to).run();
    return;
  }
  // Of one shard every collective is the identity; it still counts as one.
  const StoredValue operand = to.values[item.inputs[0]];
  StoredValue& result = to.values[item.outputs[0]];
  result.root = operand.root;
  result.offset = operand.offset;
  result.cut = operand.cut;
  Unit counted;
  counted.mesh = item.mesh;
  counted.collectives = {{exchanged_by(item).name, operand.type.nbytes()}};
  to.units.add(std::move(counted));
}

void add_assemble_whole_units(const Program& program, const Item& item, UnitProgram& to) {
  CollectiveWriter(program, item, to).assemble();
}

}  // namespace lockstep::compile
