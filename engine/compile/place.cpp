#include <algorithm>
#include <map>
#include <utility>

#include "engine/compile/memory_plan.h"
#include "engine/compile/program.h"
#include "engine/executable/control_kernels.h"

// Where every root value lies: a result's buffer, the arena, a shard's block, or a device's scratch.
namespace lockstep::compile {
namespace {

enum class Place : std::uint8_t { none, fixed, result, arena, shard, scratch };

struct Root {
  Place place = Place::none;
  bool per_tile = false;
  bool is_output = false;
  int writer = -1;
  std::vector<int> readers;  // units, in order
  int block = -1;
};

/// Memory that one root, or several that follow each other in place, occupy.
struct Allocation {
  Place place = Place::none;
  std::pair<int, int> domain{-1, -1};  // scratch: step and group
  Interval interval;
};

class Placer {
 public:
  explicit Placer(Program& program) : program_(program), roots_(program.values.size()) {}

  void run() {
    collect();
    order_units();
    for (std::size_t r = 0; r < roots_.size(); ++r) classify(static_cast<int>(r));
    choose_donors();
    extend_results();
    for (int u : order_) {
      make_blocks(u);
      make_scratch_block(u);
    }
    plan();
  }

 private:
  Unit& unit(int u) { return program_.units[static_cast<std::size_t>(u)]; }
  Root& root(int r) { return roots_[static_cast<std::size_t>(r)]; }

  void collect() {
    for (int u = 0; u < static_cast<int>(program_.units.size()); ++u) {
      for (int r : unit(u).writes) root(r).writer = u;
      for (int r : unit(u).reads) root(r).readers.push_back(u);
    }
    program_.result_of_root.assign(program_.values.size(), -1);
    for (std::size_t i = 0; i < program_.outputs.size(); ++i) {
      const int r = program_.root(program_.outputs[i]);
      root(r).is_output = true;
      int& result = program_.result_of_root[static_cast<std::size_t>(r)];
      if (result < 0) result = static_cast<int>(i);
    }
  }

  /// Times: units one after the other by step.
  void order_units() {
    time_.resize(program_.units.size());
    for (const Program::StepPlan& step : program_.steps) {
      step_begin_.push_back(static_cast<std::int64_t>(order_.size()));
      for (int u : step.units) {
        time_[static_cast<std::size_t>(u)] = static_cast<std::int64_t>(order_.size());
        order_.push_back(u);
      }
      step_end_.push_back(static_cast<std::int64_t>(order_.size()) - 1);
    }
  }

  void classify(int r) {
    const StoredValue& value = program_.value(r);
    Root& it = root(r);
    if (value.root != r) return;
    if (value.memory != Memory::own) {
      it.place = Place::fixed;
      return;
    }
    if (it.writer < 0) return;
    if (it.is_output) {
      it.place = Place::result;
      return;
    }
    const Unit& writer = unit(it.writer);
    if (writer.together) {
      it.place = Place::arena;
      return;
    }
    const bool stays = std::all_of(it.readers.begin(), it.readers.end(),
                                   [&](int u) { return unit(u).step == writer.step && unit(u).group == writer.group; });
    if (value.pmap != writer.pmap || !stays) {
      it.place = value.pmap >= 0 ? Place::shard : Place::arena;
    } else {
      it.place = has_shard_alone(value) ? Place::shard : Place::scratch;
      it.per_tile = writer.tiled > 0;
    }
  }

  /// Whether each device has but one shard, whose block then serves as its scratch too: one plan packs closer than two.
  bool has_shard_alone(const StoredValue& value) const {
    if (value.pmap < 0) return false;
    const Mesh& mesh = program_.meshes[static_cast<std::size_t>(value.pmap)];
    return mesh.local_shards == mesh.devices;
  }

  // ---- donation --------------------------------------------------------------------------------------------------

  /// Whether nobody reads `r` any more when unit `u` writes a value of the same type: `u` itself may, in place.
  bool is_dead_for(int r, int u, const StoredValue& written) {
    const Unit& writer = unit(u);
    for (int reader : root(r).readers) {
      const Unit& it = unit(reader);
      if (it.step < writer.step) continue;
      if (it.step > writer.step || it.group != writer.group || reader > u) return false;
      if (writer.pmap >= 0 && !reads_own_block(it, r, written)) return false;
      if (reader == u && !is_read_in_place(it, r, written.root)) return false;
    }
    return true;
  }

  /// Whether a region's unit reads of argument `r` only the block that its shard writes of `written`.
  bool reads_own_block(const Unit& reader, int r, const StoredValue& written) {
    for (const UnitCall& call : reader.calls) {
      for (const Ref& ref : call.inputs) {
        const StoredValue& value = program_.value(ref.value);
        if (value.root != r) continue;
        if (value.cut < 0 || written.cut < 0 || value.offset != 0 || !value.is_contiguous()) return false;
        if (program_.cuts[static_cast<std::size_t>(value.cut)] !=
            program_.cuts[static_cast<std::size_t>(written.cut)]) {
          return false;
        }
      }
    }
    return true;
  }

  /// Which output of a call is root `written`, or -1.
  int output_of(const UnitCall& call, int written) const {
    for (std::size_t k = 0; k < call.outputs.size(); ++k) {
      if (program_.root(call.outputs[k].value) == written) return static_cast<int>(k);
    }
    return -1;
  }

  /// Whether a unit's only call, or all that are parts of one, may write root `written` where it reads root `r`.
  bool is_read_in_place(const Unit& it, int r, int written) {
    if (it.calls.size() != 1 && !it.in_parts) return false;
    return std::ranges::all_of(it.calls, [&](const UnitCall& call) { return is_read_in_place(call, r, written); });
  }

  bool is_read_in_place(const UnitCall& call, int r, int written) {
    const int at = output_of(call, written);
    if (at < 0) return false;
    const auto index = static_cast<std::size_t>(at);
    const StoredValue& output = program_.value(call.outputs[index].value);
    for (std::size_t k = 0; k < call.inputs.size(); ++k) {
      const StoredValue& input = program_.value(call.inputs[k].value);
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
    program_.donors.assign(program_.outputs.size(), -1);
    std::vector<int> results;
    for (std::size_t i = 0; i < program_.outputs.size(); ++i) {
      const int r = program_.root(program_.outputs[i]);
      if (root(r).place == Place::result &&
          program_.result_of_root[static_cast<std::size_t>(r)] == static_cast<int>(i)) {
        results.push_back(static_cast<int>(i));
      }
    }
    std::stable_sort(results.begin(), results.end(), [&](int a, int b) { return written_at(a) < written_at(b); });
    std::vector<bool> taken(program_.arguments.size(), false);
    for (int i : results) {
      const int donor = best_donor(i, taken);
      program_.donors[static_cast<std::size_t>(i)] = donor;
      if (donor >= 0) taken[static_cast<std::size_t>(donor)] = true;
    }
  }

  std::int64_t written_at(int result) {
    const int r = program_.root(program_.outputs[static_cast<std::size_t>(result)]);
    return time_[static_cast<std::size_t>(root(r).writer)];
  }

  /// The argument of the result's type that is read last before the result is written.
  int best_donor(int result, const std::vector<bool>& taken) {
    const int r = program_.root(program_.outputs[static_cast<std::size_t>(result)]);
    const int writer = root(r).writer;
    const StoredValue& written = written_value(r);
    int best = -1;
    std::int64_t best_time = -2;
    for (std::size_t a = 0; a < program_.arguments.size(); ++a) {
      const int argument = program_.arguments[a];
      const StoredValue& value = program_.value(argument);
      const bool allowed = program_.allowed_donors.empty() ||
                           program_.allowed_donors[static_cast<std::size_t>(result)] == static_cast<int>(a);
      if (!allowed || taken[a] || root(argument).is_output || value.type.dtype != program_.value(r).type.dtype ||
          value.nbytes() != program_.value(r).nbytes() || !is_dead_for(argument, writer, written)) {
        continue;
      }
      const auto& readers = root(argument).readers;
      const std::int64_t time = readers.empty() ? -1 : time_[static_cast<std::size_t>(readers.back())];
      if (time > best_time) {
        best = static_cast<int>(a);
        best_time = time;
      }
    }
    return best;
  }

  /// The value through which root `r` is written: with the cut, where shards write their blocks of it.
  const StoredValue& written_value(int r) {
    for (const UnitCall& call : unit(root(r).writer).calls) {
      for (const Ref& ref : call.outputs) {
        if (program_.root(ref.value) == r) return program_.value(ref.value);
      }
    }
    return program_.value(r);
  }

  /// What dies where a result is written over it lies in the result's memory from the start, so far back as an argument
  /// that may lend that memory is dead.
  void extend_results() {
    for (std::size_t i = 0; i < program_.outputs.size(); ++i) {
      int r = program_.root(program_.outputs[i]);
      const bool is_own =
          root(r).place == Place::result && program_.result_of_root[static_cast<std::size_t>(r)] == static_cast<int>(i);
      if (!is_own || unit(root(r).writer).pmap >= 0) continue;
      const int donor = program_.donors[i];
      const auto may_give = [&](int a) {
        const Root& operand = root(a);
        return (operand.place == Place::arena || operand.place == Place::scratch) && !operand.per_tile &&
               !unit(operand.writer).together && unit(operand.writer).pmap < 0 &&
               (donor < 0 ||
                is_dead_for(program_.arguments[static_cast<std::size_t>(donor)], operand.writer, written_value(a)));
      };
      while ((r = operand_in_place(r, root(r).writer, may_give)) >= 0) {
        root(r).place = Place::result;
        program_.result_of_root[static_cast<std::size_t>(r)] = static_cast<int>(i);
      }
    }
  }

  // ---- blocks ----------------------------------------------------------------------------------------------------

  bool is_planned(Place place) const {
    return place == Place::arena || place == Place::shard || place == Place::scratch;
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
        Interval& interval = blocks_[static_cast<std::size_t>(shared)].interval;
        interval.last = std::max(interval.last, wanted.last);
        continue;
      }
      it.block = static_cast<int>(blocks_.size());
      Allocation block{it.place, {-1, -1}, wanted};
      if (it.place == Place::scratch) block.domain = {unit(u).step, unit(u).group};
      blocks_.push_back(block);
    }
  }

  /// Its kernels' own scratch, dead behind it.
  void make_scratch_block(int u) {
    std::size_t bytes = 0;
    for (const UnitCall& call : unit(u).calls) {
      bytes = std::max(bytes, call.kernel->scratch_bytes());
      if (call.rest_kernel != nullptr) bytes = std::max(bytes, call.rest_kernel->scratch_bytes());
    }
    if (bytes == 0) return;
    const std::int64_t now = time_[static_cast<std::size_t>(u)];
    scratch_of_.emplace_back(u, blocks_.size());
    blocks_.push_back({Place::scratch, {unit(u).step, unit(u).group}, {bytes, now, now}});
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
    const StoredValue& output = program_.value(it.calls[0].outputs[static_cast<std::size_t>(at)].value);
    if (output.cut >= 0 || output.offset != 0) return -1;
    for (const Ref& ref : it.calls[0].inputs) {
      const int a = program_.root(ref.value);
      const Root& operand = root(a);
      if (!may_give(a)) continue;
      if (operand.place == Place::shard && it.pmap < 0) continue;
      if (operand.place == Place::arena && it.pmap >= 0) continue;
      if (program_.value(a).nbytes() != program_.value(r).nbytes() || ref.shard >= 0 ||
          program_.value(ref.value).cut >= 0) {
        continue;
      }
      if (is_read_in_place(it, a, r) && is_dead_in_group(a, u)) return a;
    }
    return -1;
  }

  bool is_dead_in_group(int r, int u) {
    for (int reader : root(r).readers) {
      if (unit(reader).step > unit(u).step) return false;
      if (unit(reader).step == unit(u).step && (unit(reader).group != unit(u).group || reader > u)) return false;
    }
    return true;
  }

  /// Regions run in order within a shard; what devices share is alive for whole steps.
  Interval interval_of(int r) {
    const Root& it = root(r);
    Interval interval;
    interval.bytes = program_.value(r).nbytes();
    if (it.per_tile) {
      interval.bytes = std::min<std::size_t>(interval.bytes, tile_elements * size_of(program_.value(r).type.dtype));
    }
    interval.first = begin_of(it.writer, it.place);
    interval.last = end_of(it.writer, it.place);
    for (int u : it.readers) interval.last = std::max(interval.last, end_of(u, it.place));
    return interval;
  }
  bool is_ordered(int u, Place place) {
    return place == Place::scratch || (place == Place::shard && unit(u).pmap >= 0);
  }
  std::int64_t begin_of(int u, Place place) {
    return is_ordered(u, place) ? time_[static_cast<std::size_t>(u)]
                                : step_begin_[static_cast<std::size_t>(unit(u).step)];
  }
  std::int64_t end_of(int u, Place place) {
    return is_ordered(u, place) ? time_[static_cast<std::size_t>(u)]
                                : step_end_[static_cast<std::size_t>(unit(u).step)];
  }

  // ---- offsets ---------------------------------------------------------------------------------------------------

  void plan() {
    std::map<std::pair<Place, std::pair<int, int>>, std::vector<int>> domains;
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      domains[{blocks_[b].place, blocks_[b].domain}].push_back(static_cast<int>(b));
    }
    std::vector<std::size_t> offsets(blocks_.size());
    for (const auto& [key, members] : domains) {
      std::vector<Interval> intervals;
      for (int b : members) intervals.push_back(blocks_[static_cast<std::size_t>(b)].interval);
      const MemoryPlan plan = plan_memory(intervals);
      for (std::size_t i = 0; i < members.size(); ++i) {
        offsets[static_cast<std::size_t>(members[i])] = plan.offsets[i];
      }
      std::size_t& total = key.first == Place::arena   ? program_.arena_bytes
                           : key.first == Place::shard ? program_.shard_bytes
                                                       : program_.scratch_bytes;
      total = std::max(total, plan.bytes);
    }
    for (const auto& [u, block] : scratch_of_) unit(u).scratch = offsets[block];
    write_placements(offsets);
  }

  void write_placements(const std::vector<std::size_t>& offsets) {
    program_.placements.resize(program_.values.size());
    const auto first_result = static_cast<std::uint32_t>(base::first_argument + program_.arguments.size());
    for (std::size_t r = 0; r < roots_.size(); ++r) {
      const StoredValue& value = program_.values[r];
      Placement& placement = program_.placements[r];
      switch (roots_[r].place) {
        case Place::none:
          break;
        case Place::fixed:
          if (value.memory == Memory::argument) {
            placement.base = base::first_argument + static_cast<std::uint32_t>(value.index);
          } else {
            placement = {base::constants, static_cast<std::uint64_t>(value.index), false};
          }
          break;
        case Place::result:
          placement.base = first_result + static_cast<std::uint32_t>(program_.result_of_root[r]);
          break;
        case Place::arena:
          placement.base = base::arena;
          break;
        case Place::shard:
          placement.base = base::shard;
          break;
        case Place::scratch:
          placement.base = base::scratch;
          break;
      }
      if (is_planned(roots_[r].place)) placement.offset = offsets[static_cast<std::size_t>(roots_[r].block)];
      placement.per_tile = roots_[r].per_tile;
    }
  }

  Program& program_;
  std::vector<Root> roots_;
  std::vector<int> order_;
  std::vector<std::int64_t> time_;
  std::vector<std::int64_t> step_begin_;
  std::vector<std::int64_t> step_end_;
  std::vector<Allocation> blocks_;
  std::vector<std::pair<int, std::size_t>> scratch_of_;  // a unit and its kernels' scratch block
};

}  // namespace

void place(Program& program) { Placer(program).run(); }

}  // namespace lockstep::compile
