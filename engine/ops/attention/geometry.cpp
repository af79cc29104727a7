#include "engine/ops/attention/geometry.h"

#include <limits>
#include <string>

#include "engine/ops/rules/batch.h"
#include "engine/ops/rules/infer.h"
#include "engine/ops/rules/samples.h"

namespace lockstep::ops {

namespace {

using ir::InferContext;

void check_products(const InferContext& context) {
  const Shape& q = context.inputs[0].shape;
  const Shape& k = context.inputs[1].shape;
  for (std::size_t i = 0; i < 3; ++i) infer::expect_rank(context, i, 4);
  if (k != context.inputs[2].shape) infer::shape_error(context, "keys and values of one shape", "reshape one of them");
  if (q[0] != k[0] || q[3] != k[3]) {
    infer::shape_error(context, "queries [B,T,N,H] and keys [B,S,K,H] of one B and H", "broadcast or reshape them");
  }
  if (k[2] == 0 ? q[2] != 0 : q[2] % k[2] != 0) {
    infer::shape_error(context, "heads of the queries (dimension 2) that are a multiple of those of the keys",
                       "repeat or drop heads");
  }
  if (k[1] == 0) infer::shape_error(context, "at least one key", "pass keys of extent 1 or more in dimension 1");
}

void check_broadcast(const InferContext& context, std::size_t operand, const Shape& logits) {
  infer::expect_rank(context, operand, 4);
  const Shape& given = context.inputs[operand].shape;
  for (int d = 0; d < 4; ++d) {
    if (given[d] != 1 && given[d] != logits[d]) {
      infer::shape_error(context,
                         std::string(operand == 3 ? "a bias" : "a mask") +
                             " with the extents of [B,N,T,S] = " + to_string(logits) + " or 1",
                         "broadcast or reshape it");
    }
  }
}

/// Operand `i` with its batch merged into dimension 0, there as large as `rows`; extent 1 may stay where nothing is
/// batched and `may_stay`.
Value merged_operand(const ir::BatchContext& context, std::size_t i, std::int64_t rows, bool may_stay) {
  const Value& x = context.inputs[i];
  if (!context.batched[i] && x.shape()[0] == 1 && may_stay) return x;
  const Value whole = batch::batched(context, i);
  const Shape shape = whole.shape();
  Dims dims;
  for (int d = 0; d < shape.rank(); ++d) dims.push_back(d);
  const Value wide = broadcast_in_dim(whole, shape.with(1, rows), dims);
  return reshape(wide, shape.erase(0).with(0, context.size * rows));
}

}  // namespace

AttentionGeometry attention_geometry(const InferContext& context) {
  infer::expect_at_least(context, 5);
  infer::expect_dtype(context, 0, infer::floating);
  const DType dtype = context.inputs[0].dtype;
  if (context.inputs[1].dtype != dtype || context.inputs[2].dtype != dtype || context.inputs[3].dtype != dtype) {
    infer::dtype_error(context, "queries, keys, values and bias of one dtype", "convert(x, dtype) one of them");
  }
  if (context.inputs[4].dtype != DType::bool_) {
    infer::dtype_error(context, "a mask of bool", "pass what is added to the logits as bias");
  }
  check_products(context);
  const Shape& q = context.inputs[0].shape;
  const Shape& k = context.inputs[1].shape;
  const Shape logits{q[0], q[2], q[1], k[1]};
  check_broadcast(context, 3, logits);
  check_broadcast(context, 4, logits);
  const Dims& window = infer::list_attr(context, "window", 2);
  if (window[0] < -1 || window[1] < -1) {
    infer::shape_error(context, "window=[left,right], each -1 (no bound) or more", "write -1 for no bound");
  }
  AttentionGeometry geometry;
  geometry.batch = q[0];
  geometry.queries = q[1];
  geometry.heads = q[2];
  geometry.features = q[3];
  geometry.keys = k[1];
  geometry.key_heads = k[2];
  geometry.bias = context.inputs[3].shape;
  geometry.mask = context.inputs[4].shape;
  geometry.scale = context.attrs.get<double>("scale");
  geometry.left = window[0];
  geometry.right = window[1];
  return geometry;
}

DType logits_dtype(DType dtype) { return is_narrow_float(dtype) ? DType::float32 : dtype; }

double masked_logit() { return -0.7 * static_cast<double>(std::numeric_limits<float>::max()); }

std::vector<Value> batch_attention(const ir::BatchContext& context, const ir::Primitive& self, bool summed_bias) {
  const Shape& q = context.inputs[0].shape();
  const std::int64_t rows = q[context.batched[0] ? 1 : 0];
  const Shape& bias = context.inputs[3].shape();
  const std::int64_t bias_rows = bias[context.batched[3] ? 1 : 0];
  std::vector<Value> operands;
  for (std::size_t i = 0; i < context.inputs.size(); ++i) {
    const bool broadcasts = i == 4 || (i == 3 && !summed_bias);
    operands.push_back(merged_operand(context, i, rows, broadcasts));
  }
  if (operands.size() == 11) {  // attention_tangent: the bias and its tangent have one shape
    operands[3] = merged_operand(context, 3, rows, false);
  }
  std::vector<Value> results = apply(self, operands, context.attrs);
  for (std::size_t i = 0; i < results.size(); ++i) {
    Value& result = results[i];
    result = reshape(result, result.shape().with(0, rows).insert(0, context.size));
    if (!summed_bias || i + 1 < results.size() || bias_rows == rows) continue;
    result = reduce_sum(result, {1});
    result = reshape(result, result.shape().insert(1, 1));
  }
  return results;
}

std::vector<AttentionCase> attention_cases(DType dtype) {
  const AttentionCase causal{{1, 4, 2, 3}, {1, 4, 1, 3}, {1, 2, 4, 4}, {1, 1, 4, 4}, 0.7, {-1, 0}};
  const AttentionCase grouped{{2, 3, 4, 2}, {2, 4, 2, 2}, {2, 1, 1, 4}, {2, 4, 3, 1}, 1.0, {1, 1}};
  const AttentionCase blind{{1, 3, 1, 2}, {1, 2, 1, 2}, {1, 1, 3, 2}, {1, 1, 1, 1}, 1.0, {0, 0}};  // query 2
  if (is_narrow_float(dtype)) return {causal};
  if (dtype == DType::float32) return {causal, grouped, blind};
  return {
      causal,
      grouped,
      blind,
      {{2, 3, 2, 4}, {2, 5, 2, 4}, {1, 1, 1, 1}, {1, 1, 1, 1}, 0.5, {-1, -1}},
      {{2, 2, 2, 1}, {2, 3, 2, 1}, {1, 2, 2, 1}, {2, 1, 2, 3}, -0.5, {0, -1}},
      {{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}, 1.0, {-1, -1}},
      {{0, 2, 1, 2}, {0, 2, 1, 2}, {1, 1, 1, 1}, {0, 1, 2, 2}, 1.0, {-1, -1}},
      {{1, 0, 1, 2}, {1, 2, 1, 2}, {1, 1, 0, 2}, {1, 1, 1, 1}, 1.0, {-1, -1}},
  };
}

Attrs attention_attrs(const AttentionCase& c) { return {{"scale", c.scale}, {"window", c.window}}; }

std::vector<ir::SampleInput> attention_inputs(DType dtype, const AttentionCase& c) {
  return {samples::input(dtype, c.q), samples::input(dtype, c.k), samples::input(dtype, c.k),
          samples::input(dtype, c.bias), samples::input(DType::bool_, c.mask, {0.4, 2})};
}

}  // namespace lockstep::ops
