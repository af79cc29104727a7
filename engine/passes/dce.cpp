#include <algorithm>
#include <utility>
#include <vector>

#include "engine/ir/primitive.h"
#include "engine/passes/dce_control_flow.h"
#include "engine/passes/draft.h"
#include "engine/passes/pass.h"

namespace lockstep::passes {
namespace {

using ir::Equation;
using ir::FunctionPtr;
using ir::Var;

using Layouts = std::vector<std::vector<std::string>>;

/// A pmap or checkpoint without the results that nobody uses and the operands that its body then does not need.
Equation without_dead_parts(const Equation& call, const std::vector<bool>& live) {
  const auto in = call.attrs.get_or<Layouts>("in", Layouts(call.inputs.size()));
  const auto out = call.attrs.get_or<Layouts>("out", Layouts(call.outputs.size()));
  Draft body(*ir::sub_function(call.attrs, "body"));
  Equation changed = call;
  changed.inputs.clear();
  changed.outputs.clear();
  Layouts kept_in;
  Layouts kept_out;
  std::vector<Var> body_outputs;
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    if (!live[call.outputs[i].id]) continue;
    changed.outputs.push_back(call.outputs[i]);
    body_outputs.push_back(body.outputs[i]);
    kept_out.push_back(out[i]);
  }
  body.outputs = std::move(body_outputs);
  body = Draft(*dce(body.finish()));
  std::vector<bool> used(body.types.size(), false);
  for (const Equation& equation : body.equations) {
    for (Var v : equation.inputs) used[v.id] = true;
  }
  for (Var v : body.outputs) used[v.id] = true;
  std::vector<Var> body_inputs;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    if (!used[body.inputs[i].id]) continue;
    changed.inputs.push_back(call.inputs[i]);
    body_inputs.push_back(body.inputs[i]);
    kept_in.push_back(in[i]);
  }
  body.inputs = std::move(body_inputs);
  changed.attrs = call.attrs.with("body", std::shared_ptr<const AttrObject>(body.finish()));
  if (call.attrs.has("in")) changed.attrs = changed.attrs.with("in", kept_in).with("out", kept_out);
  return changed;
}

bool has_dead_parts_dropped(const Equation& equation) {
  return equation.primitive->name == "pmap" || equation.primitive->name == "checkpoint";
}

}  // namespace

FunctionPtr dce(const FunctionPtr& function) {
  Draft draft(*function);
  std::vector<bool> live(draft.types.size(), false);
  for (Var v : draft.outputs) live[v.id] = true;
  std::vector<Equation> kept;
  for (auto it = draft.equations.rbegin(); it != draft.equations.rend(); ++it) {
    const auto is_live = [&](Var v) { return bool(live[v.id]); };
    if (std::none_of(it->outputs.begin(), it->outputs.end(), is_live) && !ir::has_effects(*it)) continue;
    Equation equation = *it;
    if (!drop_dead_parts(equation, live)) {
      equation = has_dead_parts_dropped(*it) ? without_dead_parts(*it, live) : map_sub_functions(*it, dce);
    }
    for (Var v : equation.inputs) live[v.id] = true;
    kept.push_back(std::move(equation));
  }
  std::reverse(kept.begin(), kept.end());
  draft.equations = std::move(kept);
  return draft.finish();
}

}  // namespace lockstep::passes
