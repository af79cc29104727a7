#include "engine/ops/rules/sub_function.h"

#include <algorithm>
#include <string>
#include <utility>

#include <lockstep/error.h>

namespace lockstep::ops::sub_function {

namespace {

std::vector<Value> apply_self(ir::Builder& builder, const ir::Primitive& self, const Attrs& attrs,
                              const FunctionPtr& body, std::span<const Value> operands) {
  return apply_to(builder, self, operands, attrs.with("body", attribute(body)));
}

}  // namespace

FunctionPtr write(const ir::AxisSizes& axes, const std::vector<ArrayType>& types, Formula formula) {
  ir::Builder builder(axes);
  std::vector<Value> inputs;
  for (const ArrayType& type : types) inputs.emplace_back(builder, builder.input(type));
  std::vector<ir::Var> outputs;
  for (const Value& output : formula(builder, inputs)) outputs.push_back(output.var());
  return builder.finish(std::move(outputs));
}

FunctionPtr with_signature(const ir::Function& f, std::vector<ir::Var> inputs, std::vector<ir::Var> outputs) {
  std::vector<bool> needed(f.types().size());
  for (const ir::Var v : outputs) needed[v.id] = true;
  std::vector<ir::Equation> equations;
  for (auto equation = f.equations().rbegin(); equation != f.equations().rend(); ++equation) {
    if (std::ranges::none_of(equation->outputs, [&](ir::Var v) { return needed[v.id]; })) continue;
    for (const ir::Var v : equation->inputs) needed[v.id] = true;
    equations.push_back(*equation);
  }
  std::ranges::reverse(equations);
  return std::make_shared<const ir::Function>(f.axes(), f.types(), std::move(inputs), std::move(equations),
                                              std::move(outputs));
}

std::vector<Value> apply_to(ir::Builder& builder, const ir::Primitive& primitive, std::span<const Value> operands,
                            Attrs attrs) {
  std::vector<ir::Var> vars;
  for (const Value& operand : operands) vars.push_back(operand.var());
  std::vector<Value> results;
  for (const ir::Var v : builder.apply(primitive, vars, std::move(attrs))) results.emplace_back(builder, v);
  return results;
}

JvpBody jvp_body(const ir::JvpContext& context, const FunctionPtr& body) {
  JvpBody result;
  result.operands.assign(context.inputs.begin(), context.inputs.end());
  for (const ir::Tangent& tangent : context.tangents) {
    result.active.push_back(tangent.has_value());
    if (tangent) result.operands.push_back(*tangent);
  }
  result.both = context.transforms->jvp(body, result.active, std::vector<bool>(body->outputs().size(), false));
  return result;
}

ir::JointTangents joint_tangents(std::span<const Value> results, const std::vector<bool>& active) {
  const auto outputs = results.first(active.size());
  ir::JointTangents joint{{outputs.begin(), outputs.end()}, {}};
  std::size_t next = active.size();
  for (const bool has_tangent : active) {
    joint.tangents.push_back(has_tangent ? ir::Tangent(results[next++]) : ir::Tangent());
  }
  return joint;
}

TransposedBody transposed_body(const ir::TransposeContext& context, const FunctionPtr& body) {
  TransposedBody result;
  for (const ir::Tangent& input : context.inputs) {
    result.linear.push_back(!input.has_value());
    if (input) result.operands.push_back(*input);
  }
  const int residuals = static_cast<int>(result.operands.size());
  for (const ir::Tangent& cotangent : context.cotangents) {
    result.given.push_back(cotangent.has_value());
    if (cotangent) result.operands.push_back(*cotangent);
  }
  std::vector<ir::Var> inputs = marked(body->inputs(), result.linear, false);
  append(inputs, marked(body->inputs(), result.linear, true));
  const FunctionPtr linear = with_signature(*body, std::move(inputs), marked(body->outputs(), result.given, true));
  result.function = context.transforms->transpose(linear, residuals);
  return result;
}

std::vector<ir::Tangent> operand_cotangents(std::span<const Value> results, const std::vector<bool>& linear) {
  std::vector<ir::Tangent> cotangents;
  std::size_t next = 0;
  for (const bool is_linear : linear) {
    cotangents.push_back(is_linear ? ir::Tangent(results[next++]) : ir::Tangent());
  }
  return cotangents;
}

ir::SplitResult joined_results(const std::vector<bool>& unknown, std::span<const Value> known,
                               std::span<const Value> late) {
  ir::SplitResult result{{}, unknown};
  std::size_t next_known = 0, next_late = 0;
  for (const bool is_late : unknown) result.outputs.push_back(is_late ? late[next_late++] : known[next_known++]);
  return result;
}

std::vector<ArrayType> infer(const ir::InferContext& context) {
  const FunctionPtr body = body_of(context.attrs);
  const std::string op(context.op);
  if (!(body->axes() == context.axes)) {
    throw IrError(op + " given a body traced under other axes than are bound around it; expected the same; instead " +
                  "trace the body where it is used");
  }
  if (context.inputs.size() != body->inputs().size()) {
    throw IrError(op + " given " + std::to_string(context.inputs.size()) + " operands; expected " +
                  std::to_string(body->inputs().size()) + ", which the body takes; instead give one per input");
  }
  for (std::size_t i = 0; i < context.inputs.size(); ++i) {
    const ArrayType& expected = body->type(body->inputs()[i]);
    if (context.inputs[i] == expected) continue;
    throw IrError(op + " given operand " + std::to_string(i) + " of type " + to_string(context.inputs[i]) +
                  "; expected " + to_string(expected) + ", which the body takes; instead trace the body on the types " +
                  "of its operands");
  }
  return body->output_types();
}

ir::JointTangents tangents(const ir::Primitive& self, const ir::JvpContext& context) {
  const JvpBody body = jvp_body(context, body_of(context.attrs));
  return joint_tangents(apply_self(context.builder, self, context.attrs, body.both.function, body.operands),
                        body.both.active);
}

std::vector<ir::Tangent> transpose(const ir::Primitive& self, const ir::TransposeContext& context) {
  const TransposedBody body = transposed_body(context, body_of(context.attrs));
  return operand_cotangents(apply_self(context.builder, self, context.attrs, body.function, body.operands),
                            body.linear);
}

std::vector<Value> batch(const ir::Primitive& self, const ir::BatchContext& context) {
  const FunctionPtr body = body_of(context.attrs);
  const ir::Batched batched = context.transforms->vmap(
      body, context.batched, std::vector<bool>(body->outputs().size(), false), context.size, context.axis);
  return apply_self(context.builder, self, context.attrs, batched.function, context.inputs);
}

}  // namespace lockstep::ops::sub_function
