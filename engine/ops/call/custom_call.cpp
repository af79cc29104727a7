#include "engine/ops/call/custom_call.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/error.h>

#include "engine/ir/custom_op.h"
#include "engine/ops/rules/batch.h"
#include "engine/ops/rules/sub_function.h"

namespace lockstep::ops {

namespace {

using ir::CustomCall;
using ir::CustomOp;

/// The op's own rule sees one example; mapped dimensions are taken off its operands and put before its results.
std::vector<ArrayType> infer_call(const ir::InferContext& context) {
  const CustomCall call = CustomCall::of(context.attrs, context.inputs.size());
  std::vector<ArrayType> operands;
  for (std::size_t i = 0; i < context.inputs.size(); ++i) {
    ArrayType type{context.inputs[i].dtype, context.inputs[i].shape, {}};
    for (std::size_t level = 0; level < call.sizes.size(); ++level) {
      if (call.mapped[level][i] == 0) continue;
      if (type.shape.rank() == 0 || type.shape[0] != call.sizes[level]) {
        throw ShapeError(call.op->text() + ": operand " + std::to_string(i) + " is " + to_string(context.inputs[i]) +
                         ", which has no mapped dimension of " + std::to_string(call.sizes[level]));
      }
      type.shape = type.shape.erase(0);
    }
    operands.push_back(std::move(type));
  }
  std::vector<ArrayType> results = call.op->infer(operands);
  for (ArrayType& type : results) {
    type.varying = {};
    for (std::size_t level = call.sizes.size(); level-- > 0;) type.shape = type.shape.insert(0, call.sizes[level]);
  }
  return results;
}

std::vector<ir::Tangent> tangents_of_call(const ir::JvpContext& context) {
  const auto is_float = [](const Value& v) { return is_inexact(v.dtype()); };
  if (std::ranges::none_of(context.outputs, is_float)) return std::vector<ir::Tangent>(context.outputs.size());
  const ir::CustomOpPtr op = ir::custom_op(context.attrs);
  if (std::optional<std::vector<ir::Tangent>> tangents = op->tangents(context)) return std::move(*tangents);
  throw TraceError(op->text() +
                   " has no derivative; give it one (jvp or vjp of its CustomOpOptions), or put stop_gradient on its "
                   "operands");
}

std::vector<Value> batch_call(const ir::BatchContext& context) {
  CustomCall call = CustomCall::of(context.attrs, context.inputs.size());
  if (std::optional<std::vector<Value>> results = call.op->batch(context)) return std::move(*results);
  if (call.op->mapping() == CustomOp::Mapping::refused) {
    throw TraceError("vmap: " + call.op->text() +
                     " does not say what it does with a batch; set vmap_method (sequential: its kernel runs once for "
                     "each example; broadcast_all: its kernel takes operands with a leading dimension) or give a rule, "
                     "vmap, in its CustomOpOptions");
  }
  const bool at_once = call.op->mapping() == CustomOp::Mapping::at_once;
  std::vector<std::int64_t> marks;
  for (const bool batched : context.batched) marks.push_back(at_once || batched ? 1 : 0);
  std::vector<Value> operands(context.inputs.begin(), context.inputs.end());
  if (at_once) operands = batch::all_batched(context);
  call.sizes.insert(call.sizes.begin(), context.size);
  call.mapped.insert(call.mapped.begin(), std::move(marks));
  return sub_function::apply_to(context.builder, custom_call(), operands, call.attrs());
}

}  // namespace

const ir::Primitive& custom_call() {
  static const ir::Primitive primitive = [] {
    ir::Primitive op;
    op.name = "custom_call";
    op.infer = infer_call;
    op.derivative.kind = ir::Derivative::Kind::jvp;
    op.derivative.jvp = tangents_of_call;
    op.batch = batch_call;
    return op;
  }();
  return primitive;
}

}  // namespace lockstep::ops
