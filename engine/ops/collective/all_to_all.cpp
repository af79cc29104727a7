#include <string>
#include <vector>

#include "engine/core/checked_sizes.h"
#include "engine/ir/exchange.h"
#include "engine/ops/collective/axes.h"
#include "engine/ops/primitives.h"
#include "engine/ops/rules/batch.h"
#include "engine/ops/rules/derivative.h"
#include "engine/ops/rules/infer.h"
#include "engine/ops/rules/samples.h"

namespace lockstep::ops {

namespace {

using collective::mesh;
using collective::varying_input;
using ir::AllToAll;

std::vector<ArrayType> infer_exchange(const ir::InferContext& context) {
  infer::expect_operands(context, 1);
  infer::expect_dtype(context, 0, infer::any);
  const AxisSet axis = collective::bound_axis(context);
  collective::expect_varying(context, axis, "", "slice x at axis_index and concatenate it with itself");
  const ArrayType& x = context.inputs[0];
  const int split = static_cast<int>(infer::index_attr(context, "split", x.shape.rank()));
  const int concat = static_cast<int>(infer::index_attr(context, "concat", x.shape.rank()));
  const std::int64_t size = context.axes.size(axis, context.op);
  if (x.shape[split] % size != 0) {
    infer::shape_error(context,
                       "an extent of dimension " + std::to_string(split) + " that " + std::to_string(size) +
                           " replicas can share equally",
                       "pad it to a multiple of " + std::to_string(size));
  }
  const Shape blocks = x.shape.with(split, x.shape[split] / size);
  return {{x.dtype, blocks.with(concat, checked_product(blocks[concat], size, context.op)), x.varying}};
}

Attrs all_to_all_attrs(std::string axis, std::int64_t split, std::int64_t concat) {
  return AllToAll{std::move(axis), split, concat}.attrs();
}

/// What went from replica i to j comes back from j to i.
Value transpose_exchange(const ir::TransposeContext& context, const Value& cotangent) {
  const Value varying = collective::varying_along(cotangent, collective::axis_attr(context.attrs));
  const auto [axis, split, concat] = AllToAll::of(context.attrs);
  return apply_one(primitives::all_to_all(), {varying}, all_to_all_attrs(axis, concat, split));
}

/// Over the batch a transposition of who holds which block.
std::vector<Value> batch_exchange(const ir::BatchContext& context) {
  const auto [axis, split, concat] = AllToAll::of(context.attrs);
  if (!collective::over_batch(context)) {
    return {apply_one(primitives::all_to_all(), {context.inputs[0]}, all_to_all_attrs(axis, split + 1, concat + 1))};
  }
  const Value x = batch::batched(context, 0);
  const int from = static_cast<int>(split) + 1;
  const Shape cut = x.shape().with(from, x.shape()[from] / context.size).insert(from, context.size);
  const Value by_receiver = collective::to_leading(reshape(x, cut), from);  // [receiver, sender, block...]
  Dims permutation{0};
  for (std::int64_t d = 2; d < by_receiver.rank(); ++d) permutation.push_back(d);
  permutation.insert(permutation.begin() + 1 + concat, 1);
  const Value in_place = transpose(by_receiver, permutation);
  const int to = static_cast<int>(concat) + 1;
  const Shape apart = in_place.shape();
  return {reshape(in_place, apart.erase(to).with(to, apart[to] * apart[to + 1]))};
}

/// Replica r's result: block r of each replica's operand, one behind the other.
void exchange_reference(const ir::ReferenceContext& context) {
  const AllToAll exchange = AllToAll::of(context.attrs);
  const auto split = static_cast<std::size_t>(exchange.split);
  const auto concat = static_cast<std::size_t>(exchange.concat);
  const ir::ReferenceArray& x = context.inputs[0];
  const std::int64_t block = x.type.shape[static_cast<int>(split) + 1] / x.type.shape[0];
  const Shape own = x.type.shape.erase(0).with(static_cast<int>(split), block);
  std::int64_t position = 0;
  reference::for_each_index(context.outputs[0].type.shape, [&](const Dims& index) {
    Dims from(index.begin() + 1, index.end());
    const std::int64_t sender = from[concat] / own[static_cast<int>(concat)];
    from[concat] %= own[static_cast<int>(concat)];
    from[split] += index[0] * block;
    from.insert(from.begin(), sender);
    reference::copy_element(x, reference::offset(x.type.shape, from), context.outputs[0], position++);
  });
}

std::vector<ir::Sample> exchange_samples() {
  std::vector<ir::Sample> list;
  for (const auto& [split, concat] : {std::pair(0, 1), std::pair(1, 0), std::pair(0, 0), std::pair(2, 1)}) {
    list.push_back(
        {{varying_input(float64, {4, 8, 12}, {"batch"})}, all_to_all_attrs("batch", split, concat), mesh(4)});
    list.push_back({{varying_input(float32, {2, 4, 6}, {"batch"})}, all_to_all_attrs("batch", split, concat), mesh(2)});
  }
  list.push_back({{varying_input(float64, {1}, {"batch"})}, all_to_all_attrs("batch", 0, 0), mesh(1)});
  list.push_back({{varying_input(float64, {2, 0}, {"batch"})}, all_to_all_attrs("batch", 0, 1), mesh(2)});
  list.push_back({{varying_input(float64, {2, 4}, {"batch", "model"})}, all_to_all_attrs("model", 1, 0), mesh(2, 4)});
  list.push_back({{varying_input(int32, {2, 2}, {"batch", "model"})}, all_to_all_attrs("batch", 0, 1), mesh(2, 2)});
  list.push_back({{varying_input(DType::bool_, {2, 3}, {"batch"})}, all_to_all_attrs("batch", 0, 1), mesh(2)});
  return list;
}

std::vector<ir::ErrorSample> exchange_errors() {
  const ArrayType x{float32, {4, 6}, {"batch"}};
  return {
      {{}, all_to_all_attrs("batch", 0, 1), "expected 1 operand", mesh(4)},
      {{x}, all_to_all_attrs("rows", 0, 1), "unbound axis", mesh(4)},
      {{x}, all_to_all_attrs("batch", 2, 0), "split in [0, 2)", mesh(4)},
      {{x}, all_to_all_attrs("batch", 0, 2), "concat in [0, 2)", mesh(4)},
      {{x}, all_to_all_attrs("batch", 1, 0), "pad it to a multiple of 4", mesh(4)},
      {{{float32, {4, 6}, {}}}, all_to_all_attrs("batch", 0, 1), "invariant along batch", mesh(4)},
  };
}

}  // namespace

const ir::Primitive& primitives::all_to_all() {
  static const ir::Primitive primitive{
      .name = "all_to_all",
      .infer = infer_exchange,
      .derivative = derivative::linear_in_one(0, transpose_exchange),
      .batch = batch_exchange,
      .reference = exchange_reference,
      .samples = exchange_samples,
      .error_samples = exchange_errors,
      .traits = {.collective = true, .typed_axes = true},
      .collective = {.exchange = ir::Exchange::all_to_all},
  };
  return primitive;
}

}  // namespace lockstep::ops
