#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include <lockstep/export.h>

#include "engine/ir/function.h"

// The functions among an equation's attributes.
namespace lockstep::ir {

/// The function that an attribute holds, or null.
FunctionPtr function_in(const AttrValue& value);
/// The sub-function in attribute `name`. Throws IrError where it is none.
LOCKSTEP_API FunctionPtr sub_function(const Attrs& attrs, std::string_view name);
/// All of them, in the attributes' order.
std::vector<FunctionPtr> sub_functions(const Attrs& attrs);

/// The attributes with every sub-function replaced by `change` of it.
Attrs map_sub_functions(const Attrs& attrs, const std::function<FunctionPtr(const FunctionPtr&)>& change);
/// Likewise, of an equation.
Equation map_sub_functions(const Equation& equation, const std::function<FunctionPtr(const FunctionPtr&)>& change);

/// Every equation, and behind each those of its sub-functions.
void for_each_equation(const Function& function, const std::function<void(const Equation&)>& visit);
/// Whether `holds` is true of the equation, or of one in its sub-functions.
bool any_equation(const Equation& equation, const std::function<bool(const Equation&)>& holds);
bool any_equation(const Function& function, const std::function<bool(const Equation&)>& holds);

}  // namespace lockstep::ir
