#include "engine/compile/schedule.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/executable/control_kernels.h"
#include "engine/ir/def_use.h"

// A topological order of units, by levels (list scheduling). Phases alternate: an even one holds what runs once per
// process, the odd one behind it a region that runs for every shard, and in which what runs once behind the shards stands
// where they have come so far. A unit stands in the first phase that has its
// operands. An even phase is cut into waves, one step each: within a wave no device needs what another one computes.
namespace lockstep::compile {
namespace {

class Scheduler {
 public:
  Scheduler(const Program& program, const UnitProgram& units)
      : program_(program), units_(units), whens_(units.units.size()), chains_(units.values.size()) {}

  Schedule run() {
    assign_phases();
    sink();
    assign_waves();
    put_off();
    overwrite_last();
    make_steps();
    join_groups();
    return std::move(result_);
  }

 private:
  /// Where a unit stands while it is moved about.
  struct When {
    int phase = 0;
    int wave = 0;
  };

  const Unit& unit(int u) const { return units_.units[u]; }
  When& when(int u) { return whens_[u]; }
  int units() const { return units_.units.size(); }

  /// The units whose results `u` reads or waits for, `u` itself left out.
  std::vector<int> writers(int u) const {
    std::vector<int> result;
    const auto add = [&](int root) {
      const int w = chains_.definition(root);
      if (w >= 0 && w != u) result.push_back(w);
    };
    for (int root : unit(u).reads) add(root);
    for (int root : unit(u).waits_for) add(root);
    if (unit(u).fence >= 0) {
      for (int v : program_.fences[unit(u).fence]) add(units_.root(v));
    }
    return result;
  }

  void assign_phases() {
    IdVector<int> start(program_.meshes.size(), -1);
    int last_region = -1;
    for (int u = 0; u < units(); ++u) {
      const Unit& it = unit(u);
      int phase = 0;
      if (it.mesh >= 0) {
        int& first = start[it.mesh];
        if (first < 0) first = last_region + 1;
        phase = first;
      }
      if (it.region() >= 0) ++phase;
      for (int w : writers(u)) phase = std::max(phase, after(w, it));
      when(u).phase = phase;
      if (it.region() >= 0) last_region = std::max(last_region, phase);
      for (int root : it.writes) chains_.define(root, u);
    }
  }

  int after(int writer, const Unit& reader) {
    const int phase = when(writer).phase;
    return (unit(writer).region() >= 0) == (reader.region() >= 0) ? phase : phase + 1;
  }

  /// Moves work to later phases where less then crosses the regions' ends: all of it as far as what reads it allows, or
  /// those equations of regions alone that read less than they write.
  void sink() {
    sink_where([&](const Unit& it) { return it.pmap >= 0 && bytes(it.reads, it.pmap) < bytes(it.writes, it.pmap); });
    // Sums of what was gathered late wait no longer than that.
    if (std::ranges::any_of(units_.units, [](const Unit& it) { return !it.waits_for.empty(); })) return;
    const IdVector<When> before = whens_;
    const std::int64_t crossing = crossing_bytes();
    sink_where([](const Unit& it) { return !it.together && it.behind_shards < 0; });
    if (crossing_bytes() >= crossing) whens_ = before;
  }

  template <class Condition>
  void sink_where(const Condition& sinks) {
    IdVector<int> limit(units(), std::numeric_limits<int>::max());
    IdVector<int> last_region(program_.meshes.size(), 0);
    int last_shared = 0;
    for (int u = 0; u < units(); ++u) {
      int& last = unit(u).region() < 0 ? last_shared : last_region[unit(u).region()];
      last = std::max(last, when(u).phase);
    }
    for (int u = units() - 1; u >= 0; --u) {
      const Unit& it = unit(u);
      int& phase = when(u).phase;
      const int latest = std::min(limit[u], it.region() < 0 ? last_shared : last_region[it.region()]);
      if (sinks(it)) phase = std::max(phase, latest);
      for (int w : writers(u)) limit[w] = std::min(limit[w], it.region() == unit(w).region() ? phase : phase - 1);
    }
  }

  /// Of per-shard values that a later region than their own reads.
  std::int64_t crossing_bytes() {
    IdVector<bool> crosses(units_.values.size(), false);
    std::int64_t total = 0;
    for (int u = 0; u < units(); ++u) {
      for (int root : unit(u).reads) {
        const int w = chains_.definition(root);
        if (w < 0 || crosses[root] || unit(w).pmap < 0 || when(w).phase == when(u).phase) continue;
        crosses[root] = true;
        total += units_.values[root].type.nbytes();
      }
    }
    return total;
  }

  /// Bytes of the per-shard values with memory of their own among `roots`.
  std::int64_t bytes(const std::vector<int>& roots, int pmap) const {
    std::int64_t total = 0;
    for (int root : roots) {
      if (units_.values[root].pmap == pmap) total += units_.values[root].type.nbytes();
    }
    return total;
  }

  /// Whether `it` may run in the wave of what it reads: behind it on the same device, or tile by tile.
  static bool share_a_wave(const Unit& before, const Unit& it) {
    return before.tiled == it.tiled && !before.together && !it.together && !before.in_parts && !it.in_parts;
  }

  void assign_waves() {
    for (int u = 0; u < units(); ++u) {
      const Unit& it = unit(u);
      if (it.region() >= 0) continue;
      for (int w : writers(u)) {
        if (when(w).phase != when(u).phase) continue;
        const int wave = when(w).wave;
        when(u).wave = std::max(when(u).wave, share_a_wave(unit(w), it) ? wave : wave + 1);
      }
    }
  }

  /// Puts a cut unit off to the wave in which what reads it can go on with each tile while the cache holds it.
  void put_off() {
    IdVector<int> wanted(units(), std::numeric_limits<int>::max());
    IdVector<bool> joins_reader(units(), false);
    for (int u = units() - 1; u >= 0; --u) {
      const Unit& it = unit(u);
      int& wave = when(u).wave;
      if (it.tiled > 0 && joins_reader[u]) wave = std::max(wave, wanted[u]);
      if (it.region() >= 0) continue;
      for (int w : writers(u)) {
        if (when(w).phase != when(u).phase) continue;
        const bool joins = share_a_wave(unit(w), it);
        const int latest = joins ? wave : wave - 1;
        if (latest < wanted[w]) joins_reader[w] = false;
        if (latest <= wanted[w]) joins_reader[w] = joins_reader[w] || joins;
        wanted[w] = std::min(wanted[w], latest);
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
    behind_.resize(units());
    for (int u = 0; u < units(); ++u) {
      for (int w : writers(u)) behind_[w].push_back({u, !share_a_wave(unit(w), unit(u))});
      for (int root : unit(u).reads) chains_.use(root, u);
    }
    for (int u = 0; u < units(); ++u) {
      if (unit(u).region() >= 0) continue;
      for (int root : unit(u).reads) {
        if (!may_become(root, unit(u))) continue;
        for (int reader : chains_.uses(root)) {
          if (!may_run_behind(u, reader)) continue;
          behind_[reader].push_back({u, true});
          run_behind(reader, u, true);
        }
      }
    }
  }

  /// Whether `writer` has a result that may lie where argument `root` does.
  bool may_become(int root, const Unit& writer) const {
    if (std::ranges::find(program_.arguments, root) == program_.arguments.end()) return false;
    const ArrayType& type = units_.values[root].type;
    return std::ranges::any_of(writer.writes, [&](int written) {
      const ArrayType& it = units_.values[written].type;
      const auto is_written = [&](int output) { return units_.root(output) == written; };
      return it.dtype == type.dtype && it.nbytes() == type.nbytes() && std::ranges::any_of(units_.outputs, is_written);
    });
  }

  /// Not where `before` runs behind `u` itself, nor where a region does, which would have to move too.
  bool may_run_behind(int u, int before) const {
    std::vector<int> found = {u};
    IdVector<bool> is_found(units(), false);
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (found[i] == before || unit(found[i]).region() >= 0) return false;
      for (const Behind& next : behind_[found[i]]) {
        if (!is_found[next.unit]) found.push_back(next.unit);
        is_found[next.unit] = true;
      }
    }
    return true;
  }

  void run_behind(int before, int u, bool later) {
    const bool is_region = unit(before).region() >= 0;
    const int phase = is_region ? when(before).phase + 1 : when(before).phase;
    const int wave = is_region ? 0 : when(before).wave + (later ? 1 : 0);
    When& it = when(u);
    if (std::pair(it.phase, it.wave) >= std::pair(phase, wave)) return;
    it = {phase, wave};
    for (const Behind& next : behind_[u]) run_behind(u, next.unit, next.later);
  }

  void make_steps() {
    std::map<std::tuple<int, int, int>, int> numbers;
    const auto key = [&](int u) { return std::tuple(when(u).phase, when(u).wave, unit(u).together ? u : -1); };
    for (int u = 0; u < units(); ++u) numbers[key(u)] = 0;
    for (auto& [of_step, number] : numbers) number = result_.steps.add({});
    result_.time.resize(units());
    for (int u = 0; u < units(); ++u) {
      const int s = numbers[key(u)];
      result_.time[u].step = s;
      result_.steps[s].units.push_back(u);
      result_.steps[s].mesh = unit(u).region();
    }
  }

  int step(int u) const { return result_.time[u].step; }

  int find(int u) const {
    while (parent_[u] != u) u = parent_[u];
    return u;
  }

  void join_groups() {
    parent_.resize(units());
    std::iota(parent_.begin(), parent_.end(), 0);
    IdVector<int> first_of_step(result_.steps.size(), -1);
    IdVector<int> caller_of_step(result_.steps.size(), -1);
    for (int u = 0; u < units(); ++u) {
      for (int w : writers(u)) {
        if (step(w) == step(u)) join(u, w);
      }
      if (unit(u).region() >= 0) join_with_first(first_of_step, u);
      if (unit(u).on_caller) join_with_first(caller_of_step, u);
    }
    for (int u = 0; u < units(); ++u) result_.time[u].group = find(u);
  }

  void join(int a, int b) {
    const int low = std::min(find(a), find(b));
    parent_[find(a)] = low;
    parent_[find(b)] = low;
  }
  void join_with_first(IdVector<int>& first, int u) {
    int& of_step = first[step(u)];
    if (of_step < 0) of_step = u;
    join(u, of_step);
  }

  const Program& program_;
  const UnitProgram& units_;
  Schedule result_;
  IdVector<When> whens_;
  ir::DefUse chains_;  // of roots, by units
  IdVector<int> parent_;
  IdVector<std::vector<Behind>> behind_;  // by unit
};

/// How many devices the units can keep busy.
int devices_for(const Program& program, const UnitProgram& units) {
  int devices = program.meshes.empty() ? 1 : program.sharing_devices();
  for (const Unit& unit : units.units) {
    if (!unit.together) continue;
    devices = std::max(devices, static_cast<const ControlKernel*>(unit.calls[0].kernel)->devices());
  }
  const bool is_cut =
      std::ranges::any_of(units.units, [](const Unit& unit) { return unit.tiled > tile_elements || unit.in_parts; });
  return program.meshes.empty() && is_cut ? std::max(devices, program.sharing_devices()) : devices;
}

}  // namespace

Schedule schedule(const Program& program, const UnitProgram& units) {
  Schedule result = Scheduler(program, units).run();
  result.devices = devices_for(program, units);
  return result;
}

}  // namespace lockstep::compile
