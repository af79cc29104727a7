#include <utility>

#include "engine/ir/verify.h"
#include "engine/passes/pass.h"

namespace lockstep::passes {

const std::vector<Pass>& pipeline() {
  static const std::vector<Pass> passes = {
      {"inline_calls", inline_calls},
      {"invariant_carries", invariant_carries},
      {"hoist", hoist},
      {"unroll", unroll},
      {"decompose", decompose},
      {"dce", dce},
      {"fold", fold},
      {"simplify", simplify},
      {"cse", cse},
      {"rematerialize_scans", rematerialize_scans},
      {"simplify", simplify},
      {"dce", dce},
      {"order_effects", order_effects},
      {"schedule_collectives", schedule_collectives},
  };
  return passes;
}

ir::FunctionPtr run_pipeline(ir::FunctionPtr function, bool verify_each) {
  if (verify_each) ir::verify(*function);
  for (const Pass& pass : pipeline()) {
    function = pass.run(function);
    if (verify_each) ir::verify(*function);
  }
  return function;
}

}  // namespace lockstep::passes
