#include "engine/compile/memory/place_values.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "engine/compile/memory/memory_plan.h"
#include "engine/compile/program.h"
#include "engine/ir/def_use.h"

// Where every root value lies: a result's buffer, the arena, a shard's block, or a device's scratch.
namespace lockstep::compile {
namespace {

enum class MemoryPlace : std::uint8_t { none, fixed, result, window, arena, shard, scratch };

struct Root {
  MemoryPlace place = MemoryPlace::none;
  bool per_tile = false;
  bool is_output = false;
  int block = -1;
};

/// Memory that one root, or several that follow each other in place, occupy.
struct Allocation {
  MemoryPlace place = MemoryPlace::none;
  UnitTime domain;  // scratch: that of the units which use it
  Interval interval;
};

class Placer {
 public:
  Placer(const Program& program, const UnitProgram& units, const Schedule& schedule)
      : program_(program),
        units_(units),
        schedule_(schedule),
        roots_(units.values.size()),
        chains_(units.values.size()) {}

  Placements run() {
    collect();
    order_units();
    for (int r = 0; r < roots_.size(); ++r) classify(r);
    choose_donors();
    extend_results();
    for (int u : order_) {
      make_blocks(u);
      make_scratch_block(u);
    }
    plan();
    return std::move(result_);
  }

 private:
  const Unit& unit(int u) const { return units_.units[u]; }
  const UnitTime& time_of(int u) const { return schedule_.time[u]; }
  Root& root(int r) { return roots_[r]; }
  const StoredValue& value(int v) const { return units_.values[v]; }
  int writer_of(int r) const { return chains_.definition(r); }
  const std::vector<int>& readers_of(int r) const { return chains_.uses(r); }

  void collect() {
    for (int u = 0; u < units_.units.size(); ++u) {
      for (int r : unit(u).writes) chains_.define(r, u);
      for (int r : unit(u).reads) chains_.use(r, u);
    }
    result_.result_of_root = IdVector<int>(roots_.size(), -1);
    for (int i = 0; i < units_.outputs.size(); ++i) {
      const int r = root_of_result(i);
      root(r).is_output = true;
      int& result = result_.result_of_root[r];
      if (result < 0) result = i;
    }
  }

  int root_of_result(int i) const { return units_.root(units_.outputs[i]); }
  /// Whether the result has a root that is no earlier result's.
  bool has_own_root(int i) {
    const int r = root_of_result(i);
    return root(r).place == MemoryPlace::result && result_.result_of_root[r] == i;
  }

  /// Times: units one after the other by step.
  void order_units() {
    time_.resize(units_.units.size());
    for (const StepUnits& step : schedule_.steps) {
      step_begin_.add(std::ssize(order_));
      for (int u : step.units) {
        time_[u] = std::ssize(order_);
        order_.push_back(u);
      }
      step_end_.add(std::ssize(order_) - 1);
    }
  }

  void classify(int r) {
    const StoredValue& stored = value(r);
    Root& it = root(r);
    if (stored.root != r) return;
    if (stored.memory != Memory::own) {
      it.place = MemoryPlace::fixed;
      return;
    }
    const int w = writer_of(r);
    if (w < 0) return;
    if (stored.in_window >= 0) {
      it.place = MemoryPlace::window;
      return;
    }
    if (it.is_output) {
      it.place = MemoryPlace::result;
      return;
    }
    const Unit& writer = unit(w);
    if (writer.together) {
      it.place = MemoryPlace::arena;
      return;
    }
    const bool stays = std::ranges::all_of(
        readers_of(r), [&](int u) { return time_of(u) == time_of(w) && (u == w || !may_move(writer)); });
    const bool waits = stored.pmap >= 0 && !has_shard_alone(stored) && is_read_behind_shards(r);
    if (stored.pmap != writer.pmap || !stays || waits) {
      it.place = stored.pmap >= 0 ? MemoryPlace::shard : MemoryPlace::arena;
    } else {
      it.place = has_shard_alone(stored) ? MemoryPlace::shard : MemoryPlace::scratch;
      // Behind the shards readers do not go tile by tile along with it.
      const bool is_alone = std::ranges::all_of(readers_of(r), [&](int u) { return u == w; });
      it.per_tile = writer.tiled > 0 && (writer.behind_shards < 0 || is_alone);
    }
  }

  /// Whether it may run on another device than what stands before or behind it in its group: where its last shard does.
  bool may_move(const Unit& it) const { return it.behind_shards >= 0 && program_.meshes[it.behind_shards].devices > 1; }

  bool is_read_behind_shards(int r) const {
    return std::ranges::any_of(readers_of(r), [&](int u) { return unit(u).behind_shards >= 0; });
  }
  /// Whether a reader of one group waits for shards for which `u` runs before.
  bool waits_for_others(int reader, int u) const { return unit(reader).behind_shards >= 0 && unit(u).pmap >= 0; }

  /// Whether each device has but one shard, whose block then serves as its scratch too: one plan packs closer than two.
  bool has_shard_alone(const StoredValue& stored) const {
    if (stored.pmap < 0) return false;
    const Mesh& mesh = program_.meshes[stored.pmap];
    return mesh.local_shards == mesh.devices;
  }

  // ---- donation --------------------------------------------------------------------------------------------------

  /// Whether nobody reads `r` any more when unit `u` writes a value of the same type: `u` itself may, in place.
  bool is_dead_for(int r, int u, const StoredValue& written) {
    for (int reader : readers_of(r)) {
      if (time_of(reader).step < time_of(u).step) continue;
      if (time_of(reader) != time_of(u) || reader > u || waits_for_others(reader, u)) return false;
      if (unit(u).pmap >= 0 && !reads_own_block(unit(reader), r, written)) return false;
      if (reader == u && !is_read_in_place(unit(u), r, written.root)) return false;
    }
    return true;
  }

  /// Whether a region's unit reads of argument `r` only the block that its shard writes of `written`.
  bool reads_own_block(const Unit& reader, int r, const StoredValue& written) const {
    for (const UnitCall& call : reader.calls) {
      for (const Ref& ref : call.inputs) {
        const StoredValue& read = value(ref.value);
        if (read.root != r) continue;
        if (read.cut < 0 || written.cut < 0 || read.offset != 0 || !read.is_contiguous()) return false;
        if (units_.cuts[read.cut] != units_.cuts[written.cut]) return false;
      }
    }
    return true;
  }

  /// Which output of a call is root `written`, or -1.
  int output_of(const UnitCall& call, int written) const {
    for (std::size_t k = 0; k < call.outputs.size(); ++k) {
      if (units_.root(call.outputs[k].value) == written) return static_cast<int>(k);
    }
    return -1;
  }

  /// Whether a unit's only call, or all that are parts of one, may write root `written` where it reads root `r`.
  bool is_read_in_place(const Unit& it, int r, int written) const {
    if (it.calls.size() != 1 && !it.in_parts) return false;
    return std::ranges::all_of(it.calls, [&](const UnitCall& call) { return is_read_in_place(call, r, written); });
  }

  bool is_read_in_place(const UnitCall& call, int r, int written) const {
    const int at = output_of(call, written);
    if (at < 0) return false;
    const auto index = static_cast<std::size_t>(at);
    const StoredValue& output = value(call.outputs[index].value);
    for (std::size_t k = 0; k < call.inputs.size(); ++k) {
      const StoredValue& input = value(call.inputs[k].value);
      if (input.root != r) continue;
      if (input.offset != 0 || !input.is_contiguous() || input.type.dtype != output.type.dtype ||
          input.nbytes() != output.nbytes() || !call.kernel->may_share(static_cast<int>(k), at) ||
          (call.rest_kernel != nullptr && !call.rest_kernel->may_share(static_cast<int>(k), at))) {
        return false;
      }
    }
    return true;
  }

  void choose_donors() {
    result_.donors = IdVector<int>(units_.outputs.size(), -1);
    std::vector<int> results;
    for (int i = 0; i < units_.outputs.size(); ++i) {
      if (has_own_root(i)) results.push_back(i);
    }
    std::ranges::stable_sort(results, [&](int a, int b) { return written_at(a) < written_at(b); });
    IdVector<bool> taken(program_.arguments.size(), false);
    for (int i : results) {
      const int donor = best_donor(i, taken);
      result_.donors[i] = donor;
      if (donor >= 0) taken[donor] = true;
    }
  }

  std::int64_t written_at(int result) const { return time_[writer_of(root_of_result(result))]; }

  /// The argument of the result's type that is read last before the result is written.
  int best_donor(int result, const IdVector<bool>& taken) {
    const int r = root_of_result(result);
    const StoredValue& written = written_value(r);
    int best = -1;
    std::int64_t best_time = -2;
    for (int a = 0; a < program_.arguments.size(); ++a) {
      const int argument = program_.arguments[a];
      const bool allowed = program_.allowed_donors.empty() || program_.allowed_donors[result] == a;
      if (!allowed || taken[a] || root(argument).is_output || value(argument).type.dtype != value(r).type.dtype ||
          value(argument).nbytes() != value(r).nbytes() || !is_dead_for(argument, writer_of(r), written)) {
        continue;
      }
      const std::vector<int>& readers = readers_of(argument);
      const std::int64_t time = readers.empty() ? -1 : time_[readers.back()];
      if (time > best_time) {
        best = a;
        best_time = time;
      }
    }
    return best;
  }

  /// The value through which root `r` is written: with the cut, where shards write their blocks of it.
  const StoredValue& written_value(int r) const {
    for (const UnitCall& call : unit(writer_of(r)).calls) {
      for (const Ref& ref : call.outputs) {
        if (units_.root(ref.value) == r) return value(ref.value);
      }
    }
    return value(r);
  }

  /// What dies where a result is written over it lies in the result's memory from the start, so far back as an argument
  /// that may lend that memory is dead.
  void extend_results() {
    for (int i = 0; i < units_.outputs.size(); ++i) {
      int r = root_of_result(i);
      if (!has_own_root(i) || unit(writer_of(r)).pmap >= 0) continue;
      const int donor = result_.donors[i];
      const auto may_give = [&](int a) {
        const Root& operand = root(a);
        if ((operand.place != MemoryPlace::arena && operand.place != MemoryPlace::scratch) || operand.per_tile)
          return false;
        const int writer = writer_of(a);
        return !unit(writer).together && unit(writer).pmap < 0 &&
               (donor < 0 || is_dead_for(program_.arguments[donor], writer, written_value(a)));
      };
      while ((r = operand_in_place(r, writer_of(r), may_give)) >= 0) {
        root(r).place = MemoryPlace::result;
        result_.result_of_root[r] = i;
      }
    }
  }

  // ---- blocks ----------------------------------------------------------------------------------------------------

  bool is_planned(MemoryPlace place) const {
    return place == MemoryPlace::arena || place == MemoryPlace::shard || place == MemoryPlace::scratch;
  }

  void make_blocks(int u) {
    std::vector<int> given;  // blocks of operands that a result has taken
    for (int r : unit(u).writes) {
      Root& it = root(r);
      if (!is_planned(it.place)) continue;
      const Interval wanted = interval_of(r);
      const int shared = block_in_place(r, u, given);
      if (shared >= 0) {
        given.push_back(shared);
        it.block = shared;
        Interval& interval = blocks_[shared].interval;
        interval.last = std::max(interval.last, wanted.last);
        continue;
      }
      Allocation block{it.place, {}, wanted};
      if (it.place == MemoryPlace::scratch) block.domain = time_of(u);
      it.block = blocks_.add(block);
    }
  }

  /// Its kernels' own scratch, dead behind it.
  void make_scratch_block(int u) {
    const std::size_t bytes = kernel_scratch(unit(u));
    if (bytes == 0) return;
    scratch_of_.emplace_back(u, blocks_.add({MemoryPlace::scratch, time_of(u), {bytes, time_[u], time_[u]}}));
  }

  /// A dying operand's block that unit `u` may write `r` into, or -1. Not one of those given away.
  int block_in_place(int r, int u, const std::vector<int>& given) {
    const int a = operand_in_place(r, u, [&](int operand_root) {
      const Root& operand = root(operand_root);
      return operand.place == root(r).place && operand.per_tile == root(r).per_tile && operand.block >= 0 &&
             std::find(given.begin(), given.end(), operand.block) == given.end();
    });
    return a < 0 ? -1 : root(a).block;
  }

  /// A dying operand that may give its memory, and into which unit `u` may write `r`, or -1.
  template <class MayGive>
  int operand_in_place(int r, int u, MayGive may_give) {
    const Unit& it = unit(u);
    if (it.calls.size() != 1 && !it.in_parts) return -1;
    const int at = output_of(it.calls[0], r);
    if (at < 0) return -1;
    const StoredValue& output = value(it.calls[0].outputs[static_cast<std::size_t>(at)].value);
    if (output.cut >= 0 || output.offset != 0) return -1;
    for (const Ref& ref : it.calls[0].inputs) {
      const int a = units_.root(ref.value);
      const Root& operand = root(a);
      if (!may_give(a)) continue;
      if (operand.place == MemoryPlace::shard && it.pmap < 0) continue;
      if (operand.place == MemoryPlace::arena && it.pmap >= 0) continue;
      if (value(a).nbytes() != value(r).nbytes() || ref.shard >= 0 || value(ref.value).cut >= 0) {
        continue;
      }
      if (is_read_in_place(it, a, r) && is_dead_in_group(a, u)) return a;
    }
    return -1;
  }

  bool is_dead_in_group(int r, int u) const {
    return std::ranges::all_of(readers_of(r), [&](int reader) {
      return time_of(reader).step < time_of(u).step ||
             (time_of(reader) == time_of(u) && reader <= u && !waits_for_others(reader, u));
    });
  }

  /// Regions run in order within a shard; what devices share is alive for whole steps.
  Interval interval_of(int r) {
    const Root& it = root(r);
    Interval interval;
    interval.bytes = value(r).nbytes();
    if (it.per_tile) {
      interval.bytes = std::min<std::size_t>(interval.bytes, tile_elements * size_of(value(r).type.dtype));
    }
    interval.first = begin_of(writer_of(r), it.place);
    interval.last = end_of(writer_of(r), it.place);
    for (int u : readers_of(r)) interval.last = std::max(interval.last, end_of(u, it.place));
    return interval;
  }
  bool is_ordered(int u, MemoryPlace place) const {
    return place == MemoryPlace::scratch || (place == MemoryPlace::shard && unit(u).pmap >= 0);
  }
  std::int64_t begin_of(int u, MemoryPlace place) const {
    return is_ordered(u, place) ? time_[u] : step_begin_[time_of(u).step];
  }
  std::int64_t end_of(int u, MemoryPlace place) const {
    return is_ordered(u, place) ? time_[u] : step_end_[time_of(u).step];
  }

  // ---- offsets ---------------------------------------------------------------------------------------------------

  void plan() {
    std::map<std::tuple<MemoryPlace, int, int>, std::vector<int>> domains;
    for (int b = 0; b < blocks_.size(); ++b) {
      domains[{blocks_[b].place, blocks_[b].domain.step, blocks_[b].domain.group}].push_back(b);
    }
    IdVector<std::size_t> offsets(blocks_.size());
    for (const auto& [domain, members] : domains) {
      std::vector<Interval> intervals;
      for (int b : members) intervals.push_back(blocks_[b].interval);
      const MemoryPlan plan = plan_memory(intervals);
      for (std::size_t i = 0; i < members.size(); ++i) offsets[members[i]] = plan.offsets[i];
      const MemoryPlace place = std::get<0>(domain);
      std::size_t& total = place == MemoryPlace::arena   ? result_.arena_bytes
                           : place == MemoryPlace::shard ? result_.shard_bytes
                                                         : result_.scratch_bytes;
      total = std::max(total, plan.bytes);
    }
    result_.scratch = IdVector<std::uint64_t>(units_.units.size(), 0);
    for (const auto& [u, block] : scratch_of_) result_.scratch[u] = offsets[block];
    write_placements(offsets);
  }

  void write_placements(const IdVector<std::size_t>& offsets) {
    result_.of_value.resize(roots_.size());
    const auto first_result = static_cast<std::uint32_t>(base::first_argument + program_.arguments.list().size());
    for (int r = 0; r < roots_.size(); ++r) {
      const auto index = static_cast<std::uint32_t>(value(r).index);
      Placement& placement = result_.of_value[r];
      switch (roots_[r].place) {
        case MemoryPlace::none:
          break;
        case MemoryPlace::fixed:
          if (value(r).memory == Memory::argument) {
            placement.base = base::first_argument + index;
          } else {
            placement = {base::constants, index, false};
          }
          break;
        case MemoryPlace::result:
          placement.base = first_result + static_cast<std::uint32_t>(result_.result_of_root[r]);
          break;
        case MemoryPlace::window:
          placement = {base::window, static_cast<std::uint64_t>(value(r).in_window), false};
          break;
        case MemoryPlace::arena:
          placement.base = base::arena;
          break;
        case MemoryPlace::shard:
          placement.base = base::shard;
          break;
        case MemoryPlace::scratch:
          placement.base = base::scratch;
          break;
      }
      if (is_planned(roots_[r].place)) placement.offset = offsets[roots_[r].block];
      placement.per_tile = roots_[r].per_tile;
    }
  }

  const Program& program_;
  const UnitProgram& units_;
  const Schedule& schedule_;
  Placements result_;
  IdVector<Root> roots_;
  ir::DefUse chains_;       // of roots, by units
  std::vector<int> order_;  // units
  IdVector<std::int64_t> time_;
  IdVector<std::int64_t> step_begin_;
  IdVector<std::int64_t> step_end_;
  IdVector<Allocation> blocks_;
  std::vector<std::pair<int, int>> scratch_of_;  // a unit and its kernels' scratch block
};

}  // namespace

std::size_t kernel_scratch(const Unit& unit) {
  std::size_t bytes = 0;
  for (const UnitCall& call : unit.calls) {
    bytes = std::max(bytes, call.kernel->scratch_bytes());
    if (call.rest_kernel != nullptr) bytes = std::max(bytes, call.rest_kernel->scratch_bytes());
  }
  return bytes;
}

Placements place_values(const Program& program, const UnitProgram& units, const Schedule& schedule) {
  return Placer(program, units, schedule).run();
}

}  // namespace lockstep::compile
