#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "engine/compile/write_out/writer.h"
#include "engine/core/fold_tree.h"
#include "engine/core/lists.h"
#include "engine/ir/exchange.h"
#include "engine/ir/primitive.h"
#include "engine/ops/collective/dimension_axes.h"
#include "engine/ops/primitives.h"

// Sums over all shards of what every process has anyway: of a batch's weights, say, whose sum the backward pass waits for.
// Each process computes all shards' summands for itself and adds them up, by the kernels and in the order of the map, so
// that bits are the same; nobody waits for another process, and a map that was cut in two there is one.
namespace lockstep::compile {
namespace {

/// Of the sum; and of all that is read and computed for it, over all shards: more is worth a meeting.
constexpr std::int64_t most_results = 64;
constexpr std::int64_t most_elements = std::int64_t{1} << 16;
constexpr int most_items = 1024;

class KnownSums {
 public:
  explicit KnownSums(Program& program) : program_(program) {}

  void run() {
    IdVector<Item> before = std::exchange(program_.items, {});
    before_ = &before;
    find_awaited();
    definition_ = IdVector<int>(program_.values.size(), -1);
    is_replaced_ = IdVector<bool>(before.size(), false);
    for (int i = 0; i < before.size(); ++i) {
      if (!replace(i)) program_.items.add(before[i]);
      for (const int v : before[i].outputs) definition_[v] = i;
    }
    drop_unread();
  }

 private:
  /// What a summand is made of, in the shard: items, in order.
  struct Summand {
    std::vector<int> items;
    std::int64_t elements = 0;
  };

  const Item& item(int i) const { return (*before_)[i]; }
  const Mesh& mesh_of(const Item& it) const { return program_.meshes[it.mesh]; }

  /// Values that something in a map waits for: sums of others go with those that come behind it.
  void find_awaited() {
    is_awaited_ = IdVector<bool>(program_.values.size(), false);
    for (int i = before_->size(); i-- > 0;) {
      const Item& it = item(i);
      const bool is_read = std::ranges::any_of(it.outputs, [&](int v) { return is_awaited_[v]; });
      if (!is_read && it.pmap < 0 && !it.together && !is_collective(it)) continue;
      for (const int v : it.inputs) is_awaited_[v] = true;
    }
  }

  bool is_sum_over_all_shards(const Item& it) const {
    if (it.kind != Item::Kind::equation || !is_collective(it) || it.fence >= 0) return false;
    const ir::Collective& exchange = ir::exchanged_by(*it.primitive, it.attrs).collective;
    const Value& sum = program_.values[it.outputs[0]];
    const Value& operand = program_.values[it.inputs[0]];
    if (exchange.exchange != ir::Exchange::reduce || sum.pmap >= 0 || operand.pmap < 0) return false;
    if (!is_awaited_[it.outputs[0]] || sum.size() > most_results) return false;
    const bool is_widened = exchange.convert != nullptr && ir::accumulation_dtype(sum.type.dtype) != sum.type.dtype;
    const auto& axes = it.attrs.get<std::vector<std::string>>("axes");
    const auto is_summed = [&](const auto& axis) { return axis.size == 1 || std::ranges::count(axes, axis.name) != 0; };
    return !is_widened && mesh_of(it).shards > 1 && std::ranges::all_of(mesh_of(it).axes.axes(), is_summed);
  }

  /// Whether the item computes little, of its operands alone.
  static bool is_simple(const Item& it) {
    if (it.kind == Item::Kind::cut_in) return !it.of_part && it.stacked < 0 && it.fence < 0;
    if (it.kind != Item::Kind::equation || it.fence >= 0 || it.primitive == nullptr) return false;
    const ir::Traits& traits = it.primitive->traits;
    if (traits.collective || traits.effect || traits.draws || traits.loop) return false;
    if (it.primitive->collective.exchange != ir::Exchange::none) return false;
    return traits.pointwise || traits.loop_sum || traits.moves != ir::Moves::none ||
           it.primitive == &ops::primitives::fused();
  }

  /// Adds what gives `value` in a shard. False where it is not simple.
  bool collect(int value, int mesh, Summand& summand) const {
    if (program_.values[value].pmap < 0) return true;
    const int i = definition_[value];
    if (i < 0 || item(i).pmap != mesh || !is_simple(item(i))) return false;
    if (std::ranges::find(summand.items, i) != summand.items.end()) return true;
    for (const int v : item(i).outputs) summand.elements += program_.values[v].size();
    for (const int v : item(i).inputs) {
      if (!collect(v, mesh, summand)) return false;
    }
    summand.items.push_back(i);
    return summand.elements * program_.meshes[mesh].shards <= most_elements &&
           std::ssize(summand.items) * program_.meshes[mesh].shards <= most_items;
  }

  bool replace(int i) {
    const Item& sum = item(i);
    if (!is_sum_over_all_shards(sum)) return false;
    Summand summand;
    if (!collect(sum.inputs[0], sum.mesh, summand)) return false;
    const auto leaf = [&](std::int64_t shard, TreeNode) { return add_summand(sum, summand, static_cast<int>(shard)); };
    const auto combine = [&](int left, int right, TreeNode node) {
      return add_combined(sum, left, right, node.level == 0 ? sum.outputs[0] : new_value(sum.outputs[0]));
    };
    fold_tree<int>(0, mesh_of(sum).shards, leaf, combine);
    program_.items.list().back().collectives = {
        {ir::exchanged_by(*sum.primitive, sum.attrs).name, program_.type(sum.outputs[0]).nbytes()}};
    for (const int s : summand.items) is_replaced_[s] = true;
    return true;
  }

  /// Like another one, outside of maps.
  int new_value(int like) const {
    ArrayType type = program_.type(like);
    type.varying = {};
    return program_.new_value(type, -1);
  }

  int add_summand(const Item& sum, const Summand& summand, int shard) const {
    std::vector<std::pair<int, int>> copies;  // of values
    const auto copy_of = [&](int v) {
      const auto found = std::ranges::find(copies, v, &std::pair<int, int>::first);
      return found == copies.end() ? v : found->second;
    };
    for (const int i : summand.items) {
      Item it = item(i).kind == Item::Kind::cut_in ? block_of(item(i), shard) : item(i);
      it.mesh = -1;
      it.pmap = -1;
      for (int& v : it.inputs) v = copy_of(v);
      for (int& v : it.outputs) {
        const int copy = new_value(v);
        copies.emplace_back(std::exchange(v, copy), copy);
      }
      program_.items.add(std::move(it));
    }
    return copy_of(sum.inputs[0]);
  }

  /// What a shard sees of a value that enters the map.
  Item block_of(const Item& cut_in, int shard) const {
    const Shape& block = program_.type(cut_in.outputs[0]).shape;
    Dims start, limit;
    for (int d = 0; d < block.rank(); ++d) {
      start.push_back(mesh_of(cut_in).block(shard, nth(cut_in.layout, d)) * block[d]);
      limit.push_back(start.back() + block[d]);
    }
    const ir::Primitive& slice = ops::primitives::slice();
    Item it;
    it.op = slice.name;
    it.primitive = &slice;
    it.attrs = {{"start", start}, {"limit", limit}, {"strides", Dims(start.size(), 1)}};
    it.inputs = cut_in.inputs;
    it.outputs = cut_in.outputs;
    it.provenance = cut_in.provenance;
    return it;
  }

  int add_combined(const Item& sum, int left, int right, int result) const {
    const ir::Primitive& combine = ir::exchanged_by(*sum.primitive, sum.attrs).collective.combine();
    Item it;
    it.op = combine.name;
    it.primitive = &combine;
    it.pointwise = combine.traits.pointwise;
    it.inputs = {left, right};
    it.outputs = {result};
    it.provenance = sum.provenance;
    program_.items.add(std::move(it));
    return result;
  }

  /// What the summands were made of in the map, where nothing else reads it.
  void drop_unread() {
    IdVector<int> readers(program_.values.size(), 0);
    for (const Item& it : program_.items) {
      for (const int v : it.inputs) ++readers[v];
    }
    for (const int v : program_.outputs) ++readers[v];
    for (const auto& fence : program_.fences) {
      for (const int v : fence) ++readers[v];
    }
    IdVector<bool> is_dropped(program_.values.size(), false);
    for (int i = before_->size(); i-- > 0;) {
      const Item& it = item(i);
      if (!is_replaced_[i] || std::ranges::any_of(it.outputs, [&](int v) { return readers[v] > 0; })) continue;
      for (const int v : it.outputs) is_dropped[v] = true;
      for (const int v : it.inputs) --readers[v];
    }
    std::erase_if(program_.items.list(),
                  [&](const Item& it) { return !it.outputs.empty() && is_dropped[it.outputs[0]]; });
  }

  Program& program_;
  const IdVector<Item>* before_ = nullptr;
  IdVector<bool> is_awaited_;   // by value
  IdVector<int> definition_;    // of values, by items so far
  IdVector<bool> is_replaced_;  // by item: whether a summand is made of it
};

}  // namespace

void add_known_sums(Program& program) { KnownSums(program).run(); }

}  // namespace lockstep::compile
