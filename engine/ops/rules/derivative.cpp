#include "engine/ops/rules/derivative.h"

#include <utility>

#include <lockstep/error.h>

namespace lockstep::ops::derivative {

Derivative zero() { return {}; }

Derivative jvp(ir::JvpRule rule) {
  Derivative derivative;
  derivative.kind = Derivative::Kind::jvp;
  derivative.jvp = std::move(rule);
  return derivative;
}

ir::JvpRule sum_of(std::vector<Contribution> contributions) {
  return [contributions = std::move(contributions)](const JvpContext& context) -> std::vector<Tangent> {
    Tangent sum;
    for (std::size_t i = 0; i < context.tangents.size(); ++i) {
      if (!context.tangents[i] || i >= contributions.size() || !contributions[i]) continue;
      sum = add_tangents(sum, contributions[i](context, *context.tangents[i]));
    }
    return {sum};
  };
}

Derivative per_operand(std::vector<Contribution> contributions) { return jvp(sum_of(std::move(contributions))); }

Contribution refused(std::string op, std::string operand) {
  return [op = std::move(op), operand = std::move(operand)](const JvpContext&, const Value&) -> Tangent {
    throw TraceError(op + " has no derivative in its operand " + operand + "; put stop_gradient on that operand");
  };
}

Derivative unary(std::function<Value(const Value&, const Value&, const Value&)> rule) {
  return jvp([rule = std::move(rule)](const JvpContext& context) -> std::vector<Tangent> {
    return {rule(context.inputs[0], context.outputs[0], *context.tangents[0])};
  });
}

Derivative linear(ir::TransposeRule transpose, std::vector<int> linear_in, ir::JvpRule jvp) {
  Derivative derivative;
  derivative.kind = Derivative::Kind::linear;
  derivative.transpose = std::move(transpose);
  derivative.linear_in = std::move(linear_in);
  derivative.jvp = std::move(jvp);
  return derivative;
}

Derivative linear_in_one(int operand, std::function<Value(const TransposeContext&, const Value&)> transpose) {
  return linear(
      [operand, transpose = std::move(transpose)](const TransposeContext& context) {
        return only(context.input_types.size(), static_cast<std::size_t>(operand),
                    transpose(context, *context.cotangents[0]));
      },
      {operand});
}

Derivative bilinear(Side left, Side right) {
  Derivative derivative;
  derivative.kind = Derivative::Kind::bilinear;
  derivative.transpose = [left = std::move(left),
                          right = std::move(right)](const TransposeContext& context) -> std::vector<Tangent> {
    const Value& cotangent = *context.cotangents[0];
    if (context.inputs[1]) return {left(context, cotangent, *context.inputs[1]), std::nullopt};
    return {std::nullopt, right(context, cotangent, *context.inputs[0])};
  };
  return derivative;
}

Tangent add_tangents(const Tangent& a, const Tangent& b) {
  if (!a) return b;
  if (!b) return a;
  return *a + *b;
}

Value or_zeros(ir::Builder& builder, const Tangent& tangent, const ArrayType& type) {
  return tangent ? *tangent : zeros(builder, type);
}

std::vector<Tangent> only(std::size_t count, std::size_t index, Value cotangent) {
  std::vector<Tangent> cotangents(count);
  cotangents[index] = cotangent;
  return cotangents;
}

}  // namespace lockstep::ops::derivative
