#include "engine/ops/attention/sums_apart.h"

#include <cstddef>

#include "engine/ops/primitives.h"
#include "engine/ops/values.h"

namespace lockstep::ops {

namespace {

constexpr std::size_t bias = 3;

/// Over one dimension, 16-bit floats in float32.
Value sum_over(const Value& x, std::int64_t dim) {
  if (!is_narrow_float(x.dtype())) return reduce_sum(x, {dim});
  return convert(reduce_sum(convert(x, float32), {dim}), x.dtype());
}

/// [B,S,K,H] as [B,S,K G,H].
Value for_each_query_head(const Value& x, std::int64_t group) {
  const Shape& shape = x.shape();
  const Value spread = broadcast_in_dim(x, {shape[0], shape[1], shape[2], group, shape[3]}, {0, 1, 2, 4});
  return reshape(spread, {shape[0], shape[1], shape[2] * group, shape[3]});
}

Value sum_of_query_heads(const Value& x, const Shape& keys, std::int64_t group) {
  return sum_over(reshape(x, {keys[0], keys[1], keys[2], group, keys[3]}), 3);
}

}  // namespace

std::optional<std::vector<Value>> attention_grad_with_sums_apart(std::span<const Value> inputs, const Attrs& attrs,
                                                                 bool is_bias_read) {
  std::vector<Value> operands(inputs.begin(), inputs.end());
  const Shape queries = operands[0].shape();
  const Shape keys = operands[1].shape();
  const Shape given = operands[bias].shape();
  const std::int64_t group = queries[2] / keys[2];
  Shape spread = given;  // [B,N,T,S], each of these or 1
  if (is_bias_read) spread = spread.with(0, queries[0]).with(1, queries[2]);
  if (group == 1 && spread == given) return std::nullopt;
  for (const std::size_t i : {1, 2}) operands[i] = group == 1 ? operands[i] : for_each_query_head(operands[i], group);
  operands[bias] = broadcast_in_dim(operands[bias], spread, all_dims(spread.rank()));
  std::vector<Value> results = apply(primitives::attention_grad(), operands, attrs);
  for (const std::size_t i : {1, 2}) results[i] = group == 1 ? results[i] : sum_of_query_heads(results[i], keys, group);
  for (const int dim : {1, 0}) {
    if (given[dim] == spread[dim]) continue;
    const Value sum = sum_over(results[bias], dim);
    results[bias] = reshape(sum, sum.shape().insert(dim, 1));
  }
  return results;
}

}  // namespace lockstep::ops
