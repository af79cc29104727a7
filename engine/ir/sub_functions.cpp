#include "engine/ir/sub_functions.h"

#include <algorithm>
#include <memory>
#include <string>
#include <variant>

#include <lockstep/error.h>

namespace lockstep::ir {

FunctionPtr function_in(const AttrValue& value) {
  const auto* object = std::get_if<std::shared_ptr<const AttrObject>>(&value);
  return object == nullptr ? nullptr : std::dynamic_pointer_cast<const Function>(*object);
}

FunctionPtr sub_function(const Attrs& attrs, std::string_view name) {
  const AttrValue& value = attrs.at(name);
  if (FunctionPtr function = function_in(value)) return function;
  throw IrError("attribute " + std::string(name) + "=" + to_string(value) + " is no function");
}

std::vector<FunctionPtr> sub_functions(const Attrs& attrs) {
  std::vector<FunctionPtr> functions;
  for (const Attrs::Entry& entry : attrs.entries()) {
    if (FunctionPtr function = function_in(entry.value)) functions.push_back(std::move(function));
  }
  return functions;
}

Attrs map_sub_functions(const Attrs& attrs, const std::function<FunctionPtr(const FunctionPtr&)>& change) {
  Attrs changed = attrs;
  for (const Attrs::Entry& entry : attrs.entries()) {
    const FunctionPtr function = function_in(entry.value);
    if (function == nullptr) continue;
    FunctionPtr other = change(function);
    if (other != function) changed = changed.with(entry.name, std::shared_ptr<const AttrObject>(std::move(other)));
  }
  return changed;
}

Equation map_sub_functions(const Equation& equation, const std::function<FunctionPtr(const FunctionPtr&)>& change) {
  Equation changed = equation;
  changed.attrs = map_sub_functions(equation.attrs, change);
  return changed;
}

void for_each_equation(const Function& function, const std::function<void(const Equation&)>& visit) {
  for (const Equation& equation : function.equations()) {
    visit(equation);
    for (const FunctionPtr& inner : sub_functions(equation.attrs)) for_each_equation(*inner, visit);
  }
}

bool any_equation(const Equation& equation, const std::function<bool(const Equation&)>& holds) {
  return holds(equation) || std::ranges::any_of(sub_functions(equation.attrs),
                                                [&](const FunctionPtr& inner) { return any_equation(*inner, holds); });
}

bool any_equation(const Function& function, const std::function<bool(const Equation&)>& holds) {
  return std::ranges::any_of(function.equations(),
                             [&](const Equation& equation) { return any_equation(equation, holds); });
}

}  // namespace lockstep::ir
