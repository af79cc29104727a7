#include <algorithm>
#include <string>
#include <vector>

#include <lockstep/backend/element_loop.h>
#include <lockstep/error.h>

#include "engine/ops/call/align.h"
#include "engine/ops/primitives.h"
#include "engine/ops/rules/derivative.h"
#include "engine/ops/rules/infer.h"
#include "engine/ops/rules/samples.h"
#include "engine/ops/rules/sub_function.h"

// What the pass `fuse` makes of element-wise equations. Every transform of it is that of its body, written in place.
namespace lockstep::ops {

namespace {

using ir::FunctionPtr;
using ir::Var;

/// That of a value or, of a sum, of what is summed.
const Shape& loop_shape(const ir::Function& body, Var v) {
  for (const ir::Equation& e : body.equations()) {
    if (ir::is_loop_sum(e.primitive, e.attrs) && e.outputs[0] == v) return body.type(e.inputs[0]).shape;
  }
  return body.type(v).shape;
}

std::vector<ArrayType> infer_fused(const ir::InferContext& context) {
  std::vector<ArrayType> results = sub_function::infer(context);
  const FunctionPtr body = sub_function::body_of(context.attrs);
  for (const Var v : body->outputs()) {
    const Shape& first = loop_shape(*body, body->outputs()[0]);
    if (loop_shape(*body, v) == first) continue;
    throw IrError("fused given a body with results of shapes " + to_string(first) + " and " +
                  to_string(loop_shape(*body, v)) + "; expected one shape; instead apply it once for each shape");
  }
  return results;
}

std::vector<Value> in_place(ir::Builder& builder, const FunctionPtr& function, std::span<const Value> operands) {
  std::vector<Var> arguments;
  for (const Value& operand : operands) arguments.push_back(operand.var());
  std::vector<Value> results;
  for (const Var v : builder.inline_function(*function, arguments)) results.emplace_back(builder, v);
  return results;
}

ir::Derivative fused_derivative() {
  ir::Derivative derivative;
  derivative.kind = ir::Derivative::Kind::joint;
  derivative.joint = [](const ir::JvpContext& context) {
    const sub_function::JvpBody body = sub_function::jvp_body(context, sub_function::body_of(context.attrs));
    return sub_function::joint_tangents(in_place(context.builder, body.both.function, body.operands), body.both.active);
  };
  derivative.transpose = [](const ir::TransposeContext& context) {
    const sub_function::TransposedBody body =
        sub_function::transposed_body(context, sub_function::body_of(context.attrs));
    return sub_function::operand_cotangents(in_place(context.builder, body.function, body.operands), body.linear);
  };
  return derivative;
}

ir::SplitResult split_fused(const ir::SplitContext& context) {
  const FunctionPtr body = sub_function::body_of(context.attrs);
  const ir::Partitioned parts =
      context.transforms->partition(body, context.unknown, std::vector<bool>(body->outputs().size(), false));
  std::vector<Value> early =
      in_place(context.builder, parts.known, sub_function::marked(context.inputs, context.unknown, false));
  std::vector<Value> operands(early.end() - parts.residuals, early.end());
  early.erase(early.end() - parts.residuals, early.end());
  sub_function::append(operands, sub_function::marked(context.inputs, context.unknown, true));
  return sub_function::joined_results(parts.unknown_outputs, early, in_place(context.builder, parts.unknown, operands));
}

std::vector<Value> batch_fused(const ir::BatchContext& context) {
  const FunctionPtr body = sub_function::body_of(context.attrs);
  const ir::Batched batched = context.transforms->vmap(
      body, context.batched, std::vector<bool>(body->outputs().size(), true), context.size, context.axis);
  return in_place(context.builder, batched.function, context.inputs);
}

/// Those of its ops, of which each gives as many elements as the result has.
double fused_flops(const ir::CostContext& context) {
  double sum = 0;
  const auto add = [&sum](const ir::Primitive& op, std::span<const ArrayType> inputs,
                          std::span<const ArrayType> outputs, const Attrs& attrs) {
    sum += ir::flops_of(op, {inputs, outputs, attrs});
  };
  if (const backend::ElementLoop* loop = backend::element_loop(context.attrs)) {
    const Shape shape = loop->shape(context.inputs, context.outputs);
    for (const backend::ElementLoop::Instruction& instruction : loop->instructions()) {
      std::vector<ArrayType> inputs;
      for (const int v : instruction.operands) inputs.push_back({loop->dtype(v), shape, {}});
      const ArrayType output{instruction.dtype, shape, {}};
      add(*find_primitive(instruction.op), inputs, {&output, 1}, instruction.attrs);
    }
    const auto is_sum = [](const backend::ElementLoop::Result& result) { return !result.sum_over.empty(); };
    return sum + static_cast<double>(std::ranges::count_if(loop->results(), is_sum) * shape.size());
  }
  const FunctionPtr body = sub_function::body_of(context.attrs);
  for (const ir::Equation& e : body->equations()) {
    std::vector<ArrayType> inputs;
    for (const Var v : e.inputs) inputs.push_back(body->type(v));
    add(*e.primitive, inputs, {&body->type(e.outputs[0]), 1}, e.attrs);
  }
  return sum;
}

// ---- samples

std::vector<Value> tanh_and_difference(ir::Builder&, std::span<const Value> x) {
  return {tanh(x[0] * x[1]), x[0] - exp(x[1])};
}

std::vector<Value> wave_and_sums(ir::Builder&, std::span<const Value> x) {
  const Value y = tanh(x[0] * x[1]);
  return {y, reduce_sum(y, {0}), reduce_sum(x[0], {0})};
}

Attrs fused_attrs(const FunctionPtr& body) { return {{"body", sub_function::attribute(body)}}; }

std::vector<ir::Sample> fused_samples() {
  std::vector<ir::Sample> list;
  for (const ArrayType& type : {ArrayType{float64, {3, 2}, {}}, ArrayType{float64, {1}, {}},
                                ArrayType{float32, {4}, {}}, ArrayType{float64, {0, 2}, {}}}) {
    const samples::Range range;
    list.push_back({{samples::input(type.dtype, type.shape, range), samples::input(type.dtype, type.shape, range)},
                    fused_attrs(sub_function::write({}, {type, type}, tanh_and_difference)),
                    {}});
  }
  const ArrayType type{float64, {3, 2}, {}};
  const samples::Range range;
  list.push_back({{samples::input(float64, {3, 2}, range), samples::input(float64, {3, 2}, range)},
                  fused_attrs(sub_function::write({}, {type, type}, wave_and_sums)),
                  {}});
  return list;
}

std::vector<ir::ErrorSample> fused_errors() {
  const ArrayType x{float32, {3}, {}};
  const ArrayType y{float32, {2}, {}};
  const auto both = [](ir::Builder&, std::span<const Value> v) { return std::vector<Value>{exp(v[0]), exp(v[1])}; };
  return {
      {{x},
       fused_attrs(sub_function::write({}, {x, x}, tanh_and_difference)),
       "fused given 1 operands; expected 2",
       {}},
      {{x, y},
       fused_attrs(sub_function::write({}, {x, y}, both)),
       "results of shapes [3] and [2]; expected one shape",
       {}},
  };
}

}  // namespace

const ir::Primitive& primitives::fused() {
  static const ir::Primitive primitive{
      .name = "fused",
      .infer = infer_fused,
      .derivative = fused_derivative(),
      .split = split_fused,
      .align = call::align_checkpoint,
      .batch = batch_fused,
      .reference = nullptr,
      .flops = fused_flops,
      .samples = fused_samples,
      .error_samples = fused_errors,
      .traits = {.typed_axes = true, .call = true},
  };
  return primitive;
}

}  // namespace lockstep::ops
