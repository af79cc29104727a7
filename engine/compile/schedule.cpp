#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/compile/program.h"
#include "engine/executable/control_kernels.h"

// A topological order of units, by levels (list scheduling). Phases alternate: an even one holds what runs once per
// process, the odd one behind it a region that runs for every shard. A unit stands in the first phase that has its
// operands. An even phase is cut into waves, one step each: within a wave no device needs what another one computes.
namespace lockstep::compile {
namespace {

class Scheduler {
 public:
  explicit Scheduler(Program& program) : program_(program), writer_(program.values.size(), -1) {}

  void run() {
    assign_phases();
    sink();
    assign_waves();
    put_off();
    overwrite_last();
    make_steps();
    join_groups();
  }

 private:
  Unit& unit(int i) { return program_.units[static_cast<std::size_t>(i)]; }
  int units() const { return static_cast<int>(program_.units.size()); }

  /// The units whose results `u` reads or waits for, `u` itself left out.
  std::vector<int> writers(int u) {
    std::vector<int> result;
    const auto add = [&](int root) {
      const int w = writer_[static_cast<std::size_t>(root)];
      if (w >= 0 && w != u) result.push_back(w);
    };
    for (int root : unit(u).reads) add(root);
    if (unit(u).fence >= 0) {
      for (int v : program_.fences[static_cast<std::size_t>(unit(u).fence)]) add(program_.root(v));
    }
    return result;
  }

  void assign_phases() {
    std::vector<int> start(program_.meshes.size(), -1);
    int last_region = -1;
    for (int u = 0; u < units(); ++u) {
      Unit& it = unit(u);
      int phase = 0;
      if (it.mesh >= 0) {
        int& first = start[static_cast<std::size_t>(it.mesh)];
        if (first < 0) first = last_region + 1;
        phase = first;
      }
      if (it.pmap >= 0) ++phase;
      for (int w : writers(u)) phase = std::max(phase, after(unit(w), it));
      it.phase = phase;
      if (it.pmap >= 0) last_region = std::max(last_region, phase);
      for (int root : it.writes) writer_[static_cast<std::size_t>(root)] = u;
    }
  }

  static int after(const Unit& writer, const Unit& reader) {
    if (writer.pmap >= 0) return reader.pmap >= 0 ? writer.phase : writer.phase + 1;
    return reader.pmap >= 0 ? writer.phase + 1 : writer.phase;
  }

  /// Moves work to later phases where less then crosses the regions' ends: all of it as far as what reads it allows, or
  /// those equations of regions alone that read less than they write.
  void sink() {
    sink_where([&](const Unit& it) { return it.pmap >= 0 && bytes(it.reads, it.pmap) < bytes(it.writes, it.pmap); });
    std::vector<int> phases;
    for (const Unit& it : program_.units) phases.push_back(it.phase);
    const std::int64_t crossing = crossing_bytes();
    sink_where([](const Unit& it) { return !it.together; });
    if (crossing_bytes() < crossing) return;
    for (int u = 0; u < units(); ++u) unit(u).phase = phases[static_cast<std::size_t>(u)];
  }

  template <class Condition>
  void sink_where(const Condition& sinks) {
    std::vector<int> limit(program_.units.size(), std::numeric_limits<int>::max());
    std::vector<int> last_region(program_.meshes.size(), 0);
    int last_shared = 0;
    for (const Unit& it : program_.units) {
      int& last = it.pmap < 0 ? last_shared : last_region[static_cast<std::size_t>(it.pmap)];
      last = std::max(last, it.phase);
    }
    for (int u = units() - 1; u >= 0; --u) {
      Unit& it = unit(u);
      const int last = it.pmap < 0 ? last_shared : last_region[static_cast<std::size_t>(it.pmap)];
      const int latest = std::min(limit[static_cast<std::size_t>(u)], last);
      if (sinks(it)) it.phase = std::max(it.phase, latest);
      for (int w : writers(u)) {
        int& bound = limit[static_cast<std::size_t>(w)];
        bound = std::min(bound, it.pmap == unit(w).pmap ? it.phase : it.phase - 1);
      }
    }
  }

  /// Of per-shard values that a later region than their own reads.
  std::int64_t crossing_bytes() {
    std::vector<bool> crosses(program_.values.size(), false);
    std::int64_t total = 0;
    for (const Unit& it : program_.units) {
      for (int root : it.reads) {
        const int w = writer_[static_cast<std::size_t>(root)];
        if (w < 0 || crosses[static_cast<std::size_t>(root)] || unit(w).pmap < 0 || unit(w).phase == it.phase) continue;
        crosses[static_cast<std::size_t>(root)] = true;
        total += program_.value(root).type.nbytes();
      }
    }
    return total;
  }

  /// Bytes of the per-shard values with memory of their own among `roots`.
  std::int64_t bytes(const std::vector<int>& roots, int pmap) const {
    std::int64_t total = 0;
    for (int root : roots) {
      if (program_.value(root).pmap == pmap) total += program_.value(root).type.nbytes();
    }
    return total;
  }

  /// Whether `it` may run in the wave of what it reads: behind it on the same device, or tile by tile.
  static bool share_a_wave(const Unit& before, const Unit& it) {
    return before.tiled == it.tiled && !before.together && !it.together && !before.in_parts && !it.in_parts;
  }

  void assign_waves() {
    for (int u = 0; u < units(); ++u) {
      Unit& it = unit(u);
      if (it.pmap >= 0) continue;
      for (int w : writers(u)) {
        const Unit& before = unit(w);
        if (before.phase != it.phase) continue;
        it.wave = std::max(it.wave, share_a_wave(before, it) ? before.wave : before.wave + 1);
      }
    }
  }

  /// Puts a cut unit off to the wave in which what reads it can go on with each tile while the cache holds it.
  void put_off() {
    std::vector<int> wanted(program_.units.size(), std::numeric_limits<int>::max());
    std::vector<bool> joins_reader(program_.units.size(), false);
    for (int u = units() - 1; u >= 0; --u) {
      Unit& it = unit(u);
      const auto own = static_cast<std::size_t>(u);
      if (it.tiled > 0 && joins_reader[own]) it.wave = std::max(it.wave, wanted[own]);
      if (it.pmap >= 0) continue;
      for (int w : writers(u)) {
        if (unit(w).phase != it.phase) continue;
        const auto before = static_cast<std::size_t>(w);
        const bool joins = share_a_wave(unit(w), it);
        const int latest = joins ? it.wave : it.wave - 1;
        if (latest < wanted[before]) joins_reader[before] = false;
        if (latest <= wanted[before]) joins_reader[before] = joins_reader[before] || joins;
        wanted[before] = std::min(wanted[before], latest);
      }
    }
  }

  /// A unit that runs behind another one: in a later wave at the least, or in the same one.
  struct Behind {
    int unit = -1;
    bool later = false;
  };

  /// Puts what writes a result off until all others have read the argument that the result may be written over. A caller
  /// who gives the argument away, as a step does its weights, then needs no memory for the result.
  void overwrite_last() {
    behind_.resize(program_.units.size());
    std::vector<std::vector<int>> readers(program_.values.size());
    for (int u = 0; u < units(); ++u) {
      for (int w : writers(u)) {
        behind_[static_cast<std::size_t>(w)].push_back({u, !share_a_wave(unit(w), unit(u))});
      }
      for (int root : unit(u).reads) readers[static_cast<std::size_t>(root)].push_back(u);
    }
    for (int u = 0; u < units(); ++u) {
      if (unit(u).pmap >= 0) continue;
      for (int root : unit(u).reads) {
        if (!may_become(root, unit(u))) continue;
        for (int reader : readers[static_cast<std::size_t>(root)]) {
          if (!may_run_behind(u, reader)) continue;
          behind_[static_cast<std::size_t>(reader)].push_back({u, true});
          run_behind(unit(reader), u, true);
        }
      }
    }
  }

  /// Whether `writer` has a result that may lie where argument `root` does.
  bool may_become(int root, const Unit& writer) const {
    const std::vector<int>& arguments = program_.arguments;
    if (std::find(arguments.begin(), arguments.end(), root) == arguments.end()) return false;
    const ArrayType& type = program_.value(root).type;
    return std::any_of(writer.writes.begin(), writer.writes.end(), [&](int written) {
      const ArrayType& it = program_.value(written).type;
      const auto is_written = [&](int output) { return program_.root(output) == written; };
      return it.dtype == type.dtype && it.nbytes() == type.nbytes() &&
             std::any_of(program_.outputs.begin(), program_.outputs.end(), is_written);
    });
  }

  /// Not where `before` runs behind `u` itself, nor where a region does, which would have to move too.
  bool may_run_behind(int u, int before) const {
    std::vector<int> found = {u};
    std::vector<bool> is_found(program_.units.size(), false);
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (found[i] == before || program_.units[static_cast<std::size_t>(found[i])].pmap >= 0) return false;
      for (const Behind& next : behind_[static_cast<std::size_t>(found[i])]) {
        const auto index = static_cast<std::size_t>(next.unit);
        if (!is_found[index]) found.push_back(next.unit);
        is_found[index] = true;
      }
    }
    return true;
  }

  void run_behind(const Unit& before, int u, bool later) {
    Unit& it = unit(u);
    const int phase = before.pmap < 0 ? before.phase : before.phase + 1;
    const int wave = before.pmap < 0 ? before.wave + (later ? 1 : 0) : 0;
    if (std::pair(it.phase, it.wave) >= std::pair(phase, wave)) return;
    it.phase = phase;
    it.wave = wave;
    for (const Behind& next : behind_[static_cast<std::size_t>(u)]) run_behind(it, next.unit, next.later);
  }

  void make_steps() {
    std::map<std::tuple<int, int, int>, int> numbers;
    const auto key = [&](int u) { return std::tuple(unit(u).phase, unit(u).wave, unit(u).together ? u : -1); };
    for (int u = 0; u < units(); ++u) numbers[key(u)] = 0;
    int next = 0;
    for (auto& [of_step, number] : numbers) number = next++;
    program_.steps.resize(numbers.size());
    for (int u = 0; u < units(); ++u) {
      unit(u).step = numbers[key(u)];
      Program::StepPlan& step = program_.steps[static_cast<std::size_t>(unit(u).step)];
      step.units.push_back(u);
      step.mesh = unit(u).pmap;
    }
  }

  int find(int u) {
    while (parent_[static_cast<std::size_t>(u)] != u) u = parent_[static_cast<std::size_t>(u)];
    return u;
  }

  void join_groups() {
    parent_.resize(program_.units.size());
    std::iota(parent_.begin(), parent_.end(), 0);
    std::vector<int> first_of_step(program_.steps.size(), -1);
    std::vector<int> caller_of_step(program_.steps.size(), -1);
    for (int u = 0; u < units(); ++u) {
      for (int w : writers(u)) {
        if (unit(w).step == unit(u).step) join(u, w);
      }
      if (unit(u).pmap >= 0) join_with_first(first_of_step, u);
      if (unit(u).on_caller) join_with_first(caller_of_step, u);
    }
    for (int u = 0; u < units(); ++u) unit(u).group = find(u);
  }

  void join(int a, int b) {
    const int low = std::min(find(a), find(b));
    parent_[static_cast<std::size_t>(find(a))] = low;
    parent_[static_cast<std::size_t>(find(b))] = low;
  }
  void join_with_first(std::vector<int>& first, int u) {
    int& of_step = first[static_cast<std::size_t>(unit(u).step)];
    if (of_step < 0) of_step = u;
    join(u, of_step);
  }

  Program& program_;
  std::vector<int> writer_;  // by root: the unit that writes it
  std::vector<int> parent_;
  std::vector<std::vector<Behind>> behind_;  // by unit
};

}  // namespace

void schedule(Program& program) {
  Scheduler(program).run();
  program.devices = program.meshes.empty() ? 1 : program.sharing_devices();
  for (const Unit& unit : program.units) {
    if (!unit.together) continue;
    program.devices = std::max(program.devices, static_cast<const ControlKernel*>(unit.calls[0].kernel)->devices());
  }
  const bool is_cut = std::any_of(program.units.begin(), program.units.end(),
                                  [](const Unit& unit) { return unit.tiled > tile_elements || unit.in_parts; });
  if (program.meshes.empty() && is_cut) program.devices = std::max(program.devices, program.sharing_devices());
}

}  // namespace lockstep::compile
