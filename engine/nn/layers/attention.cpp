#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <lockstep/attention.h>
#include <lockstep/error.h>
#include <lockstep/indexing.h>
#include <lockstep/layers_attention.h>
#include <lockstep/layers_dense.h>
#include <lockstep/layers_regularization.h>
#include <lockstep/ops.h>
#include <lockstep/transforms.h>

#include "engine/nn/layers/attention_context.h"
#include "engine/nn/layers/unseen_places.h"

namespace lockstep {
namespace {

/// Heads and their features, with what was left to us.
struct Heads {
  std::int64_t queries = 1, keys = 1, features = 1;
};

std::string named_layer(const Scope& scope) { return "[multi_head_attention '" + scope.path() + "']"; }

Heads heads_of(const std::string& name, std::int64_t features, const MultiHeadAttentionOptions& options) {
  if (options.heads <= 0 || (options.head_features == 0 && features % options.heads != 0)) {
    throw ValueError(name + " " + std::to_string(features) + " features, " + std::to_string(options.heads) +
                     " heads; heads is at least 1 and divides the features");
  }
  const Heads heads{options.heads, options.kv_heads == 0 ? options.heads : options.kv_heads,
                    options.head_features == 0 ? features / options.heads : options.head_features};
  if (heads.keys > 0 && heads.features > 0 && heads.queries % heads.keys == 0) return heads;
  throw ValueError(
      fmt::format("{} {} heads, {} kv_heads, {} head_features; all are at least 1, and kv_heads divides "
                  "heads",
                  name, options.heads, options.kv_heads, options.head_features));
}

void check_sequences(const Scope& scope, const Array& x) {
  if (x.ndim() == 3 && is_float(x.dtype())) return;
  throw ShapeError(named_layer(scope) + " the input is " + to_string(x.type()) +
                   "; give float sequences [N, T, features]");
}

DenseOptions projection(std::int64_t units, const MultiHeadAttentionOptions& options) {
  return {.units = units,
          .use_bias = options.use_bias,
          .kernel_initializer = options.kernel_initializer,
          .aggregation = options.aggregation};
}

struct Projected {
  Array queries, keys, values;  ///< [N, T, heads, H]
};

Projected projected(const Scope& scope, const Array& x, const Array& source, const Heads& heads,
                    const MultiHeadAttentionOptions& options, bool joint) {
  const auto in_heads = [&](const Array& y, std::int64_t n) {
    return reshape(y, {y.dim(0), y.dim(1), n, heads.features});
  };
  if (joint) {
    const Array all = dense(scope["qkv"], x, projection(3 * heads.queries * heads.features, options));
    const std::vector<Array> parts = split(in_heads(all, 3 * heads.queries), 3, 2);
    return {parts[0], parts[1], parts[2]};
  }
  const auto of = [&](const char* name, const Array& from, std::int64_t n) {
    return in_heads(dense(scope[name], from, projection(n * heads.features, options)), n);
  };
  return {of("query", x, heads.queries), of("key", source, heads.keys), of("value", source, heads.keys)};
}

/// [N, T, heads, H] as the layer's result.
Array heads_joined(const Scope& scope, const Array& y, std::int64_t features,
                   const MultiHeadAttentionOptions& options) {
  return dense(scope["out"], reshape(y, {y.dim(0), y.dim(1), -1}), projection(features, options));
}

/// With dropped probabilities, which need the matrix of logits.
Array attention_with_dropout(const Scope& scope, const Projected& p, const AttentionOptions& options, double rate) {
  const std::int64_t groups = p.queries.dim(2) / p.keys.dim(2), features = p.queries.dim(3);
  const DType dtype = promote(p.queries.dtype(), float32);
  const auto by_head = [&](const Array& x, std::int64_t times) {
    const Array moved = swapaxes(convert(x, dtype), 1, 2);  // [N, heads, T, H]
    if (times == 1) return moved;
    const Array repeated =
        broadcast_to(expand_dims(moved, 2), {moved.dim(0), moved.dim(1), times, moved.dim(2), features});
    return reshape(repeated, {moved.dim(0), -1, moved.dim(2), features});
  };
  const Array q = by_head(p.queries, 1), k = by_head(p.keys, groups), v = by_head(p.values, groups);
  Array logits = matmul(q, swapaxes(k, 2, 3)) / std::sqrt(static_cast<double>(features));
  if (options.bias) logits = logits + *options.bias;
  const std::int64_t t = logits.dim(2), s = logits.dim(3);
  Array seen = full({1, 1, t, s}, true, bool_);
  if (options.is_causal) seen = iota({1, 1, t, s}, 2) >= iota({1, 1, t, s}, 3);
  if (options.mask) seen = seen & *options.mask;
  if (options.key_value_seq_lengths)
    seen = seen & reshape(nn::within(*options.key_value_seq_lengths, s), {-1, 1, 1, s});
  // Not -inf: a query that sees no key takes the mean of all, as elsewhere.
  const Array weights = dropout(scope["dropout"], softmax(where(seen, logits, -1e30)), rate);
  const Array y = swapaxes(matmul(weights, v), 1, 2);
  return convert(y, p.queries.dtype());
}

/// In at least float32, rounded once: what is computed in 16 bits alone takes four times as long. Keys and values are those
/// of a source without what nobody sees, or of a cache.
Array attended(const Array& queries, const Array& keys, const Array& values, AttentionOptions how) {
  const DType dtype = promote(queries.dtype(), float32);
  if (how.bias) how.bias = convert(*how.bias, dtype);
  how.unseen_is_finite = true;
  const Array y = dot_product_attention(convert(queries, dtype), convert(keys, dtype), convert(values, dtype), how);
  return convert(y, queries.dtype());
}

/// Rows of queries behind the lengths are 0.
Array cut_at(const Array& y, const std::optional<Array>& lengths) {
  if (!lengths) return y;
  return where(reshape(nn::within(*lengths, y.dim(1)), {y.dim(0), y.dim(1), 1, 1}), y, 0);
}

void check_context(const Scope& scope, const Array& x, const AttentionContext& context) {
  const auto is_rows = [&](const std::optional<Array>& l) {
    return !l || (is_integer(l->dtype()) && l->shape() == Shape{x.dim(0)});
  };
  if (context.keys && (context.keys->ndim() != 3 || context.keys->dim(0) != x.dim(0))) {
    throw ShapeError(named_layer(scope) + " the input is " + to_string(x.type()) + ", keys are " +
                     to_string(context.keys->type()) + "; give [" + std::to_string(x.dim(0)) + ", S, features]");
  }
  if (is_rows(context.lengths) && is_rows(context.key_lengths)) return;
  throw ShapeError(named_layer(scope) + " the input is " + to_string(x.type()) + ", lengths are " +
                   to_string((is_rows(context.lengths) ? context.key_lengths : context.lengths)->type()) +
                   "; give an integer for each row");
}

/// rotary at an offset of all rows, or of each.
Array turned(const Array& x, const Array& offset) {
  if (offset.ndim() == 0) return rotary(x, offset);
  const auto row = [](const Array& of, const Array& at) { return squeeze(rotary(expand_dims(of, 0), at), Axes{0}); };
  return vmap(row)(x, offset);
}

/// Row n of `kept` [N, S, ...] with that of `next` from start[n] on; one that does not fit is not written.
Array written_by_row(const Array& kept, const Array& next, const Array& start) {
  return scatter(kept, expand_dims(start, 1), next,
                 {.update_window_dims = {1, 2, 3},
                  .inserted_window_dims = {},
                  .scatter_dims_to_operand_dims = {1},
                  .operand_batching_dims = {0},
                  .scatter_indices_batching_dims = {0}});
}

}  // namespace

Array multi_head_attention(const Scope& scope, const ArrayOperand& given, const MultiHeadAttentionOptions& options,
                           const AttentionContext& context) {
  const NamedScope named = scope.named();
  Array x = scope.in_compute_dtype(given);
  check_sequences(scope, x);
  check_context(scope, x, context);
  if (!(options.dropout >= 0 && options.dropout < 1)) {
    throw ValueError(
        fmt::format("{} dropout is {}; give a probability in [0, 1)", named_layer(scope), options.dropout));
  }
  const std::int64_t features = x.dim(-1);
  const Heads heads = heads_of(named_layer(scope), features, options);
  Array source = scope.in_compute_dtype(context.keys.value_or(x));
  const Shape logits = {x.dim(0), heads.queries, x.dim(1), source.dim(1)};
  nn::check_logit_operands(named_layer(scope), context, logits);
  const std::optional<Array> key_lengths = context.key_lengths ? context.key_lengths
                                           : context.keys      ? std::optional<Array>()
                                                               : context.lengths;
  source = nn::without_unseen(source, nn::seen_keys(key_lengths, context.mask, logits));
  if (!context.keys) {
    x = source;  // one product makes queries, keys and values
  } else {
    x = nn::without_unseen(x, nn::seeing_queries(context.lengths, context.mask, logits));
  }
  Projected p = projected(scope, x, source, heads, options,
                          options.joint_projection && !context.keys && heads.keys == heads.queries);
  if (options.rotary) p = {rotary(p.queries), rotary(p.keys), p.values};
  AttentionOptions how{.bias = context.bias, .mask = context.mask, .is_causal = options.is_causal};
  if (options.alibi) {
    const Array slopes = alibi_bias(heads.queries, x.dim(1), source.dim(1), 0, promote(x.dtype(), float32));
    how.bias = how.bias ? *how.bias + slopes : slopes;
  }
  how.key_value_seq_lengths = key_lengths;
  if (options.dropout > 0) {
    const Array y = attention_with_dropout(scope, p, how, options.dropout);
    return heads_joined(scope, cut_at(y, context.lengths), features, options);
  }
  if (how.key_value_seq_lengths) how.key_value_seq_lengths = convert(*how.key_value_seq_lengths, int32);
  const Array y = attended(p.queries, p.keys, p.values, how);
  return heads_joined(scope, cut_at(y, context.lengths), features, options);
}

KvCache empty_cache(const ArrayOperand& x, std::int64_t positions, const MultiHeadAttentionOptions& options) {
  const Heads heads = heads_of("[empty_cache]", x.dim(-1), options);
  if (positions < 1) {
    throw ValueError("[empty_cache] positions is " + std::to_string(positions) + "; it must be at least 1");
  }
  const Array none = zeros({x.dim(0), positions, heads.keys, heads.features}, x.dtype());
  return {none, none, full({}, 0, int32)};
}

std::pair<Array, KvCache> multi_head_attention(const Scope& scope, const ArrayOperand& given, const KvCache& cache,
                                               const MultiHeadAttentionOptions& options) {
  const NamedScope named = scope.named();
  const Array x = scope.in_compute_dtype(given);
  check_sequences(scope, x);
  const std::int64_t features = x.dim(-1);
  const Heads heads = heads_of(named_layer(scope), features, options);
  if (cache.keys.ndim() != 4 || cache.keys.dim(0) != x.dim(0) || cache.keys.dim(2) != heads.keys ||
      cache.keys.dim(3) != heads.features || cache.values.shape() != cache.keys.shape() ||
      (cache.length.ndim() != 0 && cache.length.shape() != Shape{x.dim(0)})) {
    throw ShapeError(named_layer(scope) + " the input is " + to_string(x.type()) + ", the cache has keys " +
                     to_string(cache.keys.type()) + ", values " + to_string(cache.values.type()) + " and length " +
                     to_string(cache.length.type()) + "; give one that empty_cache made for such inputs and options");
  }
  Projected p = projected(scope, x, x, heads, options, options.joint_projection && heads.keys == heads.queries);
  const Array start = cache.length;
  const bool by_row = start.ndim() == 1;
  if (options.rotary) p = {turned(p.queries, start), turned(p.keys, start), p.values};
  const auto with = [&](const Array& kept, const Array& next) {
    const Array row = convert(next, kept.dtype());
    return by_row ? written_by_row(kept, row, start) : dynamic_update_slice_in_dim(kept, row, start, 1);
  };
  const KvCache now{with(cache.keys, p.keys), with(cache.values, p.values), start + static_cast<int>(x.dim(1))};
  const std::int64_t t = x.dim(1), s = cache.keys.dim(1);
  const Array first = by_row ? reshape(start, {-1, 1, 1, 1}) : start;
  AttentionOptions how{.mask = iota({1, 1, t, s}, 3) <= iota({1, 1, t, s}, 2) + first};
  if (options.alibi) {
    const DType dtype = promote(x.dtype(), float32);
    const auto slopes = [&](const Array& at) { return alibi_bias(heads.queries, t, s, at, dtype); };
    how.bias = by_row ? squeeze(vmap(slopes)(start), Axes{1}) : slopes(start);
  }
  const Array y = attended(p.queries, now.keys, now.values, how);
  const Array fits = (by_row ? reshape(now.length, {-1, 1, 1, 1}) : now.length) <= s;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  return {heads_joined(scope, where(fits, y, nan), features, options), now};
}

}  // namespace lockstep
