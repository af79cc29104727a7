#include "engine/passes/draft.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

namespace lockstep::passes {

using ir::Equation;
using ir::FunctionPtr;
using ir::Var;

Draft::Draft(const ir::Function& function)
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
  return std::make_shared<const ir::Function>(std::move(axes), std::move(kept), std::move(inputs), std::move(equations),
                                              std::move(outputs));
}

void Substitution::replace(Var old_var, Var new_var) {
  while (by_id_.size() <= old_var.id) by_id_.push_back(Var{static_cast<std::uint32_t>(by_id_.size())});
  by_id_[old_var.id] = (*this)(new_var);
}

Var Substitution::operator()(Var v) const { return v.id < by_id_.size() ? by_id_[v.id] : v; }

void Substitution::apply(std::vector<Var>& vars) const {
  for (Var& v : vars) v = (*this)(v);
}

FunctionPtr map_sub_functions(const FunctionPtr& function,
                              const std::function<FunctionPtr(const FunctionPtr&)>& change) {
  std::optional<Draft> draft;
  for (std::size_t i = 0; i < function->equations().size(); ++i) {
    const Equation& equation = function->equations()[i];
    if (ir::sub_functions(equation.attrs).empty()) continue;
    Equation changed = ir::map_sub_functions(equation, change);
    if (changed.attrs == equation.attrs) continue;
    if (!draft) draft.emplace(*function);
    draft->equations[i] = std::move(changed);
  }
  return draft ? draft->finish() : function;
}

FunctionPtr rewrite_each(const FunctionPtr& function, const ir::Primitive& primitive, const ir::RewriteRule& rule) {
  FunctionPtr inner =
      map_sub_functions(function, [&](const FunctionPtr& f) { return rewrite_each(f, primitive, rule); });
  const auto is_meant = [&](const Equation& equation) { return equation.primitive == &primitive; };
  if (std::ranges::none_of(inner->equations(), is_meant)) return inner;
  return ir::rewrite(*inner, [&](ir::Builder& builder, const Equation& equation, std::span<const Var> inputs) {
    return is_meant(equation) ? rule(builder, equation, inputs) : std::nullopt;
  });
}

}  // namespace lockstep::passes
