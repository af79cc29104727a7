#include "engine/ops/rules/flops.h"

#include <utility>

namespace lockstep::ops::flops {

using ir::CostContext;

ir::Flops per_element(std::size_t operand, double each) {
  return [=](const CostContext& context) { return each * static_cast<double>(context.inputs[operand].size()); };
}

ir::Flops per_result(double each) {
  return [=](const CostContext& context) { return each * static_cast<double>(context.outputs[0].size()); };
}

ir::Flops per_matrix(std::function<double(double rows, double columns)> rule) {
  return [rule = std::move(rule)](const CostContext& context) {
    const Shape& a = context.inputs[0].shape;
    const auto m = static_cast<double>(a.dim(-2)), n = static_cast<double>(a.dim(-1));
    return m * n == 0 ? 0 : static_cast<double>(a.size()) / (m * n) * rule(m, n);
  };
}

}  // namespace lockstep::ops::flops
