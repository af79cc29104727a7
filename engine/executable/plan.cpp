#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "engine/executable/control_kernels.h"
#include "engine/executable/executable.h"

// What an executable costs, added up over its steps.
namespace lockstep::executable {
namespace {

class CostCount {
 public:
  /// Adds `times` runs.
  void add(const Executable& e, std::int64_t times) {
    for (const Step& step : e.steps) {
      if (step.kind != Step::Kind::shared) {
        const bool for_each_shard = step.kind == Step::Kind::region;
        add_calls(e, step.region, for_each_shard ? times * step.local_shards : times);
      }
      for (const BehindShards& once : step.behind_shards) add_calls(e, once.calls, times);
      for (const Lane& lane : step.lanes) {
        for (const auto* ranges : {&lane.on_caller, &lane.calls}) {
          for (const CallRange& range : *ranges) add_calls(e, range, times);
        }
      }
      for (const Collective& collective : step.collective_list) {
        collectives_[{collective.op, collective.bytes}] += times;
      }
    }
    for (const Chain& chain : e.chains) {
      add_calls(e, chain.calls, times * (chain.tiles - (chain.has_rest ? 1 : 0)));
      add_calls(e, chain.rest_calls, times);
    }
  }

  void write(PlanReport& plan) const {
    plan.flops = flops();
    plan.bytes = bytes_;
    plan.has_while_loops = has_while_loops_;
    for (const auto& [key, cost] : ops_) plan.ops.push_back(cost);
    std::stable_sort(plan.ops.begin(), plan.ops.end(), [](const OpCost& a, const OpCost& b) {
      return std::pair(a.flops, a.bytes) > std::pair(b.flops, b.bytes);
    });
    for (const auto& [key, times] : collectives_) plan.collective_costs.push_back({key.first, key.second, times});
  }

  double flops() const { return flops_; }

 private:
  void add_calls(const Executable& e, CallRange range, std::int64_t times) {
    if (times == 0) return;
    for (std::uint32_t c = range.first; c < range.last; ++c) add_call(e, c, times);
  }

  void add_call(const Executable& e, std::uint32_t c, std::int64_t times) {
    const CallNote& note = e.call_notes[c];
    const auto runs = static_cast<double>(times);
    OpCost& cost = ops_[{e.call_names[c], note.backend}];
    cost.op = e.call_names[c];
    cost.backend = note.backend;
    cost.runs += times;
    cost.flops += runs * note.flops;
    cost.bytes += runs * note.bytes;
    flops_ += runs * note.flops;
    bytes_ += runs * note.bytes;
    if (const auto* control = dynamic_cast<const ControlKernel*>(e.calls[c].kernel)) add_bodies(*control, times);
  }

  void add_bodies(const ControlKernel& control, std::int64_t times) {
    has_while_loops_ = has_while_loops_ || control.is_open_ended();
    if (!control.chooses()) {
      for (const Body& body : control.bodies()) add(*body.executable, times * control.trips());
      return;
    }
    const auto flops_of = [](const Body& body) {
      CostCount alone;
      alone.add(*body.executable, 1);
      return alone.flops();
    };
    const auto dearest = std::max_element(control.bodies().begin(), control.bodies().end(),
                                          [&](const Body& a, const Body& b) { return flops_of(a) < flops_of(b); });
    add(*dearest->executable, times);
  }

  std::map<std::pair<std::string, std::string>, OpCost> ops_;
  std::map<std::pair<std::string, std::int64_t>, std::int64_t> collectives_;
  double flops_ = 0;
  double bytes_ = 0;
  bool has_while_loops_ = false;
};

std::string print_totals(const PlanReport& plan) {
  std::string text = "total " + print_costs(plan.flops, plan.bytes) + (plan.has_while_loops ? " or more" : "") +
                     ", results " + std::to_string(plan.result_bytes) + " B\n";
  for (const OpCost& cost : plan.ops) {
    text += fmt::format("  {} {} x {}  # {}\n", cost.backend, cost.op, cost.runs, print_costs(cost.flops, cost.bytes));
  }
  for (const CollectiveCost& cost : plan.collective_costs) {
    text += fmt::format("  {} of {} B x {}\n", cost.op, cost.bytes, cost.times);
  }
  return text;
}

/// Kernels and collectives as they stand in the program, each once but for those of scans.
void count_calls(const Executable& e, PlanReport& plan) {
  plan.kernels = static_cast<int>(e.calls.size());
  for (const Chain& chain : e.chains) {
    plan.kernels -= static_cast<int>(chain.rest_calls.last - chain.rest_calls.first);
  }
  for (const Step& step : e.steps) {
    plan.barriers += step.barrier_after ? 1 : 0;
    plan.collectives += step.collectives;
  }
  for (const Call& call : e.calls) {
    const auto* control = dynamic_cast<const ControlKernel*>(call.kernel);
    if (control == nullptr) continue;
    for (const Body& body : control->bodies()) {
      PlanReport inner;
      count_calls(*body.executable, inner);
      plan.kernels += inner.kernels;
      plan.collectives += inner.collectives * static_cast<int>(control->trips());
    }
  }
}

}  // namespace

std::string print_costs(double flops, double bytes) { return fmt::format("{:.0f} flops, {:.0f} B", flops, bytes); }

PlanReport Executable::plan() const {
  PlanReport plan;
  plan.arena_bytes = arena_bytes;
  plan.shard_bytes = shard_bytes;
  plan.scratch_bytes = scratch_bytes;
  plan.constant_bytes = constant_bytes;
  plan.devices = devices;
  plan.local_shards = local_shards;
  plan.steps = static_cast<int>(steps.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    const bool is_written = results[i].kind == ResultSource::Kind::fresh;
    plan.result_bytes += is_written ? static_cast<std::size_t>(result_types[i].nbytes()) : 0;
  }
  count_calls(*this, plan);
  CostCount count;
  count.add(*this, 1);
  count.write(plan);
  plan.text = print({}, true) + print_totals(plan);
  return plan;
}

}  // namespace lockstep::executable
