#include "engine/ir/control_flow.h"
#include "engine/ops/control_flow/hoisting.h"
#include "engine/ops/primitives.h"
#include "engine/passes/draft.h"
#include "engine/passes/pass.h"

// Loop-invariant code motion: what a scan computes in each iteration and need not, for it is the same each time.
namespace lockstep::passes {

ir::FunctionPtr hoist(const ir::FunctionPtr& function) {
  return rewrite_each(function, ops::primitives::scan(),
                      [](auto& builder, const ir::Equation& equation, auto operands) {
                        return ops::control_flow::hoisted_scan(builder, ir::Scan::of(equation.attrs), operands,
                                                               ops::control_flow::Hoist::compiled);
                      });
}

}  // namespace lockstep::passes
