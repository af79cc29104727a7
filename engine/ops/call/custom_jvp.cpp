#include <string>
#include <vector>

#include <lockstep/error.h>

#include "engine/ops/call/align.h"
#include "engine/ops/call/custom_rules.h"
#include "engine/ops/primitives.h"
#include "engine/ops/rules/infer.h"
#include "engine/ops/rules/samples.h"
#include "engine/ops/rules/sub_function.h"

namespace lockstep::ops {

namespace {

using ir::FunctionPtr;
using sub_function::append;
using sub_function::marked;

std::vector<ArrayType> infer_custom_jvp(const ir::InferContext& context) {
  std::vector<ArrayType> results = sub_function::infer(context);
  const FunctionPtr rule = ir::sub_function(context.attrs, "jvp");
  const std::size_t arguments = call::argument_count(context);
  std::vector<ArrayType> in(context.inputs.begin(), context.inputs.end());
  append(in, marked(in, call::inexact(context.inputs.first(arguments)), true));
  std::vector<ArrayType> out = results;
  append(out, marked(out, call::inexact(out), true));
  call::expect_signature(context, "jvp", *rule, in, out);
  return results;
}

/// The rule on the primals and on a tangent for every float argument.
ir::JointTangents custom_jvp_tangents(const ir::JvpContext& context) {
  call::refuse_closed_over(context, "custom_jvp");
  std::vector<ir::Tangent> operands(context.inputs.begin(), context.inputs.end());
  append(operands, call::given_tangents(context));
  const FunctionPtr rule = ir::sub_function(context.attrs, "jvp");
  const std::vector<ir::Tangent> all = call::inlined_without_zeros(context.builder, *rule, operands);
  const std::vector<ArrayType> types = ir::sub_function(context.attrs, "body")->output_types();
  ir::JointTangents results;
  for (std::size_t i = 0; i < types.size(); ++i) {
    results.outputs.push_back(all[i] ? *all[i] : call::typed_zeros(context.builder, types[i]));
  }
  std::size_t tangent = types.size();
  for (const ArrayType& type : types) {
    results.tangents.push_back(is_inexact(type.dtype) ? all[tangent++] : ir::Tangent());
  }
  return results;
}

std::vector<Value> batch_custom_jvp(const ir::BatchContext& context) {
  const FunctionPtr body = ir::sub_function(context.attrs, "body");
  const FunctionPtr rule = ir::sub_function(context.attrs, "jvp");
  const std::size_t outputs = body->outputs().size();
  std::vector<bool> in = context.batched;
  const auto arguments = static_cast<std::size_t>(context.attrs.get<std::int64_t>("arguments"));
  for (std::size_t i = 0; i < arguments; ++i) {
    if (is_inexact(context.inputs[i].dtype())) in.push_back(context.batched[i]);
  }
  const std::vector<bool> inexact = call::inexact(body->output_types());
  const auto vmap = [&](const FunctionPtr& f, const std::vector<bool>& batched, const std::vector<bool>& forced) {
    return context.transforms->vmap(f, batched, forced, context.size, context.axis);
  };
  const auto with_tangents = [&](std::vector<bool> flags) {
    append(flags, marked(flags, inexact, true));
    return flags;
  };
  // A result and its tangent are batched together, whichever function asks for it.
  std::vector<bool> all = vmap(body, context.batched, std::vector<bool>(outputs)).batched;
  const std::vector<bool> of_rule = vmap(rule, in, with_tangents(all)).batched;
  std::size_t tangent = outputs;
  for (std::size_t i = 0; i < outputs; ++i) {
    all[i] = all[i] || of_rule[i];
    if (inexact[i]) all[i] = all[i] || of_rule[tangent++];
  }
  return sub_function::apply_to(
      context.builder, primitives::custom_jvp(), context.inputs,
      context.attrs.with("body", sub_function::attribute(vmap(body, context.batched, all).function))
          .with("jvp", sub_function::attribute(vmap(rule, in, with_tangents(all)).function)));
}

std::vector<Value> cubed_jvp(ir::Builder&, std::span<const Value> x) {
  const Value square = x[0] * x[0];
  return {square * x[0], square * x[1] * 3};
}

Attrs custom_jvp_attrs(const ArrayType& type) {
  return {{"body", sub_function::attribute(sub_function::write({}, {type}, call::cubed))},
          {"jvp", sub_function::attribute(sub_function::write({}, {type, type}, cubed_jvp))},
          {"arguments", std::int64_t{1}}};
}

std::vector<ir::ErrorSample> custom_jvp_errors() {
  const ArrayType x{float32, {3}, {}};
  const Attrs good = custom_jvp_attrs(x);
  return {
      {{}, good, "custom_jvp given 0 operands; expected 1", {}},
      {{x}, good.with("arguments", std::int64_t{2}), "arguments=2", {}},
      {{x}, good.with("jvp", good.at("body")), "jvp takes f32[3]; expected f32[3], f32[3]", {}},
  };
}

}  // namespace

const ir::Primitive& primitives::custom_jvp() {
  static const ir::Primitive primitive{
      .name = "custom_jvp",
      .infer = infer_custom_jvp,
      .derivative = call::joint(custom_jvp_tangents, nullptr),
      .align = call::align_custom_jvp,
      .batch = batch_custom_jvp,
      .reference = nullptr,
      .samples = [] { return call::samples_of(custom_jvp_attrs); },
      .error_samples = custom_jvp_errors,
      .traits = {.typed_axes = true, .call = true},
  };
  return primitive;
}

}  // namespace lockstep::ops
