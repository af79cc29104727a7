#include <algorithm>
#include <optional>
#include <vector>

#include "engine/ir/primitive.h"
#include "engine/ir/rewrite.h"
#include "engine/ops/primitives.h"
#include "engine/passes/draft.h"
#include "engine/passes/pass.h"

namespace lockstep::passes {
namespace {

using ir::Equation;
using ir::Var;

/// A checkpoint's body stays apart, or what it computes again would be merged with what was computed before.
bool is_inlined(const Equation& equation) {
  return equation.primitive->traits.call && equation.primitive != &ops::primitives::checkpoint();
}

}  // namespace

ir::FunctionPtr inline_calls(const ir::FunctionPtr& function) {
  const ir::FunctionPtr inner = map_sub_functions(function, inline_calls);
  if (std::ranges::none_of(inner->equations(), is_inlined)) return inner;
  return ir::rewrite(*inner, [](ir::Builder& builder, const Equation& equation, std::span<const Var> inputs) {
    std::optional<std::vector<Var>> results;
    if (is_inlined(equation)) results = builder.inline_function(*ir::sub_function(equation.attrs, "body"), inputs);
    return results;
  });
}

}  // namespace lockstep::passes
