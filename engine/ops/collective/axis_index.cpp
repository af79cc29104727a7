#include <vector>

#include "engine/ops/collective/axes.h"
#include "engine/ops/primitives.h"
#include "engine/ops/rules/batch.h"
#include "engine/ops/rules/derivative.h"
#include "engine/ops/rules/infer.h"

namespace lockstep::ops {

namespace {

std::vector<ArrayType> infer_index(const ir::InferContext& context) {
  infer::expect_operands(context, 0);
  return {{int32, {}, collective::bound_axis(context)}};
}

/// Over the batch the numbers of its examples.
std::vector<Value> batch_index(const ir::BatchContext& context) {
  if (!collective::over_batch(context)) return batch::constant(primitives::axis_index)(context);
  return {iota(context.builder, int32, Shape{context.size}, 0)};
}

/// As a collective's: one element for each replica of a group.
void index_reference(const ir::ReferenceContext& context) {
  for (std::int64_t i = 0; i < context.outputs[0].type.size(); ++i) reference::store(context.outputs[0], i, i);
}

std::vector<ir::Sample> index_samples() {
  return {
      {{}, {{"axis", std::string("batch")}}, collective::mesh(1)},
      {{}, {{"axis", std::string("batch")}}, collective::mesh(4)},
      {{}, {{"axis", std::string("model")}}, collective::mesh(2, 4)},
  };
}

std::vector<ir::ErrorSample> index_errors() {
  return {
      {{}, {{"axis", std::string("rows")}}, "unbound axis", collective::mesh(2)},
      {{{float32, {}, {}}}, {{"axis", std::string("batch")}}, "expected 0 operands", collective::mesh(2)},
  };
}

}  // namespace

const ir::Primitive& primitives::axis_index() {
  static const ir::Primitive primitive{
      .name = "axis_index",
      .infer = infer_index,
      .derivative = derivative::zero(),
      .batch = batch_index,
      .reference = index_reference,
      .samples = index_samples,
      .error_samples = index_errors,
      .traits = {.typed_axes = true},
      .collective = {.exchange = ir::Exchange::index},
  };
  return primitive;
}

}  // namespace lockstep::ops
