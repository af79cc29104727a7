#include <algorithm>
#include <string>
#include <utility>
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

// Signatures, c being what was closed over: body (x..., c...) -> (y...), fwd (x..., c...) -> (y..., residual...),
// bwd (residual..., cotangent of each float y...) -> (cotangent of each float x...).

std::vector<ArrayType> only_inexact(std::span<const ArrayType> types) {
  return marked(types, call::inexact(types), true);
}

std::vector<ArrayType> infer_custom_vjp(const ir::InferContext& context) {
  std::vector<ArrayType> results = sub_function::infer(context);
  const FunctionPtr fwd = ir::sub_function(context.attrs, "fwd");
  const FunctionPtr bwd = ir::sub_function(context.attrs, "bwd");
  std::vector<ArrayType> out = results;
  const std::vector<ArrayType> all = fwd->output_types();
  if (all.size() > out.size()) out.insert(out.end(), all.begin() + static_cast<std::ptrdiff_t>(out.size()), all.end());
  call::expect_signature(context, "fwd", *fwd, context.inputs, out);
  std::vector<ArrayType> in(out.begin() + static_cast<std::ptrdiff_t>(results.size()), out.end());
  append(in, only_inexact(results));
  call::expect_signature(context, "bwd", *bwd, in, only_inexact(context.inputs.first(call::argument_count(context))));
  return results;
}

/// The forward rule, and tangents that only a transposition can make something of.
ir::JointTangents forward_tangents(const ir::JvpContext& context) {
  call::refuse_closed_over(context, "custom_vjp");
  const std::vector<Value> all =
      call::inlined(context.builder, *ir::sub_function(context.attrs, "fwd"), context.inputs);
  const std::size_t outputs = ir::sub_function(context.attrs, "body")->outputs().size();
  std::vector<Value> operands(all.begin() + static_cast<std::ptrdiff_t>(outputs), all.end());
  const auto residuals = static_cast<std::int64_t>(operands.size());
  append(operands, call::all_tangents(context));
  std::vector<Value> results(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(outputs));
  std::vector<bool> active;
  for (const Value& y : results) active.push_back(is_inexact(y.dtype()));
  append(results, sub_function::apply_to(context.builder, primitives::custom_vjp_tangents(), operands,
                                         {{"bwd", context.attrs.at("bwd")}, {"residuals", residuals}}));
  return sub_function::joint_tangents(results, active);
}

// ---- batching

struct Batching {
  const ir::BatchContext& context;

  ir::Batched vmap(const FunctionPtr& f, const std::vector<bool>& batched, const std::vector<bool>& forced) const {
    return context.transforms->vmap(f, batched, forced, context.size, context.axis);
  }

  /// Which are one for each example. A result that all share has one cotangent, which is the sum of all already.
  std::vector<bool> of_each(std::span<const ArrayType> types) const {
    std::vector<bool> flags;
    for (const ArrayType& type : types) flags.push_back(!context.is_same_for_all(type));
    return flags;
  }

  /// The backward rule on a batch. A cotangent of an argument is batched where the argument is;
  /// of an argument that all examples share it is the sum.
  FunctionPtr backward(const FunctionPtr& bwd, const std::vector<bool>& in, const std::vector<bool>& out) const {
    const ir::Batched batched = vmap(bwd, in, std::vector<bool>(out.size(), false));
    ir::Builder builder(batched.function->axes());
    std::vector<ir::Var> inputs;
    for (const ArrayType& type : batched.function->input_types()) inputs.push_back(builder.input(type));
    std::vector<ir::Var> outputs = builder.inline_function(*batched.function, inputs);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Value cotangent(builder, outputs[i]);
      if (out[i] && !batched.batched[i]) outputs[i] = broadcast_leading(cotangent, context.size).var();
      if (!out[i] && batched.batched[i]) outputs[i] = reduce_sum(cotangent, {0}).var();
      if (!out[i] && !batched.batched[i] && !context.is_same_for_all(bwd->type(bwd->outputs()[i]))) {
        outputs[i] = (cotangent * static_cast<double>(context.size)).var();
      }
    }
    return builder.finish(std::move(outputs));
  }
};

/// Every result is batched that may differ between examples, so that its cotangent is one for each of them.
std::vector<Value> batch_custom_vjp(const ir::BatchContext& context) {
  const Batching batching{context};
  const FunctionPtr body = ir::sub_function(context.attrs, "body");
  const FunctionPtr fwd = ir::sub_function(context.attrs, "fwd");
  const std::size_t outputs = body->outputs().size();
  const auto arguments = static_cast<std::size_t>(context.attrs.get<std::int64_t>("arguments"));
  const std::vector<bool> of_results = batching.of_each(body->output_types());
  std::vector<bool> forced = of_results;
  forced.resize(fwd->outputs().size(), false);
  const ir::Batched forward = batching.vmap(fwd, context.batched, forced);
  const FunctionPtr bwd = ir::sub_function(context.attrs, "bwd");
  std::vector<bool> in(forward.batched.begin() + static_cast<std::ptrdiff_t>(outputs), forward.batched.end());
  append(in, marked(of_results, call::inexact(body->output_types()), true));
  std::vector<ArrayType> types = body->input_types();
  types.resize(arguments);
  const FunctionPtr backward = batching.backward(bwd, in, marked(context.batched, call::inexact(types), true));
  const ir::Batched all = batching.vmap(body, context.batched, of_results);
  return sub_function::apply_to(context.builder, primitives::custom_vjp(), context.inputs,
                                context.attrs.with("body", sub_function::attribute(all.function))
                                    .with("fwd", sub_function::attribute(forward.function))
                                    .with("bwd", sub_function::attribute(backward)));
}

// ---- the tangents

std::size_t residual_count(const Attrs& attrs) {
  return static_cast<std::size_t>(attrs.get<std::int64_t>("residuals"));
}

std::vector<ArrayType> infer_tangents(const ir::InferContext& context) {
  const FunctionPtr bwd = ir::sub_function(context.attrs, "bwd");
  const std::size_t residuals = residual_count(context.attrs);  // a negative one is more than there are
  const std::vector<ArrayType> in = bwd->input_types();
  if (residuals > in.size() || context.inputs.size() != residuals + bwd->outputs().size()) {
    throw IrError("custom_vjp_tangents given " + std::to_string(context.inputs.size()) + " operands; expected " +
                  std::to_string(residuals) + " residuals and a tangent for each of the " +
                  std::to_string(bwd->outputs().size()) + " cotangents that bwd gives");
  }
  const auto first = in.begin() + static_cast<std::ptrdiff_t>(residuals);
  std::vector<ArrayType> taken(context.inputs.begin(), context.inputs.begin() + static_cast<std::ptrdiff_t>(residuals));
  taken.insert(taken.end(), first, in.end());
  call::expect_signature(context, "bwd", *bwd, taken, context.inputs.subspan(residuals));
  return {first, in.end()};
}

std::vector<ir::Tangent> transpose_tangents(const ir::TransposeContext& context) {
  const std::size_t residuals = residual_count(context.attrs);
  std::vector<Value> operands;
  for (std::size_t i = 0; i < residuals; ++i) operands.push_back(context.inputs[i].value());
  for (std::size_t i = 0; i < context.cotangents.size(); ++i) {
    const auto& cotangent = context.cotangents[i];
    operands.push_back(cotangent ? pvary(*cotangent, context.output_types[i].varying)
                                 : call::typed_zeros(context.builder, context.output_types[i]));
  }
  std::vector<ir::Tangent> result(residuals);
  for (const Value& v : call::inlined(context.builder, *ir::sub_function(context.attrs, "bwd"), operands)) {
    result.emplace_back(v);
  }
  return result;
}

ir::JointTangents no_second_tangents(const ir::JvpContext&) {
  throw TraceError(
      "jvp: the function calls a custom_vjp inside of a jvp, and its rule has the backward direction alone; use "
      "reverse "
      "mode (grad, vjp) for the inner derivative, or give the function a custom_jvp");
}

std::vector<Value> batch_tangents(const ir::BatchContext& context) {
  const std::size_t residuals = residual_count(context.attrs);
  const FunctionPtr bwd = ir::sub_function(context.attrs, "bwd");
  const auto cut = context.batched.begin() + static_cast<std::ptrdiff_t>(residuals);
  std::vector<bool> in(context.batched.begin(), cut);
  const Batching batching{context};
  const std::vector<ArrayType> types = bwd->input_types();
  append(in, batching.of_each(std::span(types).subspan(residuals)));
  const FunctionPtr backward = batching.backward(bwd, in, {cut, context.batched.end()});
  return sub_function::apply_to(context.builder, primitives::custom_vjp_tangents(), context.inputs,
                                context.attrs.with("bwd", sub_function::attribute(backward)));
}

// ---- samples

std::vector<Value> cubed_fwd(ir::Builder&, std::span<const Value> x) { return {x[0] * x[0] * x[0], x[0] * x[0]}; }
std::vector<Value> cubed_bwd(ir::Builder&, std::span<const Value> x) { return {x[0] * x[1] * 3}; }

Attrs custom_vjp_attrs(const ArrayType& type) {
  return {{"body", sub_function::attribute(sub_function::write({}, {type}, call::cubed))},
          {"fwd", sub_function::attribute(sub_function::write({}, {type}, cubed_fwd))},
          {"bwd", sub_function::attribute(sub_function::write({}, {type, type}, cubed_bwd))},
          {"arguments", std::int64_t{1}}};
}

std::vector<ir::Sample> custom_vjp_tangents_samples() {
  std::vector<ir::Sample> list = call::samples_of(custom_vjp_attrs);
  for (ir::Sample& sample : list) {
    sample.inputs.push_back(sample.inputs[0]);
    sample.attrs = {{"bwd", sample.attrs.at("bwd")}, {"residuals", std::int64_t{1}}};
  }
  return list;
}

std::vector<ir::ErrorSample> custom_vjp_errors() {
  const ArrayType x{float32, {3}, {}};
  const Attrs good = custom_vjp_attrs(x);
  return {
      {{}, good, "custom_vjp given 0 operands; expected 1", {}},
      {{x}, good.with("arguments", std::int64_t{2}), "arguments=2", {}},
      {{x}, good.with("fwd", good.at("bwd")), "fwd takes f32[3], f32[3]; expected f32[3]", {}},
      {{x}, good.with("bwd", good.at("fwd")), "bwd takes f32[3]; expected f32[3], f32[3]", {}},
  };
}

}  // namespace

const ir::Primitive& primitives::custom_vjp() {
  static const ir::Primitive primitive{
      .name = "custom_vjp",
      .infer = infer_custom_vjp,
      .derivative = call::joint(forward_tangents, nullptr),
      .align = call::align_custom_vjp,
      .batch = batch_custom_vjp,
      .reference = nullptr,
      .samples = [] { return call::samples_of(custom_vjp_attrs); },
      .error_samples = custom_vjp_errors,
      .traits = {.typed_axes = true, .call = true},
  };
  return primitive;
}

const ir::Primitive& primitives::custom_vjp_tangents() {
  static const ir::Primitive primitive{
      .name = "custom_vjp_tangents",
      .infer = infer_tangents,
      .derivative = call::joint(no_second_tangents, transpose_tangents),
      .batch = batch_tangents,
      .reference = nullptr,
      .samples = custom_vjp_tangents_samples,
      .error_samples = samples::errors({{{{float32, {3}, {}}},
                                         custom_vjp_attrs({float32, {3}, {}}).with("residuals", std::int64_t{1}),
                                         "custom_vjp_tangents given 1 operands; expected 1 residuals",
                                         {}}}),
      .traits = {.typed_axes = true},
  };
  return primitive;
}

}  // namespace lockstep::ops
