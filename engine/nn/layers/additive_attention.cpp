#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/layers_attention.h>
#include <lockstep/layers_regularization.h>
#include <lockstep/ops.h>

#include "engine/nn/layers/attention_context.h"
#include "engine/nn/layers/unseen_places.h"

namespace lockstep {
namespace {

void check_additive_operands(const Scope& scope, const Array& q, const Array& k, const Array& v,
                             const AttentionContext& context) {
  const auto is_sequences = [&](const Array& x) {
    return x.ndim() == 3 && is_float(x.dtype()) && x.dim(0) == q.dim(0);
  };
  if (!is_sequences(q) || !is_sequences(k) || !is_sequences(v) || k.dim(1) != v.dim(1) || k.dim(2) != q.dim(2)) {
    throw ShapeError(fmt::format(
        "[additive_attention '{}'] queries are {}, keys {}, values {}; give floats [N, T, features], [N, S, features] "
        "and [N, S, any]",
        scope.path(), to_string(q.type()), to_string(k.type()), to_string(v.type())));
  }
  for (const std::optional<Array>& lengths : {context.lengths, context.key_lengths}) {
    if (!lengths || (is_integer(lengths->dtype()) && lengths->shape() == Shape{q.dim(0)})) continue;
    throw ShapeError(
        fmt::format("[additive_attention '{}'] the input is {}, lengths are {}; give an integer for each row",
                    scope.path(), to_string(q.type()), to_string(lengths->type())));
  }
}

}  // namespace

Array additive_attention(const Scope& scope, const ArrayOperand& queries, const ArrayOperand& values,
                         const AdditiveAttentionOptions& options, const AttentionContext& context) {
  const NamedScope named = scope.named();
  Array q = scope.in_compute_dtype(queries), v = scope.in_compute_dtype(values);
  Array k = scope.in_compute_dtype(context.keys.value_or(v));
  check_additive_operands(scope, q, k, v, context);
  const Shape of_logits = {q.dim(0), q.dim(1), k.dim(1)};
  nn::check_logit_operands(fmt::format("[additive_attention '{}']", scope.path()), context, of_logits);
  const std::optional<Array> seen_at_all = nn::seen_keys(context.key_lengths, context.mask, of_logits);
  k = nn::without_unseen(k, seen_at_all);
  v = nn::without_unseen(v, seen_at_all);
  q = nn::without_unseen(q, nn::seeing_queries(context.lengths, context.mask, of_logits));
  const std::int64_t t = q.dim(1), s = k.dim(1);
  Array sums = tanh(expand_dims(q, 2) + expand_dims(k, 1));
  if (options.use_scale) {
    sums = sums * scope.trainable("scale", {.shape = {q.dim(2)},
                                            .dtype = q.dtype(),
                                            .initializer = options.initializer,
                                            .aggregation = options.aggregation});
  }
  const DType wide = promote(q.dtype(), float32);
  Array logits = sum(convert(sums, wide), Axes{-1});
  if (context.bias) logits = logits + convert(*context.bias, wide);
  Array seen = full({1, t, s}, true, bool_);
  if (options.is_causal) seen = iota({1, t, s}, 1) >= iota({1, t, s}, 2);
  if (context.key_lengths) seen = seen & expand_dims(nn::within(*context.key_lengths, s), 1);
  if (context.mask) seen = seen & *context.mask;
  // Not -inf: a query that sees no key takes the mean of all.
  Array weights = softmax(where(seen, logits, -1e30));
  if (options.dropout != 0) weights = dropout(scope["dropout"], weights, options.dropout);
  const Array y = convert(matmul(weights, convert(v, wide)), q.dtype());
  return context.lengths ? where(expand_dims(nn::within(*context.lengths, t), 2), y, 0) : y;
}

}  // namespace lockstep
