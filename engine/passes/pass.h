#pragma once

#include <string_view>
#include <vector>

#include "engine/ir/function.h"

namespace lockstep::passes {

/// A rewriting of whole functions that keeps their bits.
struct Pass {
  std::string_view name;
  ir::FunctionPtr (*run)(const ir::FunctionPtr&);
};

ir::FunctionPtr inline_calls(const ir::FunctionPtr& function);  ///< Writes calls in place, but for checkpoints.
/// Makes constants of what a loop carries and never changes.
ir::FunctionPtr invariant_carries(const ir::FunctionPtr& function);
ir::FunctionPtr hoist(const ir::FunctionPtr& function);   ///< Moves out of a scan what is the same in each iteration.
ir::FunctionPtr unroll(const ir::FunctionPtr& function);  ///< Writes out as many iterations of a scan as it asks for.
ir::FunctionPtr decompose(const ir::FunctionPtr& function);  ///< Writes a split as slices.
ir::FunctionPtr fold(const ir::FunctionPtr& function);       ///< Computes what is arithmetic on constants.
ir::FunctionPtr dce(const ir::FunctionPtr& function);        ///< Drops equations nobody uses (sub-functions too).
ir::FunctionPtr cse(const ir::FunctionPtr& function);        ///< Merges equal equations.
ir::FunctionPtr simplify(const ir::FunctionPtr& function);  ///< Only rewrites that keep every bit, NaN and -0 included.
/// Has a scan compute again what is quickly computed from other rows it reads, and stack each row once.
ir::FunctionPtr rematerialize_scans(const ir::FunctionPtr& function);
ir::FunctionPtr order_effects(const ir::FunctionPtr& function);  ///< Makes each effect an operand of the next one.
ir::FunctionPtr schedule_collectives(const ir::FunctionPtr& function);  ///< Start as early, wait as late as possible.
/// Makes one equation, `fused`, of element-wise ones that can be computed in one loop.
ir::FunctionPtr fuse(const ir::FunctionPtr& function);

/// Products and convolutions of float32 on operands rounded to bfloat16: the one pass that changes bits, run where it is
/// asked for, behind the pipeline and before `fuse`.
ir::FunctionPtr multiply_in_bfloat16(const ir::FunctionPtr& function);

/// In the order they run. `fuse` follows where some backend has kernels for what it makes.
const std::vector<Pass>& pipeline();
/// The pipeline, with `verify` before and after each pass when asked.
ir::FunctionPtr run_pipeline(ir::FunctionPtr function, bool verify_each);

}  // namespace lockstep::passes
