#include "engine/ops/call/align.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/ops/call/custom_rules.h"
#include "engine/ops/control_flow/sub_functions.h"
#include "engine/ops/rules/sub_function.h"

namespace lockstep::ops::call {

namespace {

using control_flow::pvaried;
using control_flow::varying_of;
using control_flow::with_varying_inputs;
using control_flow::with_varying_outputs;
using ir::Aligned;
using ir::Builder;
using ir::FunctionPtr;
using ir::Var;
using sub_function::append;
using sub_function::attribute;
using sub_function::marked;

using AxisSets = std::vector<AxisSet>;

AxisSets joined_axes(AxisSets a, const AxisSets& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = a[i].joined(b[i]);
  return a;
}

AxisSets head(const AxisSets& axes, std::size_t count) {
  return {axes.begin(), axes.begin() + static_cast<std::ptrdiff_t>(count)};
}
AxisSets tail(const AxisSets& axes, std::size_t first) {
  return {axes.begin() + static_cast<std::ptrdiff_t>(first), axes.end()};
}
AxisSets followed_by(AxisSets a, const AxisSets& b) {
  append(a, b);
  return a;
}

/// The axes along which the body's inputs must vary for these operands; nothing where body and operands do not fit for
/// other reasons.
std::optional<AxisSets> needed_axes(const Builder& builder, std::span<const Var> operands, const ir::Function& body) {
  if (operands.size() != body.inputs().size() || !(body.axes() == builder.axes())) return std::nullopt;
  AxisSets axes;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const ArrayType& given = builder.type(operands[i]);
    const ArrayType& expected = body.type(body.inputs()[i]);
    if (given.dtype != expected.dtype || given.shape != expected.shape) return std::nullopt;
    axes.push_back(expected.varying.joined(given.varying));
  }
  return axes;
}

/// The body with an input in place of each pvary of an input.
struct Supplied {
  FunctionPtr body;
  std::vector<std::pair<std::size_t, AxisSet>> inputs;  ///< Of which input, along what more; behind the others.
};

Supplied supplied(const FunctionPtr& body) {
  std::vector<Var> inputs = body->inputs();
  std::vector<ir::Equation> equations;
  Supplied result{body, {}};
  for (const ir::Equation& equation : body->equations()) {
    const auto place = equation.primitive == &ir::pvary_primitive()
                           ? std::ranges::find(body->inputs(), equation.inputs[0])
                           : body->inputs().end();
    if (place == body->inputs().end()) {
      equations.push_back(equation);
      continue;
    }
    inputs.push_back(equation.outputs[0]);
    result.inputs.emplace_back(static_cast<std::size_t>(place - body->inputs().begin()),
                               body->type(equation.outputs[0]).varying);
  }
  if (!result.inputs.empty()) {
    result.body = std::make_shared<const ir::Function>(body->axes(), body->types(), std::move(inputs),
                                                       std::move(equations), body->outputs());
  }
  return result;
}

}  // namespace

Aligned align_checkpoint(Builder& builder, std::span<const Var> operands, const Attrs& attrs) {
  FunctionPtr body = ir::sub_function(attrs, "body");
  const std::optional<AxisSets> axes = needed_axes(builder, operands, *body);
  if (!axes) return {{operands.begin(), operands.end()}, attrs};
  if (*axes != varying_of(body->input_types())) body = with_varying_inputs(body, *axes);
  std::vector<Var> all = pvaried(builder, operands, *axes);
  const Supplied hoisted = supplied(body);
  for (const auto& [input, varying] : hoisted.inputs) all.push_back(builder.pvary(all[input], varying));
  return {std::move(all), attrs.with("body", attribute(hoisted.body))};
}

Aligned align_custom_jvp(Builder& builder, std::span<const Var> operands, const Attrs& attrs) {
  FunctionPtr body = ir::sub_function(attrs, "body");
  const std::optional<AxisSets> axes = needed_axes(builder, operands, *body);
  if (!axes || *axes == varying_of(body->input_types())) {
    return {axes ? pvaried(builder, operands, *axes) : std::vector<Var>(operands.begin(), operands.end()), attrs};
  }
  FunctionPtr rule = ir::sub_function(attrs, "jvp");
  std::vector<ArrayType> arguments = body->input_types();
  arguments.resize(static_cast<std::size_t>(attrs.get<std::int64_t>("arguments")));
  const std::size_t outputs = body->outputs().size();
  const std::vector<bool> is_float = inexact(body->output_types());
  rule = with_varying_inputs(rule, followed_by(*axes, marked(head(*axes, arguments.size()), inexact(arguments), true)));
  body = with_varying_inputs(body, *axes);
  const AxisSets of_rule = varying_of(rule->output_types());
  AxisSets results = joined_axes(varying_of(body->output_types()), head(of_rule, outputs));
  std::size_t tangent = outputs;
  for (std::size_t i = 0; i < outputs; ++i) {
    if (is_float[i]) results[i] = results[i].joined(of_rule[tangent++]);
  }
  return {
      pvaried(builder, operands, *axes),
      attrs.with("body", attribute(with_varying_outputs(body, results)))
          .with("jvp", attribute(with_varying_outputs(rule, followed_by(results, marked(results, is_float, true)))))};
}

Aligned align_custom_vjp(Builder& builder, std::span<const Var> operands, const Attrs& attrs) {
  FunctionPtr body = ir::sub_function(attrs, "body");
  const std::optional<AxisSets> axes = needed_axes(builder, operands, *body);
  if (!axes || *axes == varying_of(body->input_types())) {
    return {axes ? pvaried(builder, operands, *axes) : std::vector<Var>(operands.begin(), operands.end()), attrs};
  }
  std::vector<ArrayType> arguments = body->input_types();
  arguments.resize(static_cast<std::size_t>(attrs.get<std::int64_t>("arguments")));
  const std::size_t outputs = body->outputs().size();
  const std::vector<bool> is_float = inexact(body->output_types());
  body = with_varying_inputs(body, *axes);
  FunctionPtr fwd = with_varying_inputs(ir::sub_function(attrs, "fwd"), *axes);
  const AxisSets of_fwd = varying_of(fwd->output_types());
  const AxisSets results = joined_axes(varying_of(body->output_types()), head(of_fwd, outputs));
  const AxisSets residuals = tail(of_fwd, outputs);
  const FunctionPtr bwd =
      with_varying_inputs(ir::sub_function(attrs, "bwd"), followed_by(residuals, marked(results, is_float, true)));
  return {pvaried(builder, operands, *axes),
          attrs.with("body", attribute(with_varying_outputs(body, results)))
              .with("fwd", attribute(with_varying_outputs(fwd, followed_by(results, residuals))))
              .with("bwd", attribute(cotangents_varying_as(
                               bwd, marked(head(*axes, arguments.size()), inexact(arguments), true))))};
}

}  // namespace lockstep::ops::call
