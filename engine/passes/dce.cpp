#include <algorithm>
#include <utility>
#include <vector>

#include "engine/ir/primitive.h"
#include "engine/passes/draft.h"
#include "engine/passes/pass.h"

namespace lockstep::passes {
namespace {

using ir::Equation;
using ir::FunctionPtr;
using ir::Var;

Equation without_dead_parts(const Equation& equation, const std::vector<bool>& live) {
  const ir::TrimRule trim = equation.primitive->sub_functions.trim;
  if (trim == nullptr) return map_sub_functions(equation, dce);
  std::vector<bool> live_outputs;
  for (const Var v : equation.outputs) live_outputs.push_back(live[v.id]);
  return trim({equation, live_outputs, dce});
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
    Equation equation = without_dead_parts(*it, live);
    for (Var v : equation.inputs) live[v.id] = true;
    kept.push_back(std::move(equation));
  }
  std::reverse(kept.begin(), kept.end());
  draft.equations = std::move(kept);
  return draft.finish();
}

}  // namespace lockstep::passes
