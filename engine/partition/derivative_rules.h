#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "engine/partition/analysis.h"

// Calls with a derivative of their own: custom_jvp, custom_vjp, linear_solve, root. They stay calls, on blocks, as a
// derivative of the partitioned function has to find their rules.
namespace lockstep::partition {

/// Whether the equation is such a call.
bool has_derivative_rule(const ir::Equation& equation);
/// The layouts of its results, whose body would give them as `of_body`.
std::vector<ValueLayout> results_of_rule(const ir::Equation& equation, const std::vector<ValueLayout>& operands,
                                         std::vector<ValueLayout> of_body);

/// A function on blocks with these layouts of inputs and outputs, those of the function itself where there is none.
struct OnBlocks {
  ir::FunctionPtr function;
  std::vector<ValueLayout> outputs;
};
using Partitioner = std::function<OnBlocks(const ir::FunctionPtr& function, const std::vector<ValueLayout>& inputs,
                                           const std::vector<std::optional<ValueLayout>>& outputs)>;
/// The attributes with all their functions but the body on blocks.
Attrs rules_on_blocks(const ir::Equation& equation, const Resolution& resolution, const Partitioner& partitioned);

}  // namespace lockstep::partition
