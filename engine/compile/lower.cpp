#include <algorithm>
#include <functional>
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
  choose_views(program);
  join_shards(program);
  if (options.fuse) join_loops(program);
  make_units(program);
  schedule(program);
  place(program);
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
