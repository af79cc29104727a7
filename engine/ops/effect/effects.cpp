#include "engine/ir/effects.h"

#include <cstdint>
#include <string>
#include <vector>

#include "engine/ops/rules/define.h"

namespace lockstep::ops {

namespace {

using Names = std::vector<std::string>;

/// Operands that stand before and behind the values: the replica's numbers, and the result of the effect before.
std::size_t values_of(const ir::InferContext& context) {
  const std::size_t others =
      context.attrs.get<Names>("axes").size() + (context.attrs.get_or<bool>("ordered", false) ? 1 : 0);
  infer::expect_at_least(context, others);
  return context.inputs.size() - others;
}

/// The shapes of the mapped dimensions agree; the result says nothing.
std::vector<ArrayType> infer_effect(const ir::InferContext& context) {
  const std::size_t axes = context.attrs.get<Names>("axes").size();
  const auto batch = static_cast<int>(infer::index_attr(context, "batch", Shape::max_rank + 1));
  const std::size_t operands = axes + values_of(context);
  for (std::size_t i = 0; i < operands; ++i) {
    const Shape& shape = context.inputs[i].shape;
    bool fits = shape.rank() >= batch && (i >= axes || shape.rank() == batch);
    for (int d = 0; d < batch && fits; ++d) fits = shape[d] == context.inputs[0].shape[d];
    if (!fits) {
      infer::shape_error(context, "operands of the same first " + std::to_string(batch) + " dimensions",
                         "broadcast them");
    }
    if (i < axes && context.inputs[i].dtype != int32) {
      infer::dtype_error(context, "int32 numbers of replicas", "pass axis_index(axis)");
    }
  }
  return {{bool_, Shape{}, {}}};
}

std::vector<ArrayType> infer_print(const ir::InferContext& context) {
  const std::size_t wanted = ir::format_pieces(context.attrs.get<std::string>("format")).size() - 1;
  const std::size_t given = values_of(context);
  if (wanted != given) {
    infer::shape_error(context, std::to_string(wanted) + " arrays, one for each {} of the format",
                       "give " + std::to_string(wanted) + " arrays or change the format");
  }
  return infer_effect(context);
}

std::vector<ArrayType> infer_check(const ir::InferContext& context) {
  context.attrs.get<std::string>("message");
  if (values_of(context) != 1) infer::shape_error(context, "one predicate", "join predicates by bitwise_or");
  const DType dtype = context.inputs[context.attrs.get<Names>("axes").size()].dtype;
  if (dtype != bool_) infer::dtype_error(context, "a bool predicate", "compare: error_if(x != 0, message)");
  return infer_effect(context);
}

/// Once for each element: another mapped dimension in front.
std::vector<Value> batch_effect(const ir::BatchContext& context, const ir::Primitive& self) {
  const std::int64_t batch = context.attrs.get<std::int64_t>("batch");
  const Value done = apply(self, batch::all_batched(context), context.attrs.with("batch", batch + 1))[0];
  return {broadcast_leading(done, context.size)};
}

Attrs effect_attrs(std::string_view name, const std::string& text, std::int64_t batch = 0) {
  return Attrs{{std::string(name), text}, {"axes", Names{}}, {"batch", batch}};
}

}  // namespace

const Primitive& primitives::debug_print() {
  static const auto sample = [](const Shape& shape, DType dtype, std::int64_t batch) {
    return ir::Sample{{samples::input(dtype, shape)}, effect_attrs("format", "sample {}", batch), {}};
  };
  static const Primitive op{
      .name = "debug_print",
      .infer = infer_print,
      .derivative = derivative::zero(),
      .batch = [](const ir::BatchContext& context) { return batch_effect(context, primitives::debug_print()); },
      .reference = [](const ir::ReferenceContext& context) { ir::print_effect(context.attrs, context.inputs); },
      .samples = samples::list({sample({}, float32, 0), sample({2}, float64, 0), sample({0}, int32, 0),
                                sample({2, 1}, float32, 1), sample({1}, bool_, 1)}),
      .error_samples =
          samples::errors({{{}, effect_attrs("format", "x = {}"), "expected 1 arrays, one for each {}", {}},
                           {{{float32, {}, {}}}, effect_attrs("format", "x"), "expected 0 arrays", {}},
                           {{{float32, {}, {}}}, effect_attrs("format", "{}", 1), "same first 1 dim", {}}}),
      .traits = {.effect = true}};
  return op;
}

const Primitive& primitives::error_if() {
  static const auto sample = [](const Shape& shape, std::int64_t batch) {
    return ir::Sample{{samples::input(bool_, shape, {0, 0.5})}, effect_attrs("message", "sample", batch), {}};
  };
  static const Primitive op{
      .name = "error_if",
      .infer = infer_check,
      .derivative = derivative::zero(),
      .batch = [](const ir::BatchContext& context) { return batch_effect(context, primitives::error_if()); },
      .reference = [](const ir::ReferenceContext& context) { ir::check_effect(context.attrs, context.inputs); },
      .samples = samples::list({sample({}, 0), sample({3}, 0), sample({0}, 0), sample({2, 2}, 1)}),
      .error_samples = samples::errors({{{}, effect_attrs("message", "m"), "one predicate", {}},
                                        {{{float32, {}, {}}}, effect_attrs("message", "m"), "a bool predicate", {}},
                                        {{{bool_, {}, {}}}, effect_attrs("message", "m", 1), "same first 1 dim", {}}}),
      .traits = {.effect = true}};
  return op;
}

}  // namespace lockstep::ops
