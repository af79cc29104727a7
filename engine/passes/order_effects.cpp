#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "engine/ir/primitive.h"
#include "engine/passes/draft.h"
#include "engine/passes/pass.h"

namespace lockstep::passes {

// Equations of a function run in any order that their operands allow, so each effect takes the result of the one before
// it as an operand. Effects that vary along other axes run in other places and are ordered among themselves.
ir::FunctionPtr order_effects(const ir::FunctionPtr& function) {
  if (std::ranges::none_of(function->equations(), ir::has_effects)) return function;
  Draft draft(*function);
  std::map<std::vector<std::string>, ir::Var> last;
  for (ir::Equation& equation : draft.equations) {
    if (!ir::has_effects(equation)) continue;
    equation = map_sub_functions(equation, order_effects);
    if (!equation.primitive->traits.effect) continue;
    const ir::Var done = equation.outputs[0];
    const std::vector<std::string>& axes = draft.types[done.id].varying.names();
    const auto before = last.find(axes);
    if (before != last.end() && !equation.attrs.get_or<bool>("ordered", false)) {
      equation.inputs.push_back(before->second);
      equation.attrs = equation.attrs.with("ordered", true);
    }
    last[axes] = done;
  }
  return draft.finish();
}

}  // namespace lockstep::passes
