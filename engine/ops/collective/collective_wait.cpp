#include <string>
#include <vector>

#include <lockstep/error.h>

#include "engine/ops/collective/axes.h"
#include "engine/ops/primitives.h"
#include "engine/ops/rules/batch.h"
#include "engine/ops/rules/derivative.h"
#include "engine/ops/rules/infer.h"
#include "engine/ops/rules/samples.h"

namespace lockstep::ops {

namespace {

/// The ops that a start and a wait may stand for.
std::vector<const ir::Primitive*> startable() {
  std::vector<const ir::Primitive*> list;
  for (const PrimitiveGetter getter : all_primitives()) {
    if (ir::communicates(getter().collective.exchange)) list.push_back(&getter());
  }
  return list;
}

/// The collective that a wait completes.
const ir::Primitive& completed(const Attrs& attrs) {
  const auto& name = attrs.get<std::string>("op");
  const ir::Primitive* op = find_primitive(name);
  if (op != nullptr && ir::communicates(op->collective.exchange)) return *op;
  std::string names;
  const std::vector<const ir::Primitive*> all = startable();
  for (const ir::Primitive* each : all) {
    names += (each == all.front() ? "" : each == all.back() ? " or " : ", ") + each->name;
  }
  throw IrError("collective_wait given op=" + name + "; expected " + names +
                "; instead write the op as an equation of its own");
}

std::vector<ArrayType> infer_start(const ir::InferContext& context) {
  infer::expect_operands(context, 1);
  return {context.inputs[0]};
}

std::vector<ArrayType> infer_wait(const ir::InferContext& context) {
  const Attrs attrs = context.attrs.without("op");
  return completed(context.attrs).infer({context.attrs.get<std::string>("op"), context.inputs, attrs, context.axes});
}

std::vector<ir::Tangent> wait_tangents(const ir::JvpContext& context) {
  const ir::Primitive& op = completed(context.attrs);
  const Attrs attrs = context.attrs.without("op");
  if (op.derivative.kind == ir::Derivative::Kind::linear) return {apply_one(op, {*context.tangents[0]}, attrs)};
  return op.derivative.jvp({context.builder, attrs, context.inputs, context.outputs, context.tangents});
}

std::vector<ir::Tangent> wait_transpose(const ir::TransposeContext& context) {
  const ir::Primitive& op = completed(context.attrs);
  if (!op.derivative.transpose) {
    throw TraceError("collective_wait of " + op.name +
                     " is not linear; differentiate before collectives are scheduled");
  }
  const Attrs attrs = context.attrs.without("op");
  return op.derivative.transpose(
      {context.builder, attrs, context.inputs, context.input_types, context.output_types, context.cotangents});
}

ir::Derivative wait_derivative() {
  ir::Derivative rule = derivative::jvp(wait_tangents);
  rule.transpose = wait_transpose;
  rule.linear_in = {0};
  return rule;
}

std::vector<Value> batch_wait(const ir::BatchContext& context) {
  const Attrs attrs = context.attrs.without("op");
  return completed(context.attrs)
      .batch({context.builder, attrs, context.inputs, context.batched, context.size, context.axis, context.transforms});
}

void wait_reference(const ir::ReferenceContext& context) {
  const Attrs attrs = context.attrs.without("op");
  completed(context.attrs).reference({context.inputs, attrs, context.outputs});
}

std::vector<ir::Sample> start_samples() {
  std::vector<ir::Sample> list;
  for (const Shape& shape : samples::small_shapes()) {
    for (const DType dtype : samples::floats) {
      list.push_back({{collective::varying_input(dtype, shape, {"batch"})}, {}, collective::mesh(4)});
    }
  }
  return list;
}

/// Every sample of every op it may complete.
std::vector<ir::Sample> wait_samples() {
  std::vector<ir::Sample> list;
  for (const ir::Primitive* op : startable()) {
    for (ir::Sample& sample : op->samples()) {
      sample.attrs = sample.attrs.with("op", op->name);
      list.push_back(std::move(sample));
    }
  }
  return list;
}

std::vector<ir::ErrorSample> wait_errors() {
  const ArrayType x{float32, {2}, {"batch"}};
  const Attrs sum = {{"op", std::string("psum")}, {"axes", std::vector<std::string>{"batch"}}};
  return {
      {{x}, sum.with("op", std::string("add")), "op=add; expected psum", collective::mesh(2)},
      {{{float32, {2}, {}}}, sum, "psum given f32[2]", collective::mesh(2)},
      {{}, sum, "expected 1 operand", collective::mesh(2)},
  };
}

}  // namespace

const ir::Primitive& primitives::collective_start() {
  static const ir::Primitive primitive{
      .name = "collective_start",
      .infer = infer_start,
      .derivative =
          derivative::linear_in_one(0, [](const ir::TransposeContext&, const Value& cotangent) { return cotangent; }),
      .batch = batch::pointwise(primitives::collective_start),
      .reference = reference::copies(),
      .samples = start_samples,
      .error_samples = samples::errors({{{}, {}, "expected 1 operand", {}}}),
      .traits = {.moves = ir::Moves::in_place},
  };
  return primitive;
}

const ir::Primitive& primitives::collective_wait() {
  static const ir::Primitive primitive{
      .name = "collective_wait",
      .infer = infer_wait,
      .derivative = wait_derivative(),
      .batch = batch_wait,
      .reference = wait_reference,
      .samples = wait_samples,
      .error_samples = wait_errors,
      .traits = {.collective = true, .typed_axes = true},
      .collective = {.completes = completed},
  };
  return primitive;
}

}  // namespace lockstep::ops
