#include <string>
#include <vector>

#include "engine/ops/collective/dimension_axes.h"
#include "engine/ops/rules/define.h"

namespace lockstep::ops {

namespace {

using Entries = std::vector<std::string>;

/// Which axes there are the mesh knows that a program is partitioned over.
std::vector<ArrayType> with_layout_infer(const ir::InferContext& context) {
  infer::expect_operands(context, 1);
  context.attrs.get<bool>("both_ways");
  const auto& entries = context.attrs.get<Entries>("layout");
  const int rank = context.inputs[0].shape.rank();
  if (static_cast<int>(entries.size()) == rank) return {{context.inputs[0].dtype, context.inputs[0].shape, {}}};
  infer::shape_error(context, "an entry of the layout for each of " + std::to_string(rank) + " dimensions",
                     "write \"\" for a dimension that is whole");
}

std::vector<Value> with_layout_batch(const ir::BatchContext& context) {
  Entries entries = context.attrs.get<Entries>("layout");
  entries.insert(entries.begin(), "");
  return {apply_one(primitives::with_layout(), {batch::batched(context, 0)}, context.attrs.with("layout", entries))};
}

Attrs with_layout_attrs(Entries entries, bool both_ways) {
  return {{"layout", std::move(entries)}, {"both_ways", both_ways}};
}

std::vector<ir::Sample> with_layout_samples() {
  std::vector<ir::Sample> list;
  for (const DType dtype : {DType::float64, DType::float32, DType::int32, DType::bool_, DType::key}) {
    for (const bool both_ways : {false, true}) {
      list.push_back({{samples::input(dtype, {2, 3}, {0, 2})}, with_layout_attrs({"data", ""}, both_ways), {}});
    }
    for (const Shape& shape : {Shape{}, Shape{1}, Shape{0, 3}}) {
      const Entries whole(static_cast<std::size_t>(shape.rank()));
      list.push_back({{samples::input(dtype, shape, {0, 2})}, with_layout_attrs(whole, true), {}});
    }
  }
  return list;
}

}  // namespace

const Primitive& primitives::with_layout() {
  static const Primitive op{
      .name = "with_layout",
      .infer = with_layout_infer,
      .derivative = derivative::linear_in_one(0,
                                              [](const TransposeContext& context, const Value& ct) {
                                                if (!context.attrs.get<bool>("both_ways")) return ct;
                                                return apply_one(primitives::with_layout(), {ct}, context.attrs);
                                              }),
      .batch = with_layout_batch,
      .reference = reference::copies(),
      .samples = with_layout_samples,
      .error_samples = samples::errors({{{{DType::float32, {2}, {}}},
                                         with_layout_attrs({"data", ""}, true),
                                         "an entry of the layout for each of 1 dimensions",
                                         {}}}),
      .traits = {.moves = ir::Moves::in_place}};
  return op;
}

}  // namespace lockstep::ops
