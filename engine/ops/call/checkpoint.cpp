#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/error.h>

#include "engine/ops/call/align.h"
#include "engine/ops/call/checkpoint_policy.h"
#include "engine/ops/control_flow/rules.h"
#include "engine/ops/primitives.h"
#include "engine/ops/rules/batch.h"
#include "engine/ops/rules/derivative.h"
#include "engine/ops/rules/infer.h"
#include "engine/ops/rules/reference.h"
#include "engine/ops/rules/samples.h"
#include "engine/ops/rules/sub_function.h"

namespace lockstep::ops {

namespace {

using ir::FunctionPtr;
using ir::Var;
using sub_function::marked;

std::vector<ArrayType> infer_checkpoint(const ir::InferContext& context) {
  call::SavePolicy::of(context.attrs);
  return sub_function::infer(context);
}

// ---- split: what is known is computed and a part of it kept; the rest is computed again where it is needed

/// How the residuals of a known part come from its inputs and from what is kept.
struct Recomputation {
  std::vector<bool> equations;  ///< Of the known part: computed again.
  std::vector<bool> inputs;     ///< Of the known part: read again.
  std::vector<Var> kept;
};

Recomputation plan(const ir::Function& known, std::span<const Var> residuals, const std::vector<bool>& may_keep) {
  Recomputation result{std::vector<bool>(known.equations().size()), {}, {}};
  std::vector<bool> needed(known.types().size());
  const auto need = [&](Var v) {
    if (needed[v.id]) return;
    needed[v.id] = true;
    if (may_keep[v.id]) result.kept.push_back(v);
  };
  for (const Var v : residuals) need(v);
  for (std::size_t i = known.equations().size(); i-- > 0;) {
    const ir::Equation& equation = known.equations()[i];
    result.equations[i] = std::ranges::any_of(equation.outputs, [&](Var v) { return needed[v.id] && !may_keep[v.id]; });
    if (result.equations[i]) std::ranges::for_each(equation.inputs, need);
  }
  for (const Var v : known.inputs()) result.inputs.push_back(needed[v.id]);
  return result;
}

/// (input that is read again..., kept..., unknown input...) -> (unknown output...), the residuals computed inside.
FunctionPtr recomputing(const ir::Partitioned& parts, std::span<const Var> residuals, const Recomputation& again) {
  const ir::Function& known = *parts.known;
  ir::Builder builder(known.axes());
  std::vector<Var> values(known.types().size());
  for (const Var v : marked(known.inputs(), again.inputs, true)) values[v.id] = builder.input(known.type(v));
  for (const Var v : again.kept) values[v.id] = builder.input(known.type(v));
  for (std::size_t i = 0; i < again.equations.size(); ++i) {
    const ir::Equation& equation = known.equations()[i];
    if (!again.equations[i]) continue;
    std::vector<Var> operands;
    for (const Var v : equation.inputs) operands.push_back(values[v.id]);
    builder.set_provenance(equation.provenance);
    const std::vector<Var> results = builder.apply(*equation.primitive, operands, equation.attrs);
    for (std::size_t k = 0; k < results.size(); ++k) values[equation.outputs[k].id] = results[k];
  }
  builder.set_provenance({});
  std::vector<Var> arguments;
  for (const Var v : residuals) arguments.push_back(values[v.id]);
  const std::vector<Var>& late = parts.unknown->inputs();
  for (std::size_t i = arguments.size(); i < late.size(); ++i)
    arguments.push_back(builder.input(parts.unknown->type(late[i])));
  return builder.finish(builder.inline_function(*parts.unknown, arguments));
}

ir::SplitResult split_checkpoint(const ir::SplitContext& context) {
  const FunctionPtr body = ir::sub_function(context.attrs, "body");
  const ir::Partitioned parts =
      context.transforms->partition(body, context.unknown, std::vector<bool>(body->outputs().size(), false));
  const ir::Function& known = *parts.known;
  const auto count = static_cast<std::size_t>(parts.residuals);
  const std::span<const Var> residuals = std::span(known.outputs()).last(count);
  const Recomputation again = plan(known, residuals, call::SavePolicy::of(context.attrs).kept(known));

  std::vector<Var> outputs(known.outputs().begin(), known.outputs().end() - parts.residuals);
  const std::size_t results = outputs.size();
  sub_function::append(outputs, again.kept);
  const auto apply = [&](const FunctionPtr& function, std::span<const Value> operands) {
    if (function->outputs().empty()) return std::vector<Value>();
    return sub_function::apply_to(context.builder, primitives::checkpoint(), operands,
                                  context.attrs.with("body", sub_function::attribute(function)));
  };
  const std::vector<Value> operands = marked(context.inputs, context.unknown, false);
  const std::vector<Value> early = apply(sub_function::with_signature(known, known.inputs(), outputs), operands);

  std::vector<Value> late_operands = marked(operands, again.inputs, true);
  late_operands.insert(late_operands.end(), early.begin() + static_cast<std::ptrdiff_t>(results), early.end());
  sub_function::append(late_operands, marked(context.inputs, context.unknown, true));
  return sub_function::joined_results(parts.unknown_outputs, early,
                                      apply(recomputing(parts, residuals, again), late_operands));
}

ir::Derivative checkpoint_derivative() {
  ir::Derivative derivative;
  derivative.kind = ir::Derivative::Kind::joint;
  derivative.joint = [](const ir::JvpContext& context) {
    return sub_function::tangents(primitives::checkpoint(), context);
  };
  derivative.transpose = [](const ir::TransposeContext& context) {
    return sub_function::transpose(primitives::checkpoint(), context);
  };
  return derivative;
}

// ---- samples

std::vector<Value> wave_and_sum(ir::Builder&, std::span<const Value> x) {
  const Value product = sin(x[0] * x[1]);
  return {product * exp(x[1]), reduce_sum(product, {0})};
}

Attrs checkpoint_attrs(const FunctionPtr& body, std::string policy = "nothing_saveable") {
  return {
      {"body", sub_function::attribute(body)}, {"policy", std::move(policy)}, {"names", std::vector<std::string>{}}};
}

std::vector<ir::Sample> checkpoint_samples() {
  std::vector<ir::Sample> list;
  for (const ArrayType& type : {ArrayType{float64, {3, 2}, {}}, ArrayType{float64, {1}, {}},
                                ArrayType{float32, {4}, {}}, ArrayType{float64, {0, 2}, {}}}) {
    const samples::Range range;
    for (const char* policy : {"nothing_saveable", "everything_saveable"}) {
      list.push_back({{samples::input(type.dtype, type.shape, range), samples::input(type.dtype, type.shape, range)},
                      checkpoint_attrs(sub_function::write({}, {type, type}, wave_and_sum), policy),
                      {}});
    }
  }
  return list;
}

std::vector<ir::ErrorSample> checkpoint_errors() {
  const ArrayType x{float32, {3}, {}};
  const Attrs good = checkpoint_attrs(sub_function::write({}, {x, x}, wave_and_sum));
  return {
      {{x}, good, "checkpoint given 1 operands; expected 2", {}},
      {{x, {float32, {2}, {}}}, good, "operand 1 of type f32[2]; expected f32[3]", {}},
      {{x, x}, good, "under other axes", ir::AxisSizes({{"batch", 2}})},
      {{x, x}, good.with("policy", std::string("some")), "policy some; expected one of nothing_saveable", {}},
  };
}

}  // namespace

const ir::Primitive& primitives::checkpoint() {
  static const ir::Primitive primitive{
      .name = "checkpoint",
      .infer = infer_checkpoint,
      .derivative = checkpoint_derivative(),
      .split = split_checkpoint,
      .align = call::align_checkpoint,
      .batch = [](const ir::BatchContext& context) { return sub_function::batch(primitives::checkpoint(), context); },
      .reference = nullptr,
      .samples = checkpoint_samples,
      .error_samples = checkpoint_errors,
      .traits = {.typed_axes = true, .call = true},
      .sub_functions = {.trim = control_flow::trim_body},
  };
  return primitive;
}

const ir::Primitive& primitives::checkpoint_name() {
  static const ir::Primitive primitive{
      .name = "checkpoint_name",
      .infer = infer::same_shape(infer::any),
      .derivative = derivative::unary([](const Value&, const Value&, const Value& dx) { return dx; }),
      .batch = batch::pointwise(primitives::checkpoint_name),
      .reference = reference::copies(),
      .samples =
          [] {
            const auto both = samples::both(samples::unary(-2, 2, samples::all_floats),
                                            samples::unary(0, 2, {DType::int32, DType::bool_, DType::key}));
            std::vector<ir::Sample> list = both();
            for (ir::Sample& sample : list) sample.attrs = {{"name", std::string("kept")}};
            return list;
          },
      .error_samples = samples::errors(
          {{{{float32, {}, {}}, {float32, {}, {}}}, {{"name", std::string("kept")}}, "expected 1 operand", {}}}),
      .traits = {.pointwise = true, .moves = ir::Moves::in_place},
  };
  return primitive;
}

}  // namespace lockstep::ops
