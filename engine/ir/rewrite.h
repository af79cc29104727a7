#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "engine/ir/builder.h"
#include "engine/ir/function.h"

namespace lockstep::ir {

/// For each equation, either replacement vars for its outputs (the rule emitted what it wanted into the builder) or
/// nothing to copy the equation as it is. `inputs` are the equation's operands in the new function.
using RewriteRule =
    std::function<std::optional<std::vector<Var>>(Builder&, const Equation&, std::span<const Var> inputs)>;

/// A new function with the rule applied to every equation in order.
FunctionPtr rewrite(const Function& function, const RewriteRule& rule);

}  // namespace lockstep::ir
