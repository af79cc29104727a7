#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "engine/core/lists.h"
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
using Pairs = std::vector<Dims>;  // [sender, receiver]

void check_pairs(const ir::InferContext& context, std::int64_t size) {
  std::set<std::int64_t> senders, receivers;
  for (const Dims& pair : context.attrs.get<Pairs>("pairs")) {
    if (pair.size() != 2) {
      collective::mesh_error(context, "pairs of a sender and a receiver", "write {{0, 1}, {1, 2}}");
    }
    for (const std::int64_t replica : pair) {
      if (replica >= 0 && replica < size) continue;
      collective::mesh_error(context, "replicas in [0, " + std::to_string(size) + ")",
                             "name replicas of the axis; " + std::to_string(replica) + " is none");
    }
    if (senders.insert(pair[0]).second && receivers.insert(pair[1]).second) continue;
    collective::mesh_error(context, "every replica at most once as a sender and at most once as a receiver",
                           "send to several replicas with all_gather, receive from several with psum_scatter");
  }
}

std::vector<ArrayType> infer_permute(const ir::InferContext& context) {
  infer::expect_operands(context, 1);
  infer::expect_dtype(context, 0, infer::value);
  const AxisSet axis = collective::bound_axis(context);
  collective::expect_varying(context, axis, "", "use x as it is, or select on axis_index where some shall get zeros");
  check_pairs(context, context.axes.size(axis, context.op));
  return {context.inputs[0]};
}

Attrs ppermute_attrs(std::string axis, Pairs pairs) { return {{"axis", std::move(axis)}, {"pairs", std::move(pairs)}}; }

Value transpose_permute(const ir::TransposeContext& context, const Value& cotangent) {
  Pairs back = context.attrs.get<Pairs>("pairs");
  for (Dims& pair : back) std::ranges::reverse(pair);
  return apply_one(primitives::ppermute(), {collective::varying_along(cotangent, collective::axis_attr(context.attrs))},
                   context.attrs.with("pairs", std::move(back)));
}

/// Per receiver its sender, or -1.
Dims senders(const Pairs& pairs, std::int64_t size) {
  Dims from = repeated(size, -1);
  for (const Dims& pair : pairs) nth(from, pair[1]) = pair[0];
  return from;
}

/// Over the batch the examples in another order: runs of neighbours and of zeros, one behind the other.
std::vector<Value> batch_permute(const ir::BatchContext& context) {
  if (!collective::over_batch(context)) return batch::pointwise(primitives::ppermute)(context);
  const Value x = batch::batched(context, 0);
  const Dims from = senders(context.attrs.get<Pairs>("pairs"), context.size);
  std::vector<Value> runs;
  for (std::size_t first = 0; first < from.size();) {
    const bool silent = from[first] < 0;
    std::size_t last = first + 1;
    while (last < from.size() && from[last] == (silent ? -1 : from[last - 1] + 1)) ++last;
    const auto count = static_cast<std::int64_t>(last - first);
    Dims start = repeated(x.rank()), limit = x.shape().to_vector();
    start[0] = from[first];
    limit[0] = from[first] + count;
    runs.push_back(silent ? full(context.builder, x.dtype(), x.shape().with(0, count), 0)
                          : slice(x, start, limit, Dims(start.size(), 1)));
    first = last;
  }
  return {runs.empty() ? x : concatenate(runs, 0)};
}

void permute_reference(const ir::ReferenceContext& context) {
  const ir::ReferenceArray& x = context.inputs[0];
  const std::int64_t size = x.type.shape[0] == 0 ? 0 : x.type.size() / x.type.shape[0];
  for (const Dims& pair : context.attrs.get<Pairs>("pairs")) {
    for (std::int64_t i = 0; i < size; ++i) {
      reference::copy_element(x, pair[0] * size + i, context.outputs[0], pair[1] * size + i);
    }
  }
}

std::vector<ir::Sample> permute_samples() {
  const Pairs cycle = {{0, 1}, {1, 2}, {2, 3}, {3, 0}};
  const Pairs shift = {{0, 1}, {1, 2}, {2, 3}};
  std::vector<ir::Sample> list;
  for (const Shape& shape : samples::small_shapes()) {
    list.push_back({{varying_input(float64, shape, {"batch"})}, ppermute_attrs("batch", cycle), mesh(4)});
  }
  for (const DType dtype : {float64, float32, bfloat16, int32, DType::bool_}) {
    list.push_back({{varying_input(dtype, {2, 3}, {"batch"})}, ppermute_attrs("batch", shift), mesh(4)});
  }
  list.push_back({{varying_input(float64, {2}, {"batch"})}, ppermute_attrs("batch", {}), mesh(2)});
  list.push_back({{varying_input(float64, {2}, {"batch"})}, ppermute_attrs("batch", {}), mesh(1)});
  list.push_back({{varying_input(float64, {2}, {"batch"})}, ppermute_attrs("batch", {{0, 0}}), mesh(1)});
  list.push_back(
      {{varying_input(float64, {2}, {"batch", "model"})}, ppermute_attrs("model", {{3, 0}, {1, 1}}), mesh(2, 4)});
  list.push_back({{varying_input(float64, {2}, {"batch", "model"})}, ppermute_attrs("batch", {{1, 0}}), mesh(2, 2)});
  return list;
}

std::vector<ir::ErrorSample> permute_errors() {
  const ArrayType x{float32, {4}, {"batch"}};
  return {
      {{}, ppermute_attrs("batch", {}), "expected 1 operand", mesh(4)},
      {{x}, ppermute_attrs("rows", {}), "unbound axis", mesh(4)},
      {{x}, ppermute_attrs("batch", {{0, 4}}), "replicas in [0, 4)", mesh(4)},
      {{x}, ppermute_attrs("batch", {{0, 1, 2}}), "pairs of a sender and a receiver", mesh(4)},
      {{x}, ppermute_attrs("batch", {{0, 1}, {0, 2}}), "at most once as a sender", mesh(4)},
      {{x}, ppermute_attrs("batch", {{0, 1}, {2, 1}}), "at most once as a receiver", mesh(4)},
      {{{DType::key, {}, {"batch"}}}, ppermute_attrs("batch", {}), "any dtype but key", mesh(4)},
      {{{float32, {4}, {}}}, ppermute_attrs("batch", {{0, 1}}), "invariant along batch", mesh(4)},
  };
}

}  // namespace

const ir::Primitive& primitives::ppermute() {
  static const ir::Primitive primitive{
      .name = "ppermute",
      .infer = infer_permute,
      .derivative = derivative::linear_in_one(0, transpose_permute),
      .batch = batch_permute,
      .reference = permute_reference,
      .samples = permute_samples,
      .error_samples = permute_errors,
      .traits = {.collective = true, .typed_axes = true},
      .collective = {.exchange = ir::Exchange::permute},
  };
  return primitive;
}

}  // namespace lockstep::ops
