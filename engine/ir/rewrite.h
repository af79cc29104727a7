#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "engine/ir/builder.h"
#include "engine/ir/function.h"

namespace lockstep::ir {

/// The parts of a Function while they are changed.
struct Draft {
  explicit Draft(const Function& function);

  /// A new value, to be defined by an equation that is added.
  Var new_var(const ArrayType& type);
  const ArrayType& type(Var v) const { return types[v.id]; }
  /// The finished function; types of vars that nothing defines any more are dropped.
  FunctionPtr finish();

  AxisSizes axes;
  std::vector<ArrayType> types;
  std::vector<Var> inputs;
  std::vector<Equation> equations;
  std::vector<Var> outputs;
};

/// For each equation, either replacement vars for its outputs (the rule emitted what it wanted into the builder) or
/// nothing to copy the equation as it is. `inputs` are the equation's operands in the new function.
using RewriteRule =
    std::function<std::optional<std::vector<Var>>(Builder&, const Equation&, std::span<const Var> inputs)>;

/// A new function with the rule applied to every equation in order.
FunctionPtr rewrite(const Function& function, const RewriteRule& rule);

/// The function with `map_sub_functions` done to all its equations; the same one where no sub-function changes.
FunctionPtr map_sub_functions(const FunctionPtr& function,
                              const std::function<FunctionPtr(const FunctionPtr&)>& change);

/// The function with the rule applied to every equation of the primitive, in sub-functions first; the same one where
/// there is none.
FunctionPtr rewrite_each(const FunctionPtr& function, const Primitive& primitive, const RewriteRule& rule);

}  // namespace lockstep::ir
