#include "engine/ops/call/implicit.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/error.h>

#include "engine/ops/call/custom_rules.h"
#include "engine/ops/control_flow/sub_functions.h"
#include "engine/ops/rules/batch.h"
#include "engine/ops/rules/sub_function.h"

namespace lockstep::ops {

namespace {

using ir::FunctionPtr;
using ir::Tangent;
using sub_function::append;
using sub_function::attribute;

std::size_t consts_of(const Attrs& attrs) { return static_cast<std::size_t>(attrs.get<std::int64_t>("consts")); }

/// A function of the equation: how many vectors it takes for each unknown, and whether it may be absent.
struct Part {
  const char* name;
  std::size_t vectors = 1;
  bool is_optional = false;
};

/// The body's types. Throws IrError where another function does not take constants and vectors and give vectors.
std::vector<ArrayType> infer_with(const ir::InferContext& context, std::initializer_list<Part> parts) {
  const std::vector<ArrayType> unknowns = sub_function::infer(context);
  const std::string op(context.op);
  const auto consts = context.attrs.get<std::int64_t>("consts");
  if (consts < 0 || static_cast<std::size_t>(consts) + unknowns.size() != context.inputs.size()) {
    throw IrError(op + " given consts=" + std::to_string(consts) + " with " + std::to_string(context.inputs.size()) +
                  " operands; expected " + std::to_string(context.inputs.size()) + " less the " +
                  std::to_string(unknowns.size()) + " results; instead give constants and then vectors");
  }
  const auto fits = [](const ArrayType& a, const ArrayType& b) { return a.dtype == b.dtype && a.shape == b.shape; };
  for (const Part& part : parts) {
    if (part.is_optional && !context.attrs.has(part.name)) continue;
    std::vector<ArrayType> taken(context.inputs.begin(), context.inputs.begin() + consts);
    for (std::size_t i = 0; i < part.vectors; ++i) append(taken, unknowns);
    const FunctionPtr f = ir::sub_function(context.attrs, part.name);
    const std::vector<ArrayType> in = f->input_types(), out = f->output_types();
    if (std::ranges::equal(in, taken, fits) && std::ranges::equal(out, unknowns, fits)) continue;
    throw IrError(op + " given a " + part.name + " of other types; expected one of " + std::to_string(consts) +
                  " constants and " + std::to_string(part.vectors) + " vectors for each result, which gives the " +
                  "results' types; instead trace it on these");
  }
  return unknowns;
}
std::vector<ArrayType> infer_solve(const ir::InferContext& context) {
  return infer_with(context, {{"matvec"}, {"transposed", 1, true}});
}
std::vector<ArrayType> infer_root(const ir::InferContext& context) {
  return infer_with(context, {{"residual"}, {"matvec", 2}, {"solve", 2}, {"transposed", 2, true}});
}

/// The tangents of f(const..., x...) along those of the constants alone; nothing where it does not depend on them.
std::vector<Tangent> along_consts(const ir::JvpContext& context, const FunctionPtr& f, std::span<const Value> x) {
  const std::size_t consts = consts_of(context.attrs);
  std::vector<Value> operands(context.inputs.begin(), context.inputs.begin() + static_cast<std::ptrdiff_t>(consts));
  operands.insert(operands.end(), x.begin(), x.end());
  std::vector<bool> active(operands.size(), false);
  bool any = false;
  for (std::size_t i = 0; i < consts; ++i) {
    if (!context.tangents[i] || !is_inexact(context.inputs[i].dtype())) continue;
    active[i] = any = true;
    operands.push_back(*context.tangents[i]);
  }
  if (!any) return std::vector<Tangent>(x.size());
  const ir::Differentiated both = context.transforms->jvp(f, active, std::vector<bool>(x.size(), false));
  return sub_function::joint_tangents(call::inlined(context.builder, *both.function, operands), both.active).tangents;
}

/// Zeros where there is none.
std::vector<Value> written_out(ir::Builder& builder, std::span<const Tangent> tangents, std::span<const Value> like) {
  std::vector<Value> values;
  for (std::size_t i = 0; i < like.size(); ++i) {
    values.push_back(tangents[i] ? pvary(*tangents[i], like[i].type().varying)
                                 : call::typed_zeros(builder, like[i].type()));
  }
  return values;
}

std::vector<Tangent> as_tangents(std::span<const Value> values) { return {values.begin(), values.end()}; }

bool any_of(std::span<const Tangent> tangents) {
  for (const Tangent& tangent : tangents) {
    if (tangent) return true;
  }
  return false;
}

/// dx solves matvec(dx) = db - (d matvec)(x).
ir::JointTangents solve_tangents(const ir::JvpContext& context) {
  const std::size_t consts = consts_of(context.attrs);
  std::vector<Value> x = sub_function::apply_to(context.builder, linear_solve(), context.inputs, context.attrs);
  std::vector<Tangent> right(context.tangents.begin() + static_cast<std::ptrdiff_t>(consts), context.tangents.end());
  const std::vector<Tangent> moved = along_consts(context, ir::sub_function(context.attrs, "matvec"), x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (moved[i]) right[i] = right[i] ? *right[i] - *moved[i] : neg(*moved[i]);
  }
  if (!any_of(right)) return {x, std::vector<Tangent>(x.size())};
  std::vector<Value> operands(context.inputs.begin(), context.inputs.begin() + static_cast<std::ptrdiff_t>(consts));
  append(operands, written_out(context.builder, right, x));
  return {x, as_tangents(sub_function::apply_to(context.builder, linear_solve(), operands, context.attrs))};
}

std::vector<Tangent> transpose_solve(const ir::TransposeContext& context) {
  const std::size_t consts = consts_of(context.attrs);
  if (!context.attrs.has("transposed")) {
    throw TraceError(
        "custom_linear_solve: there is no way to solve with the adjoint, which reverse mode (grad, vjp) needs; give "
        "transpose_solve, or say that the function is symmetric");
  }
  std::vector<Value> operands;
  for (std::size_t i = 0; i < consts; ++i) operands.push_back(context.inputs[i].value());
  for (std::size_t i = 0; i < context.cotangents.size(); ++i) {
    const Tangent& cotangent = context.cotangents[i];
    operands.push_back(cotangent ? pvary(*cotangent, context.output_types[i].varying)
                                 : call::typed_zeros(context.builder, context.output_types[i]));
  }
  const FunctionPtr matvec = ir::sub_function(context.attrs, "matvec");
  const Attrs adjoint = context.attrs.with("body", context.attrs.at("transposed"))
                            .with("transposed", context.attrs.at("body"))
                            .with("matvec", attribute(context.transforms->transpose(matvec, static_cast<int>(consts))));
  std::vector<Tangent> result(consts);
  append(result, as_tangents(sub_function::apply_to(context.builder, linear_solve(), operands, adjoint)));
  return result;
}

/// dx solves matvec(dx) = -(d residual), at the root.
ir::JointTangents root_tangents(const ir::JvpContext& context) {
  const std::size_t consts = consts_of(context.attrs);
  std::vector<Value> x = sub_function::apply_to(context.builder, root(), context.inputs, context.attrs);
  std::vector<Tangent> moved = along_consts(context, ir::sub_function(context.attrs, "residual"), x);
  if (!any_of(moved)) return {x, std::vector<Tangent>(x.size())};
  for (Tangent& tangent : moved) {
    if (tangent) tangent = neg(*tangent);
  }
  std::vector<Value> operands(context.inputs.begin(), context.inputs.begin() + static_cast<std::ptrdiff_t>(consts));
  append(operands, x);
  Attrs attrs{{"body", context.attrs.at("solve")},
              {"matvec", context.attrs.at("matvec")},
              {"consts", static_cast<std::int64_t>(operands.size())}};
  if (context.attrs.has("transposed")) attrs = attrs.with("transposed", context.attrs.at("transposed"));
  append(operands, written_out(context.builder, moved, x));
  return {x, as_tangents(sub_function::apply_to(context.builder, linear_solve(), operands, attrs))};
}

/// Vectors are batched wherever examples may differ in them, so that all functions agree on them.
std::vector<Value> batch_with(const ir::Primitive& self, const ir::BatchContext& context) {
  const std::size_t consts = consts_of(context.attrs);
  const auto is_batched = [&](const ArrayType& type) { return !context.is_same_for_all(type); };
  const auto batched = [&](const FunctionPtr& f) {
    std::vector<bool> flags(context.batched.begin(), context.batched.begin() + static_cast<std::ptrdiff_t>(consts));
    std::vector<bool> forced;
    const std::vector<ArrayType> in = f->input_types();
    for (std::size_t i = consts; i < in.size(); ++i) flags.push_back(is_batched(in[i]));
    for (const ArrayType& type : f->output_types()) forced.push_back(is_batched(type));
    return context.transforms->vmap(f, flags, forced, context.size, context.axis).function;
  };
  const std::vector<ArrayType> types = ir::sub_functions(context.attrs)[0]->input_types();
  std::vector<Value> operands(context.inputs.begin(), context.inputs.end());
  for (std::size_t i = consts; i < operands.size(); ++i) {
    if (!context.batched[i] && is_batched(types[i])) operands[i] = broadcast_leading(operands[i], context.size);
  }
  return sub_function::apply_to(context.builder, self, operands, ir::map_sub_functions(context.attrs, batched));
}

/// Whether all functions take constants and vectors, and give vectors, that vary just as the operands do.
bool is_aligned(const ir::Builder& builder, std::span<const ir::Var> operands, const Attrs& attrs) {
  const std::size_t consts = consts_of(attrs), vectors = operands.size() - consts;
  for (const FunctionPtr& f : ir::sub_functions(attrs)) {
    const std::vector<ArrayType> in = f->input_types(), out = f->output_types();
    for (std::size_t i = 0; i < in.size(); ++i) {
      const ir::Var operand = operands[i < consts ? i : consts + (i - consts) % vectors];
      if (in[i].varying != builder.type(operand).varying) return false;
    }
    for (std::size_t k = 0; k < out.size(); ++k) {
      if (out[k].varying != builder.type(operands[consts + k]).varying) return false;
    }
  }
  return true;
}

/// Everything varies along every axis that anything varies along, but where all fits as it is: on the blocks of a
/// partitioned function, constants vary along axes that the vectors do not.
ir::Aligned align(ir::Builder& builder, std::span<const ir::Var> operands, const Attrs& attrs) {
  if (is_aligned(builder, operands, attrs)) return {{operands.begin(), operands.end()}, attrs};
  AxisSet all;
  for (const ir::Var v : operands) all = all.joined(builder.type(v).varying);
  const auto varied = [&](const FunctionPtr& f) {
    return control_flow::with_varying_inputs(f, std::vector<AxisSet>(f->inputs().size(), all));
  };
  for (const FunctionPtr& f : ir::sub_functions(attrs)) {
    for (const ArrayType& type : f->input_types()) all = all.joined(type.varying);
    for (const ArrayType& type : varied(f)->output_types()) all = all.joined(type.varying);
  }
  if (all.empty()) return {{operands.begin(), operands.end()}, attrs};
  std::vector<ir::Var> given;
  for (const ir::Var v : operands) given.push_back(builder.pvary(v, all));
  const auto aligned = [&](const FunctionPtr& f) {
    return control_flow::with_varying_outputs(varied(f), std::vector<AxisSet>(f->outputs().size(), all));
  };
  return {std::move(given), ir::map_sub_functions(attrs, aligned)};
}

}  // namespace

const ir::Primitive& linear_solve() {
  static const ir::Primitive primitive{
      .name = "linear_solve",
      .infer = infer_solve,
      .derivative = call::joint(solve_tangents, transpose_solve),
      .align = align,
      .batch = [](const ir::BatchContext& context) { return batch_with(linear_solve(), context); },
      .reference = nullptr,
      .samples = nullptr,
      .error_samples = nullptr,
      .traits = {.typed_axes = true, .call = true},
  };
  return primitive;
}

const ir::Primitive& root() {
  static const ir::Primitive primitive{
      .name = "root",
      .infer = infer_root,
      .derivative = call::joint(root_tangents, nullptr),
      .align = align,
      .batch = [](const ir::BatchContext& context) { return batch_with(root(), context); },
      .reference = nullptr,
      .samples = nullptr,
      .error_samples = nullptr,
      .traits = {.typed_axes = true, .call = true},
  };
  return primitive;
}

}  // namespace lockstep::ops
