#include <algorithm>
#include <array>
#include <functional>
#include <span>
#include <utility>

#include "engine/compile/compile.h"
#include "engine/compile/program.h"
#include "engine/compile/stages.h"
#include "engine/ir/verify.h"
#include "engine/passes/pass.h"

namespace lockstep::compile {

namespace {

/// What processes that call the program together must have alike, beside the program itself.
ProcessEntries entries_of(const Program& program) {
  ProcessEntries entries;
  for (const Mesh& mesh : program.meshes) {
    std::string axes;
    for (const auto& axis : mesh.axes.axes())
      axes += (axes.empty() ? "" : " x ") + axis.name + " " + std::to_string(axis.size);
    entries.emplace_back("the mesh", axes);
    entries.emplace_back("the number of shards (V)", std::to_string(mesh.shards));
    entries.emplace_back("the number of devices a process", std::to_string(mesh.devices));
  }
  entries.emplace_back("the precision", name(program.options.precision));
  entries.emplace_back("LOCKSTEP_BUCKET_BYTES", std::to_string(program.options.bucket_bytes));
  return entries;
}

/// `function`: what is called, not the body of a loop; else null.
std::shared_ptr<const Executable> lower_with(const Options& options, const ir::FunctionPtr& function,
                                             const std::function<void(Program&)>& write) {
  KernelPool kernels(options.backends);
  Program program(kernels, options);
  if (options.processes != nullptr) {
    program.group = options.processes;
    program.process = options.processes->rank();
    program.processes = options.processes->size();
  }
  write(program);
  if (options.verify) verify(program, "write_out");
  Decided decided;
  for (const Stage& stage : stages(options)) {
    stage.run(program, decided);
    if (options.verify) stage.verify(program, decided, stage.name);
  }
  const std::shared_ptr<Executable> executable = emit(program, *decided.units, *decided.schedule, *decided.placements);
  if (function != nullptr && program.processes > 1 && executable->communicates()) {
    executable->process_calls = std::make_shared<ProcessCalls>(program.group, function, entries_of(program));
  }
  return executable;
}

ir::FunctionPtr optimize(const ir::FunctionPtr& function, const Options& options) {
  if (!options.optimize) return function;
  ir::FunctionPtr optimized = passes::run_pipeline(function, options.verify);
  if (options.precision == Precision::bfloat16) {
    optimized = passes::multiply_in_bfloat16(optimized);
    if (options.verify) ir::verify(*optimized);
  }
  const bool has_loops = std::ranges::any_of(options.backends, [](const auto& backend) { return backend->fuses(); });
  if (!options.fuse || !has_loops) return optimized;
  const ir::FunctionPtr fused = passes::fuse(optimized);
  if (options.verify) ir::verify(*fused);
  return fused;
}

}  // namespace

std::span<const Stage> stages(const Options& options) {
  using Behind = std::string_view;
  static constexpr std::array all = {
      Stage{"choose_views", [](const Program& p, Decided& d) { d.choices = choose_views(p); },
            [](const Program& p, const Decided& d, Behind b) { verify(p, *d.choices, b); }},
      Stage{"group_shards", [](const Program& p, Decided& d) { d.grouped = group_shards(p); },
            [](const Program& p, const Decided& d, Behind b) { verify(p, *d.grouped, b); }},
      Stage{"fuse_epilogues",
            [](const Program& p, Decided& d) { d.epilogues = fuse_epilogues(p, *d.choices, *d.grouped); },
            [](const Program& p, const Decided& d, Behind b) { verify(p, *d.epilogues, b); }},
      Stage{"make_units",
            [](const Program& p, Decided& d) {
              if (!d.epilogues) d.epilogues = no_epilogues(p);
              d.units = make_units(p, *d.choices, *d.grouped, *d.epilogues);
            },
            [](const Program& p, const Decided& d, Behind b) { verify(p, *d.units, b); }},
      Stage{"schedule", [](const Program& p, Decided& d) { d.schedule = schedule(p, *d.units); },
            [](const Program&, const Decided& d, Behind b) { verify(*d.units, *d.schedule, b); }},
      Stage{"place_values", [](const Program& p, Decided& d) { d.placements = place_values(p, *d.units, *d.schedule); },
            [](const Program& p, const Decided& d, Behind b) { verify(p, *d.units, *d.schedule, *d.placements, b); }}};
  static constexpr std::array unfused = {all[0], all[1], all[3], all[4], all[5]};
  return options.fuse ? std::span<const Stage>(all) : std::span<const Stage>(unfused);
}

std::shared_ptr<const Executable> lower(const ir::FunctionPtr& function, const Options& options) {
  CutSignature cut = cut_signature(*function, options);
  const ir::FunctionPtr optimized = optimize(function, options);
  return lower_with(options, function, [&](Program& program) {
    program.is_called = true;
    program.cut = std::move(cut);
    write_out(program, *optimized);
  });
}

std::shared_ptr<const Executable> lower_body(const ir::FunctionPtr& function, const Options& options,
                                             const BodySpec& spec) {
  return lower_with(options, nullptr, [&](Program& program) {
    program.is_shared = spec.mesh.has_value();
    write_body_out(program, *function, spec);
  });
}

}  // namespace lockstep::compile
