#include "engine/ir/rewrite.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <lockstep/error.h>

#include "engine/ir/primitive.h"
#include "engine/ir/sub_functions.h"
#include "engine/ir/text/print.h"

namespace lockstep::ir {

Draft::Draft(const Function& function)
    : axes(function.axes()),
      types(function.types()),
      inputs(function.inputs()),
      equations(function.equations()),
      outputs(function.outputs()) {}

Var Draft::new_var(const ArrayType& type) {
  types.push_back(type);
  return Var{static_cast<std::uint32_t>(types.size() - 1)};
}

FunctionPtr Draft::finish() {
  constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
  std::vector<std::uint32_t> number(types.size(), none);
  std::vector<ArrayType> kept;
  auto define = [&](std::vector<Var>& vars) {
    for (Var& v : vars) {
      number[v.id] = static_cast<std::uint32_t>(kept.size());
      kept.push_back(types[v.id]);
      v.id = number[v.id];
    }
  };
  auto use = [&](std::vector<Var>& vars) {
    for (Var& v : vars) v.id = number[v.id];
  };
  define(inputs);
  for (Equation& equation : equations) {
    use(equation.inputs);
    define(equation.outputs);
  }
  use(outputs);
  return std::make_shared<const Function>(std::move(axes), std::move(kept), std::move(inputs), std::move(equations),
                                          std::move(outputs));
}

FunctionPtr rewrite(const Function& function, const RewriteRule& rule) {
  Builder builder(function.axes());
  std::vector<Var> mapped(function.types().size());
  for (const Var v : function.inputs()) mapped[v.id] = builder.input(function.type(v));
  for (const Equation& equation : function.equations()) {
    std::vector<Var> operands;
    for (const Var v : equation.inputs) operands.push_back(mapped[v.id]);
    builder.set_provenance(equation.provenance);
    std::optional<std::vector<Var>> results = rule(builder, equation, operands);
    if (!results) results = builder.apply(*equation.primitive, operands, equation.attrs);
    if (results->size() != equation.outputs.size()) {
      throw IrError("rewrite: the rule gave " + std::to_string(results->size()) + " values for the " +
                    std::to_string(equation.outputs.size()) + " outputs of\n  " + print_equation(function, equation));
    }
    for (std::size_t i = 0; i < results->size(); ++i) mapped[equation.outputs[i].id] = (*results)[i];
  }
  std::vector<Var> outputs;
  for (const Var v : function.outputs()) outputs.push_back(mapped[v.id]);
  return builder.finish(std::move(outputs));
}

FunctionPtr map_sub_functions(const FunctionPtr& function,
                              const std::function<FunctionPtr(const FunctionPtr&)>& change) {
  std::optional<Draft> draft;
  for (std::size_t i = 0; i < function->equations().size(); ++i) {
    const Equation& equation = function->equations()[i];
    if (sub_functions(equation.attrs).empty()) continue;
    Equation changed = map_sub_functions(equation, change);
    if (changed.attrs == equation.attrs) continue;
    if (!draft) draft.emplace(*function);
    draft->equations[i] = std::move(changed);
  }
  return draft ? draft->finish() : function;
}

FunctionPtr rewrite_each(const FunctionPtr& function, const Primitive& primitive, const RewriteRule& rule) {
  FunctionPtr inner =
      map_sub_functions(function, [&](const FunctionPtr& f) { return rewrite_each(f, primitive, rule); });
  const auto is_meant = [&](const Equation& equation) { return equation.primitive == &primitive; };
  if (std::ranges::none_of(inner->equations(), is_meant)) return inner;
  return rewrite(*inner, [&](Builder& builder, const Equation& equation, std::span<const Var> inputs) {
    return is_meant(equation) ? rule(builder, equation, inputs) : std::nullopt;
  });
}

}  // namespace lockstep::ir
