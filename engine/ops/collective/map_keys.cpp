#include <string>
#include <vector>

#include "engine/ir/key_elements.h"
#include "engine/ops/collective/dimension_axes.h"
#include "engine/ops/collective/map_rules.h"

namespace lockstep::ops::collective {

using ir::KeyElements;

/// An operand that the body sees in parts is used as a whole if a part of it is.
std::vector<KeyElements> follow_map_keys(const ir::KeyContext& context) {
  const ir::Equation& equation = context.equation;
  using Layouts = std::vector<std::vector<std::string>>;
  const ir::FunctionPtr body = ir::sub_function(equation.attrs, "body");
  const auto& in = equation.attrs.get<Layouts>("in");
  const auto& out = equation.attrs.get<Layouts>("out");
  std::vector<KeyElements> inputs = {context.operands.begin(), context.operands.end()};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (is_cut(in[i])) inputs[i] = ir::new_keys(body->type(body->inputs()[i]));
  }
  std::vector<KeyElements> outputs = context.follow(*body, inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string by = is_cut(in[i]) ? ir::first_use(inputs[i]) : "";
    if (!by.empty()) ir::use_keys(context.operands[i], by);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (is_cut(out[i])) outputs[i] = ir::new_keys(context.function.type(equation.outputs[i]));
  }
  return outputs;
}

}  // namespace lockstep::ops::collective
