#include "engine/passes/dce_control_flow.h"

#include <algorithm>
#include <span>

#include "engine/ir/control_flow.h"
#include "engine/ir/primitive.h"
#include "engine/ops/control_flow/sub_functions.h"
#include "engine/passes/pass.h"

namespace lockstep::passes {

namespace {

using ir::Equation;
using ir::FunctionPtr;
using ops::control_flow::pick;
using ops::control_flow::places;
using ops::control_flow::Places;
using ops::control_flow::used_inputs;

std::vector<bool> live_outputs(const Equation& equation, const std::vector<bool>& live) {
  std::vector<bool> flags;
  for (const ir::Var v : equation.outputs) flags.push_back(live[v.id]);
  return flags;
}

Places places_of(const std::vector<bool>& flags) { return ops::control_flow::places_of(flags, true); }

/// The function with some of its outputs, without what they do not need.
FunctionPtr restricted(const FunctionPtr& f, const std::vector<bool>& outputs) {
  return dce(pick(*f, places(0, f->inputs().size()), places_of(outputs)));
}

FunctionPtr with_inputs(const FunctionPtr& f, const std::vector<bool>& inputs) {
  return pick(*f, places_of(inputs), places(0, f->outputs().size()));
}

void keep(Equation& equation, const std::vector<bool>& inputs, const std::vector<bool>& outputs, Attrs attrs) {
  equation.inputs = ops::control_flow::at(std::span<const ir::Var>(equation.inputs), places_of(inputs));
  equation.outputs = ops::control_flow::at(std::span<const ir::Var>(equation.outputs), places_of(outputs));
  equation.attrs = std::move(attrs);
}

std::size_t count(const std::vector<bool>& flags, std::size_t first, std::size_t number) {
  const auto begin = flags.begin() + static_cast<std::ptrdiff_t>(first);
  return static_cast<std::size_t>(std::count(begin, begin + static_cast<std::ptrdiff_t>(number), true));
}

/// Marks carries that are used and not yet needed; whether there were any.
bool add_used(std::vector<bool>& needed, const std::vector<bool>& used, std::size_t first, std::size_t carries) {
  bool changed = false;
  for (std::size_t i = 0; i < carries; ++i) {
    changed = changed || (used[first + i] && !needed[i]);
    needed[i] = needed[i] || used[first + i];
  }
  return changed;
}

void trim_scan(Equation& equation, const std::vector<bool>& live) {
  ir::Scan scan = ir::Scan::of(equation.attrs);
  std::vector<bool> outputs = live_outputs(equation, live), used;
  FunctionPtr body;
  do {
    body = restricted(scan.body, outputs);
    used = used_inputs(*body);
  } while (add_used(outputs, used, scan.consts, scan.carries));
  for (std::size_t i = 0; i < scan.carries; ++i) used[scan.consts + i] = outputs[i];
  const std::size_t consts = count(used, 0, scan.consts);
  scan.carries = count(used, scan.consts, scan.carries);
  scan.consts = consts;
  scan.body = with_inputs(body, used);
  keep(equation, used, outputs, scan.attrs());
}

void trim_while(Equation& equation, const std::vector<bool>& live) {
  ir::WhileLoop loop = ir::WhileLoop::of(equation.attrs);
  const std::size_t carries = loop.carries();
  const FunctionPtr cond = dce(loop.cond);
  const std::vector<bool> of_cond = used_inputs(*cond);
  std::vector<bool> outputs = live_outputs(equation, live), of_body;
  add_used(outputs, of_cond, loop.cond_consts, carries);
  FunctionPtr body;
  do {
    body = restricted(loop.body, outputs);
    of_body = used_inputs(*body);
  } while (add_used(outputs, of_body, loop.body_consts, carries));
  std::vector<bool> cond_inputs(of_cond.begin(), of_cond.begin() + static_cast<std::ptrdiff_t>(loop.cond_consts));
  std::vector<bool> body_inputs(of_body.begin(), of_body.begin() + static_cast<std::ptrdiff_t>(loop.body_consts));
  std::vector<bool> operands = cond_inputs;
  operands.insert(operands.end(), body_inputs.begin(), body_inputs.end());
  for (std::vector<bool>* flags : {&cond_inputs, &body_inputs, &operands}) {
    flags->insert(flags->end(), outputs.begin(), outputs.end());
  }
  const ir::WhileLoop trimmed{with_inputs(cond, cond_inputs), with_inputs(body, body_inputs),
                              count(of_cond, 0, loop.cond_consts), count(of_body, 0, loop.body_consts)};
  keep(equation, operands, outputs, trimmed.attrs());
}

void trim_cond(Equation& equation, const std::vector<bool>& live) {
  ir::Cond cond = ir::Cond::of(equation.attrs);
  const std::vector<bool> outputs = live_outputs(equation, live);
  std::vector<bool> used(equation.inputs.size() - 1);
  for (FunctionPtr& branch : cond.branches) {
    branch = restricted(branch, outputs);
    const std::vector<bool> own = used_inputs(*branch);
    for (std::size_t i = 0; i < used.size(); ++i) used[i] = used[i] || own[i];
  }
  for (FunctionPtr& branch : cond.branches) branch = with_inputs(branch, used);
  used.insert(used.begin(), true);
  keep(equation, used, outputs, cond.attrs());
}

}  // namespace

bool drop_dead_parts(Equation& equation, const std::vector<bool>& live) {
  const std::string& op = equation.primitive->name;
  if (op == "scan") {
    trim_scan(equation, live);
  } else if (op == "while_loop") {
    trim_while(equation, live);
  } else if (op == "cond") {
    trim_cond(equation, live);
  } else {
    return false;
  }
  return true;
}

}  // namespace lockstep::passes
