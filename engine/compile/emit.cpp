#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include <lockstep/backend/round_up.h>

#include "engine/compile/stages.h"
#include "engine/core/lists.h"
#include "engine/executable/control_kernels.h"

// The planned program as flat lists that a run walks through.
namespace lockstep::compile {
namespace {

/// Below this, sharing work between devices costs more than it gains.
constexpr std::int64_t shared_step_bytes = 64 * 1024;

class Emitter {
 public:
  Emitter(const Program& program, const UnitProgram& units, const Schedule& schedule, const Placements& placements,
          Executable& executable)
      : program_(program), units_(units), schedule_(schedule), placements_(placements), out_(executable) {}

  void run() {
    for (const StepUnits& step : schedule_.steps) {
      if (step.mesh >= 0) {
        emit_region(step);
      } else if (unit(step.units[0]).together) {
        emit_together(step);
      } else {
        emit_shared(step);
      }
    }
    place_barriers();
  }

 private:
  const Unit& unit(int u) const { return units_.units[u]; }

  // ---- operands --------------------------------------------------------------------------------------------------

  Address address(const Ref& ref, const Unit& unit, bool tiled) const {
    const StoredValue& value = units_.values[ref.value];
    const Placement& placement = placements_.of_value[value.root];
    Address a;
    a.base = placement.base;
    a.offset = placement.offset + static_cast<std::uint64_t>(value.offset);
    a.cut = value.cut;
    if (unit.pmap < 0 && a.base == base::shard && ref.shard < 0) a.base = base::all_shards;  // of one shard alone
    if (ref.shard >= 0) {
      const auto shard = static_cast<std::uint64_t>(ref.shard);
      if (a.base == base::shard) {
        a.base = base::all_shards;
        a.offset += shard * placements_.shard_bytes;
      }
      if (a.cut >= 0) a.offset += units_.cuts[a.cut][shard];
      a.cut = -1;
    }
    if (tiled && !placement.per_tile && !value.is_uniform()) {
      a.tile_stride = (value.is_one_a_tile ? 1 : tile_elements) * size_of(value.type.dtype);
    }
    return a;
  }

  ArrayView view(const Ref& ref, std::int64_t tile) const {
    const StoredValue& value = units_.values[ref.value];
    ArrayView v;
    v.dtype = value.type.dtype;
    if (tile > 0 && !value.is_one_a_tile) {
      v.shape = Shape{tile};
      v.strides[0] = value.is_uniform() ? 0 : 1;
    } else if (tile == 0) {
      v.shape = value.type.shape;
      v.strides = value.strides;
    }
    return v;
  }

  void add_call(int u, const UnitCall& call, const Kernel* kernel, std::int64_t tile) {
    Call bound;
    bound.kernel = kernel;
    bound.scratch = placements_.scratch[u];
    bound.first = static_cast<std::uint32_t>(out_.addresses.size());
    bound.inputs = static_cast<std::uint32_t>(call.inputs.size());
    bound.outputs = static_cast<std::uint32_t>(call.outputs.size());
    for (const auto* refs : {&call.inputs, &call.outputs}) {
      for (const Ref& ref : *refs) {
        out_.addresses.push_back(address(ref, unit(u), tile > 0));
        out_.views.push_back(view(ref, tile));
      }
    }
    out_.calls.push_back(bound);
    out_.call_names.push_back(call.name);
    note_call(unit(u), kernel, bound);
  }

  void note_call(const Unit& unit, const Kernel* kernel, const Call& call) {
    const KernelPool::Note note = program_.kernels.note(kernel);
    CallNote noted{note.backend, unit.provenance, note.flops, 0};
    // A loop's kernels count for themselves.
    const bool is_loop = dynamic_cast<const ControlKernel*>(kernel) != nullptr;
    for (std::uint32_t i = 0; !is_loop && i < call.inputs + call.outputs; ++i) {
      noted.bytes += bytes_of(out_.views[call.first + i]);
    }
    if (unit.in_parts) noted.bytes /= static_cast<double>(unit.calls.size());
    out_.call_notes.push_back(std::move(noted));
  }

  /// What is read or written of a view: an element that is repeated once.
  static double bytes_of(const ArrayView& view) {
    auto bytes = static_cast<double>(size_of(view.dtype));
    for (int d = 0; d < view.shape.rank(); ++d) {
      const bool repeated = view.strides[static_cast<std::size_t>(d)] == 0 && view.shape[d] > 0;
      bytes *= repeated ? 1 : static_cast<double>(view.shape[d]);
    }
    return bytes;
  }

  std::uint32_t next_call() const { return static_cast<std::uint32_t>(out_.calls.size()); }

  CallRange add_units(const std::vector<int>& units) {
    CallRange range{next_call(), 0};
    for (int u : units) {
      for (const UnitCall& call : unit(u).calls) add_call(u, call, call.kernel, 0);
    }
    range.last = next_call();
    return range;
  }

  // ---- steps -----------------------------------------------------------------------------------------------------

  void emit_region(const StepUnits& plan) {
    const Mesh& mesh = program_.meshes[plan.mesh];
    Step step;
    step.kind = Step::Kind::region;
    step.devices = mesh.devices;
    step.local_shards = mesh.local_shards;
    step.region.first = next_call();
    for (const int u : plan.units) {
      if (unit(u).pmap >= 0) {
        add_units({u});
      } else {
        step.behind_shards.push_back({next_call(), -1, {}});
      }
    }
    step.region.last = next_call();
    step.first_passed = out_.behind_shards;
    out_.behind_shards += step.behind_shards.size();
    add_behind_shards(plan, step);
    out_.steps.push_back(std::move(step));
  }

  void add_behind_shards(const StepUnits& plan, Step& step) {
    auto next = step.behind_shards.begin();
    for (const int u : plan.units) {
      if (unit(u).pmap >= 0) continue;
      if (unit(u).tiled > 0) {
        next->chain = static_cast<std::int32_t>(add_chain({u}));
      } else {
        next->calls = add_units({u});
      }
      ++next;
    }
  }

  void emit_together(const StepUnits& plan) {
    Step step;
    step.kind = Step::Kind::together;
    step.devices = schedule_.devices;
    step.region = add_units(plan.units);
    out_.steps.push_back(std::move(step));
  }

  struct Work {
    std::vector<int> units;
    const UnitCall* part = nullptr;  ///< The one call of its unit that it is, where that is in parts.
    bool tiled = false;
    bool on_caller = false;
    std::int64_t cost = 0;
  };

  std::int64_t cost_of(const Unit& it) const {
    std::int64_t bytes = 0;
    for (const UnitCall& call : it.calls) {
      for (const auto* refs : {&call.inputs, &call.outputs}) {
        for (const Ref& ref : *refs) bytes += units_.values[ref.value].type.nbytes();
      }
    }
    return bytes;
  }

  void emit_shared(const StepUnits& plan) {
    std::map<int, Work> groups;
    std::vector<Work> whole;
    Step step;
    std::int64_t total = 0;
    for (int u : plan.units) {
      step.collectives += static_cast<int>(unit(u).collectives.size());
      std::ranges::copy(unit(u).collectives, std::back_inserter(step.collective_list));
      if (unit(u).in_parts) {
        add_parts(u, whole);
        total += cost_of(unit(u));
        continue;
      }
      Work& work = groups[schedule_.time[u].group];
      work.units.push_back(u);
      work.tiled = unit(u).tiled > 0;
      work.on_caller = work.on_caller || unit(u).on_caller;
      work.cost += cost_of(unit(u));
      total += cost_of(unit(u));
    }
    const int lanes = total < shared_step_bytes ? 1 : schedule_.devices;
    step.lanes.resize(static_cast<std::size_t>(lanes));
    std::int64_t tiled_total = 0;
    for (auto& [group, work] : groups) {
      if (work.tiled) tiled_total += work.cost;
    }
    std::int64_t done = 0;
    for (auto& [group, work] : groups) {
      if (work.tiled) {
        share_chain(step, add_chain(work.units), done, work.cost, tiled_total);
        done += work.cost;
      } else {
        whole.push_back(std::move(work));
      }
    }
    share_whole(step, std::move(whole));
    while (step.lanes.size() > 1 && step.lanes.back().empty()) step.lanes.pop_back();
    step.devices = static_cast<int>(step.lanes.size());
    out_.steps.push_back(std::move(step));
  }

  void add_parts(int u, std::vector<Work>& whole) const {
    const std::vector<UnitCall>& calls = unit(u).calls;
    const std::int64_t cost = cost_of(unit(u)) / static_cast<std::int64_t>(calls.size());
    for (const UnitCall& call : calls) whole.push_back({.units = {u}, .part = &call, .cost = cost});
  }

  CallRange add_part(int u, const UnitCall& part) {
    const std::uint32_t first = next_call();
    add_call(u, part, part.kernel, 0);
    return {first, next_call()};
  }

  std::uint32_t add_chain(const std::vector<int>& units) {
    const std::int64_t elements = unit(units[0]).tiled;
    const std::int64_t rest = elements % tile_elements;
    Chain chain;
    chain.tiles = ceil_div(elements, tile_elements);
    chain.has_rest = rest > 0;
    chain.calls.first = next_call();
    for (int u : units) {
      for (const UnitCall& call : unit(u).calls) add_call(u, call, call.kernel, tile_elements);
    }
    chain.calls.last = next_call();
    chain.rest_calls.first = next_call();
    for (int u : units) {
      for (const UnitCall& call : unit(u).calls) {
        if (chain.has_rest) add_call(u, call, call.rest_kernel, rest);
      }
    }
    chain.rest_calls.last = next_call();
    out_.chains.push_back(chain);
    return static_cast<std::uint32_t>(out_.chains.size() - 1);
  }

  /// Cuts the step's tiles, chain after chain, into one run of nearly equal cost for each lane.
  void share_chain(Step& step, std::uint32_t chain, std::int64_t done, std::int64_t cost, std::int64_t total) const {
    const std::int64_t tiles = out_.chains[chain].tiles;
    const auto lanes = static_cast<std::int64_t>(step.lanes.size());
    const double per_tile = static_cast<double>(cost) / static_cast<double>(tiles);
    const auto lane_of = [&](std::int64_t tile) {
      const double middle = static_cast<double>(done) + (static_cast<double>(tile) + 0.5) * per_tile;
      const auto lane = static_cast<std::int64_t>(middle * static_cast<double>(lanes) / static_cast<double>(total));
      return std::clamp<std::int64_t>(lane, 0, lanes - 1);
    };
    for (std::int64_t first = 0; first < tiles;) {
      const std::int64_t lane = lane_of(first);
      std::int64_t last = first + 1;
      while (last < tiles && lane_of(last) == lane) ++last;
      step.lanes[static_cast<std::size_t>(lane)].parts.push_back({chain, first, last});
      first = last;
    }
  }

  /// The largest first, each to the lane that has least to do; of the parts of one call, neighbours to one lane: what
  /// reads their results in turn is shared out in the same order, and finds them in the cache of its own core.
  void share_whole(Step& step, std::vector<Work> whole) {
    std::stable_sort(whole.begin(), whole.end(), [](const Work& a, const Work& b) { return a.cost > b.cost; });
    std::vector<std::int64_t> load(step.lanes.size(), 0);
    for (std::size_t first = 0, last = 0; first < whole.size(); first = last) {
      std::vector<std::size_t> lanes;
      do {
        lanes.push_back(lane_for(whole[last], load));
        ++last;
      } while (last < whole.size() && whole[last].part != nullptr && whole[last].units == whole[first].units);
      std::sort(lanes.begin(), lanes.end());
      for (std::size_t i = first; i < last; ++i) add_whole(step.lanes[lanes[i - first]], whole[i]);
    }
  }

  static std::size_t lane_for(const Work& work, std::vector<std::int64_t>& load) {
    const auto least = std::min_element(load.begin(), load.end());
    const auto lane = work.on_caller ? 0 : static_cast<std::size_t>(least - load.begin());
    load[lane] += std::max<std::int64_t>(work.cost, 1);
    return lane;
  }

  void add_whole(Lane& lane, const Work& work) {
    (work.on_caller ? lane.on_caller : lane.calls)
        .push_back(work.part == nullptr ? add_units(work.units) : add_part(work.units[0], *work.part));
  }

  void place_barriers() {
    for (std::size_t i = 0; i + 1 < out_.steps.size(); ++i) {
      out_.steps[i].barrier_after = !is_for_one(out_.steps[i]) || !is_for_one(out_.steps[i + 1]);
    }
  }
  static bool is_for_one(const Step& step) { return step.devices == 1; }

  const Program& program_;
  const UnitProgram& units_;
  const Schedule& schedule_;
  const Placements& placements_;
  Executable& out_;
};

ResultSource source_of(int result, const UnitProgram& units, const Placements& placements) {
  const int root = units.root(units.outputs[result]);
  const int first = placements.result_of_root[root];
  ResultSource source;
  if (units.values[root].memory == Memory::argument) {
    source.kind = ResultSource::Kind::argument;
    source.index = units.values[root].index;
  } else if (first != result) {
    source.kind = ResultSource::Kind::result;
    source.index = first;
  } else {
    source.donor = placements.donors[result];
  }
  return source;
}

void describe_results(const Program& program, const UnitProgram& units, const Placements& placements, Executable& out) {
  IdVector<ResultSource> results;
  for (int i = 0; i < units.outputs.size(); ++i) {
    ResultSource source = source_of(i, units, placements);
    const int from = source.kind == ResultSource::Kind::argument ? source.index : source.donor;
    if (source.kind == ResultSource::Kind::result) {
      results[source.index].is_repeated = true;
    } else if (from >= 0) {
      source.is_retyped =
          !(units.values[units.outputs[i]].type == program.type(program.arguments[from])) ||
          (!out.cut.results.empty() && !same_cut(nth(out.cut.results, i), nth(out.cut.arguments, from)));
    }
    out.has_written_results = out.has_written_results || source.kind == ResultSource::Kind::fresh;
    results.add(source);
  }
  IdVector<bool> seen(program.arguments.size(), false);
  for (int i = results.size(); i-- > 0;) {
    if (results[i].kind != ResultSource::Kind::argument) continue;
    results[i].is_last = !seen[results[i].index];
    seen[results[i].index] = true;
  }
  out.results = std::move(results.list());
}

}  // namespace

std::shared_ptr<Executable> emit(const Program& program, const UnitProgram& units, const Schedule& schedule,
                                 const Placements& placements) {
  auto executable = std::make_shared<Executable>();
  for (int v : program.arguments) executable->argument_types.push_back(program.type(v));
  for (int v : units.outputs) executable->result_types.push_back(units.values[v].type);
  executable->devices = schedule.devices;
  executable->cut = program.cut;
  executable->backends = program.kernels.backends();
  executable->entered = program.kernels.entered();
  executable->kernels = program.kernels.kernels();
  executable->cuts = units.cuts;
  executable->arena_bytes = placements.arena_bytes;
  executable->shard_bytes = placements.shard_bytes;
  for (const Mesh& mesh : program.meshes) {
    executable->local_shards = std::max(executable->local_shards, mesh.local_shards);
  }
  executable->scratch_bytes = placements.scratch_bytes;
  executable->constant_bytes = units.constants.size();
  executable->window_bytes = units.window_bytes;
  if (!units.constants.empty()) {
    executable->constants = executable->allocate(units.constants.size());
    std::ranges::copy(units.constants, static_cast<std::byte*>(executable->constants->data()));
  }
  Emitter(program, units, schedule, placements, *executable).run();
  describe_results(program, units, placements, *executable);
  return executable;
}

}  // namespace lockstep::compile
