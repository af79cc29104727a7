#include <utility>

#include "engine/ir/control_flow.h"
#include "engine/ops/control_flow/rules.h"

// Operands more, as constants of loops; and what decides which way a shard goes.
namespace lockstep::ops::control_flow {

namespace {

void insert(ir::Equation& equation, std::size_t at, std::span<const ir::Var> operands) {
  equation.inputs.insert(equation.inputs.begin() + static_cast<std::ptrdiff_t>(at), operands.begin(), operands.end());
}

}  // namespace

ir::Equation capture_in_scan(const ir::Equation& equation, std::span<const ir::Var> operands,
                             const ir::Extend& extend) {
  ir::Equation changed = equation;
  ir::Scan scan = ir::Scan::of(equation.attrs);
  insert(changed, scan.consts, operands);
  scan.body = extend(*scan.body, scan.consts);
  scan.consts += operands.size();
  changed.attrs = scan.attrs();
  return changed;
}

ir::Equation capture_in_while_loop(const ir::Equation& equation, std::span<const ir::Var> operands,
                                   const ir::Extend& extend) {
  ir::Equation changed = equation;
  ir::WhileLoop loop = ir::WhileLoop::of(equation.attrs);
  insert(changed, loop.cond_consts + loop.body_consts, operands);
  insert(changed, loop.cond_consts, operands);
  loop.cond = extend(*loop.cond, loop.cond_consts);
  loop.body = extend(*loop.body, loop.body_consts);
  loop.cond_consts += operands.size();
  loop.body_consts += operands.size();
  changed.attrs = loop.attrs();
  return changed;
}

AxisSet choice_of_while_loop(const ir::Function&, const ir::Equation& equation) {
  const ir::WhileLoop loop = ir::WhileLoop::of(equation.attrs);
  return loop.cond->type(loop.cond->outputs().at(0)).varying;
}

AxisSet choice_of_cond(const ir::Function& function, const ir::Equation& equation) {
  return function.type(equation.inputs[0]).varying;
}

}  // namespace lockstep::ops::control_flow
