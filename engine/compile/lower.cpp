#include <algorithm>
#include <array>
#include <functional>
#include <span>
#include <utility>

#include "engine/compile/compile.h"
#include "engine/compile/program.h"
#include "engine/ir/verify.h"
#include "engine/passes/pass.h"

namespace lockstep::compile {

namespace {

std::shared_ptr<const Executable> lower_with(const Options& options, const std::function<void(Program&)>& write) {
  KernelTable table(options.backends);
  Program program(table, options);
  if (options.communicator != nullptr) {
    program.communicator = options.communicator;
    program.process = options.communicator->rank();
    program.processes = options.communicator->size();
  }
  write(program);
  if (options.verify) verify(program, "write_out");
  for (const Stage& stage : stages(options)) {
    stage.run(program);
    if (options.verify) verify(program, stage.name);
  }
  return emit(program);
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
  static constexpr std::array all = {
      Stage{"choose_views", choose_views}, Stage{"group_shards", group_shards}, Stage{"fuse_epilogues", fuse_epilogues},
      Stage{"make_units", make_units},     Stage{"schedule", schedule},         Stage{"place", place}};
  static constexpr std::array unfused = {all[0], all[1], all[3], all[4], all[5]};
  return options.fuse ? std::span<const Stage>(all) : std::span<const Stage>(unfused);
}

std::shared_ptr<const Executable> lower(const ir::FunctionPtr& function, const Options& options) {
  const ir::FunctionPtr optimized = optimize(function, options);
  return lower_with(options, [&](Program& program) { write_out(program, *optimized); });
}

std::shared_ptr<const Executable> lower_body(const ir::FunctionPtr& function, const Options& options,
                                             const BodySpec& spec) {
  return lower_with(options, [&](Program& program) {
    program.is_shared = spec.mesh.has_value();
    write_body_out(program, *function, spec);
  });
}

}  // namespace lockstep::compile
