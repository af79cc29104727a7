#include <utility>

#include "engine/compile/compile.h"
#include "engine/compile/program.h"
#include "engine/passes/pass.h"

namespace lockstep::compile {

std::shared_ptr<const Executable> lower(const ir::FunctionPtr& function, const Options& options) {
  const ir::FunctionPtr optimized = options.optimize ? passes::run_pipeline(function, options.verify) : function;
  KernelTable table(options.backends);
  Program program(table);
  if (options.communicator != nullptr) {
    program.communicator = options.communicator;
    program.process = options.communicator->rank();
    program.processes = options.communicator->size();
  }
  write_out(program, *optimized);
  choose_views(program);
  make_units(program);
  schedule(program, options.threads);
  place(program);
  return emit(program, *optimized);
}

}  // namespace lockstep::compile
