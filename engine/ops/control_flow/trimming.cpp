#include <algorithm>
#include <span>

#include "engine/ir/control_flow.h"
#include "engine/ops/control_flow/rules.h"
#include "engine/ops/control_flow/sub_functions.h"

// Results that nobody uses, and what only they need of the sub-functions: a carry may need itself alone.
namespace lockstep::ops::control_flow {

namespace {

using ir::Equation;

Places kept(const std::vector<bool>& flags) { return places_of(flags, true); }

/// The function with some of its outputs, without what they do not need.
FunctionPtr restricted(const ir::TrimContext& context, const FunctionPtr& f, const std::vector<bool>& outputs) {
  return context.without_dead_code(pick(*f, places(0, f->inputs().size()), kept(outputs)));
}

FunctionPtr with_inputs(const FunctionPtr& f, const std::vector<bool>& inputs) {
  return pick(*f, kept(inputs), places(0, f->outputs().size()));
}

Equation with_kept(Equation equation, const std::vector<bool>& inputs, const std::vector<bool>& outputs, Attrs attrs) {
  equation.inputs = at(std::span<const ir::Var>(equation.inputs), kept(inputs));
  equation.outputs = at(std::span<const ir::Var>(equation.outputs), kept(outputs));
  equation.attrs = std::move(attrs);
  return equation;
}

std::size_t count_flags(const std::vector<bool>& flags, std::size_t first, std::size_t number) {
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

}  // namespace

Equation trim_scan(const ir::TrimContext& context) {
  const Equation& equation = context.equation;
  ir::Scan scan = ir::Scan::of(equation.attrs);
  std::vector<bool> outputs = context.live, used;
  FunctionPtr body;
  do {
    body = restricted(context, scan.body, outputs);
    used = used_inputs(*body);
  } while (add_used(outputs, used, scan.consts, scan.carries));
  for (std::size_t i = 0; i < scan.carries; ++i) used[scan.consts + i] = outputs[i];
  const std::size_t consts = count_flags(used, 0, scan.consts);
  scan.carries = count_flags(used, scan.consts, scan.carries);
  scan.consts = consts;
  scan.body = with_inputs(body, used);
  return with_kept(equation, used, outputs, scan.attrs());
}

Equation trim_while_loop(const ir::TrimContext& context) {
  const Equation& equation = context.equation;
  ir::WhileLoop loop = ir::WhileLoop::of(equation.attrs);
  const std::size_t carries = loop.carries();
  const FunctionPtr cond = context.without_dead_code(loop.cond);
  const std::vector<bool> of_cond = used_inputs(*cond);
  std::vector<bool> outputs = context.live, of_body;
  add_used(outputs, of_cond, loop.cond_consts, carries);
  FunctionPtr body;
  do {
    body = restricted(context, loop.body, outputs);
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
                              count_flags(of_cond, 0, loop.cond_consts), count_flags(of_body, 0, loop.body_consts)};
  return with_kept(equation, operands, outputs, trimmed.attrs());
}

Equation trim_cond(const ir::TrimContext& context) {
  const Equation& equation = context.equation;
  ir::Cond cond = ir::Cond::of(equation.attrs);
  const std::vector<bool> outputs = context.live;
  std::vector<bool> used(equation.inputs.size() - 1);
  for (FunctionPtr& branch : cond.branches) {
    branch = restricted(context, branch, outputs);
    const std::vector<bool> own = used_inputs(*branch);
    for (std::size_t i = 0; i < used.size(); ++i) used[i] = used[i] || own[i];
  }
  for (FunctionPtr& branch : cond.branches) branch = with_inputs(branch, used);
  used.insert(used.begin(), true);
  return with_kept(equation, used, outputs, cond.attrs());
}

/// A body that runs once: all of its results are the equation's, all of its inputs the operands.
Equation trim_body(const ir::TrimContext& context) {
  const FunctionPtr body = restricted(context, ir::sub_function(context.equation.attrs, "body"), context.live);
  const std::vector<bool> used = used_inputs(*body);
  Attrs attrs = context.equation.attrs.with("body", std::shared_ptr<const AttrObject>(with_inputs(body, used)));
  using Layouts = std::vector<std::vector<std::string>>;
  const auto keep_layouts = [&](const char* name, const std::vector<bool>& flags) {
    if (!attrs.has(name)) return;
    const Layouts all = attrs.get<Layouts>(name);
    attrs = attrs.with(name, at(std::span<const std::vector<std::string>>(all), kept(flags)));
  };
  keep_layouts("in", used);
  keep_layouts("out", context.live);
  return with_kept(context.equation, used, context.live, std::move(attrs));
}

}  // namespace lockstep::ops::control_flow
