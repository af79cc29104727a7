#include "engine/ops/call/custom_rules.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/error.h>

#include "engine/ops/constants/zeros.h"
#include "engine/ops/primitives.h"
#include "engine/ops/rules/samples.h"

namespace lockstep::ops::call {

namespace {

std::string types_text(std::span<const ArrayType> types) {
  std::string list;
  for (const ArrayType& type : types) list += (list.empty() ? "" : ", ") + to_string(type);
  return list.empty() ? "nothing" : list;
}

std::size_t arguments_of(const Attrs& attrs) { return static_cast<std::size_t>(attrs.get<std::int64_t>("arguments")); }

}  // namespace

ir::Derivative joint(ir::JointJvpRule tangents, ir::TransposeRule transpose) {
  ir::Derivative derivative;
  derivative.kind = ir::Derivative::Kind::joint;
  derivative.joint = std::move(tangents);
  derivative.transpose = std::move(transpose);
  return derivative;
}

std::size_t argument_count(const ir::InferContext& context) {
  const auto count = context.attrs.get<std::int64_t>("arguments");
  if (count < 0 || static_cast<std::size_t>(count) > context.inputs.size()) {
    throw IrError(std::string(context.op) + " given arguments=" + std::to_string(count) + " and " +
                  std::to_string(context.inputs.size()) +
                  " operands; expected no more arguments than operands; instead count the arguments alone");
  }
  return static_cast<std::size_t>(count);
}

std::vector<bool> inexact(std::span<const ArrayType> types) {
  std::vector<bool> flags;
  for (const ArrayType& type : types) flags.push_back(is_inexact(type.dtype));
  return flags;
}

void expect_signature(const ir::InferContext& context, std::string_view name, const ir::Function& f,
                      std::span<const ArrayType> in, std::span<const ArrayType> out) {
  const auto check = [&](const char* what, std::span<const ArrayType> given, std::span<const ArrayType> expected) {
    if (std::equal(given.begin(), given.end(), expected.begin(), expected.end())) return;
    throw IrError(std::string(context.op) + ": " + std::string(name) + " " + what + " " + types_text(given) +
                  "; expected " + types_text(expected) + "; instead trace it on the types of the body");
  };
  check("takes", f.input_types(), in);
  check("gives", f.output_types(), out);
}

void refuse_closed_over(const ir::JvpContext& context, std::string_view op) {
  for (std::size_t i = arguments_of(context.attrs); i < context.tangents.size(); ++i) {
    if (!context.tangents[i]) continue;
    throw TraceError(
        std::string(op) + ": the function closes over a value that is being differentiated, " +
        to_string(context.inputs[i].type()) +
        ", for which its rule has no derivative; make it an argument of the function and of its rule, or put "
        "stop_gradient on it");
  }
}

std::vector<ir::Tangent> given_tangents(const ir::JvpContext& context) {
  std::vector<ir::Tangent> tangents;
  for (std::size_t i = 0; i < arguments_of(context.attrs); ++i) {
    if (is_inexact(context.inputs[i].dtype())) tangents.push_back(context.tangents[i]);
  }
  return tangents;
}

std::vector<Value> all_tangents(const ir::JvpContext& context) {
  std::vector<Value> tangents;
  for (std::size_t i = 0; i < arguments_of(context.attrs); ++i) {
    const ArrayType& type = context.inputs[i].type();
    if (!is_inexact(type.dtype)) continue;
    tangents.push_back(context.tangents[i] ? *context.tangents[i] : typed_zeros(context.builder, type));
  }
  return tangents;
}

Value typed_zeros(ir::Builder& builder, const ArrayType& type) { return pvary(zeros(builder, type), type.varying); }

std::vector<Value> inlined(ir::Builder& builder, const ir::Function& f, std::span<const Value> operands) {
  std::vector<ir::Var> arguments;
  for (const Value& operand : operands) arguments.push_back(operand.var());
  std::vector<Value> results;
  for (const ir::Var v : builder.inline_function(f, arguments)) results.emplace_back(builder, v);
  return results;
}

namespace {

/// Whether the equation's results are zeros because operands are absent, beside constants of zeros (`zero`: of either
/// kind). Of factors one must be absent: constant zeros times infinity are NaN.
bool gives_zeros(const ir::Equation& equation, const std::vector<bool>& absent, const std::vector<bool>& zero) {
  const ir::Derivative& derivative = equation.primitive->derivative;
  using Kind = ir::Derivative::Kind;
  const auto is_zero = [&](int i) { return bool(zero[static_cast<std::size_t>(i)]); };
  const auto is_absent = [&](int i) { return bool(absent[static_cast<std::size_t>(i)]); };
  switch (derivative.kind) {
    case Kind::bilinear:
      return absent[0] || absent[1];
    case Kind::linear:
    case Kind::jvp:
      if (derivative.linear_in.empty()) {
        return derivative.kind == Kind::linear && std::ranges::find(zero, false) == zero.end() &&
               std::ranges::find(absent, true) != absent.end();
      }
      return std::ranges::all_of(derivative.linear_in, is_zero) && std::ranges::any_of(derivative.linear_in, is_absent);
    case Kind::zero:
    case Kind::joint:
      return false;
  }
  return false;
}

/// Whether they are constants of zeros: written so, or moved and converted.
bool keeps_zeros(const ir::Equation& equation, const std::vector<bool>& zero) {
  return writes_zeros(equation) || (equation.primitive->derivative.kind == ir::Derivative::Kind::linear &&
                                    !zero.empty() && std::ranges::find(zero, false) == zero.end());
}

/// The one term of a sum whose other is zero, or nothing where the equation is no sum.
ir::Tangent remaining_term(const ir::Equation& equation, std::span<const ir::Tangent> operands) {
  if (equation.primitive == &primitives::add()) return operands[0] ? operands[0] : operands[1];
  if (equation.primitive == &primitives::sub()) return operands[0] ? *operands[0] : neg(*operands[1]);
  return std::nullopt;
}

}  // namespace

std::vector<ir::Tangent> inlined_without_zeros(ir::Builder& builder, const ir::Function& f,
                                               std::span<const ir::Tangent> operands) {
  std::vector<ir::Tangent> values(f.types().size());
  for (std::size_t i = 0; i < operands.size(); ++i) values[f.inputs()[i].id] = operands[i];
  std::vector<bool> zeros(f.types().size());  // constants, as where(c, tangent, 0) has them
  for (const ir::Equation& equation : f.equations()) {
    std::vector<ir::Tangent> given;
    std::vector<bool> absent, zero;
    for (const ir::Var v : equation.inputs) {
      given.push_back(values[v.id]);
      absent.push_back(!given.back());
      zero.push_back(absent.back() || zeros[v.id]);
    }
    if (gives_zeros(equation, absent, zero)) continue;
    for (const ir::Var v : equation.outputs) zeros[v.id] = keeps_zeros(equation, zero);
    const bool any_absent = std::ranges::find(absent, true) != absent.end();
    if (const ir::Tangent term = any_absent ? remaining_term(equation, given) : std::nullopt) {
      values[equation.outputs[0].id] = pvary(*term, f.type(equation.outputs[0]).varying);
      continue;
    }
    std::vector<ir::Var> vars;
    for (std::size_t i = 0; i < given.size(); ++i) {
      vars.push_back((given[i] ? *given[i] : typed_zeros(builder, f.type(equation.inputs[i]))).var());
    }
    const std::vector<ir::Var> results = builder.apply(*equation.primitive, vars, equation.attrs);
    for (std::size_t k = 0; k < results.size(); ++k) values[equation.outputs[k].id] = Value(builder, results[k]);
  }
  std::vector<ir::Tangent> results;
  for (const ir::Var v : f.outputs()) results.push_back(values[v.id]);
  return results;
}

std::vector<ir::Sample> samples_of(Attrs (*attributes)(const ArrayType&)) {
  std::vector<ir::Sample> list;
  for (const DType dtype : samples::floats) {
    for (const Shape& shape : samples::small_shapes()) {
      list.push_back({{samples::input(dtype, shape)}, attributes({dtype, shape, {}}), {}});
    }
  }
  return list;
}

ir::FunctionPtr cotangents_varying_as(const ir::FunctionPtr& bwd, const std::vector<AxisSet>& arguments) {
  ir::Builder builder(bwd->axes());
  std::vector<ir::Var> inputs;
  for (const ArrayType& type : bwd->input_types()) inputs.push_back(builder.input(type));
  std::vector<ir::Var> outputs = builder.inline_function(*bwd, inputs);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const AxisSet extra = builder.type(outputs[i]).varying.without(arguments[i]);
    outputs[i] = builder.pvary(psum({builder, outputs[i]}, extra).var(), arguments[i]);
  }
  return builder.finish(std::move(outputs));
}

}  // namespace lockstep::ops::call
