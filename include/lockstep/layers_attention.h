#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/initializers.h>
#include <lockstep/model.h>
#include <lockstep/tree.h>

// Attention and positions.
namespace lockstep {

/// Options of `multi_head_attention`.
struct MultiHeadAttentionOptions {
  std::int64_t heads = 1;  ///< Divides the features.
  bool is_causal = false;  ///< Position t sees positions 0 to t.
  bool use_bias = true;
  Initializer kernel_initializer = initializers::glorot_uniform();
  Aggregation aggregation = Aggregation::none;  ///< Of all kernels and biases.
  std::int64_t kv_heads =
      0;  ///< Heads of keys and values, each for heads / kv_heads of queries; 0: as many. Ainslie et al. 2023.
  std::int64_t head_features = 0;  ///< Of a head; 0: features / heads.
  double dropout = 0;              ///< Of the probabilities, in training; state rng in scope "dropout".
  bool rotary = false;             ///< Queries and keys are turned by `rotary`.
  bool alibi = false;              ///< Logits have `alibi_bias`.
  /// false: three layers, "query", "key" and "value", in place of "qkv": what cuts their kernels' columns cuts heads.
  bool joint_projection = true;
};
/// What a call attends to beside itself.
struct AttentionContext {
  std::optional<Array> keys = {};         ///< [N, S, features']: what queries see, in place of x.
  std::optional<Array> lengths = {};      ///< int[N]: rows of x have so many positions; behind them are zeros.
  std::optional<Array> key_lengths = {};  ///< int[N]: of `keys`; where there are none, `lengths`.
  std::optional<Array> mask = {};         ///< bool, true where a query sees a key; broadcasts to [N, heads, T, S].
  std::optional<Array> bias = {};         ///< Added to the logits; broadcasts to [N, heads, T, S].
};
/// x[N, T, features] -> [N, T, features]: queries, keys and values by one dense layer "qkv", the heads' results joined
/// by another, "out". Where keys are of another source or number, layers "query", "key" and "value" stand for the
/// first. A query that sees no key takes the mean of all values. What is NaN or infinite in keys that no query sees by
/// lengths and mask, or in queries that see none, counts as 0. Throws ShapeError and ValueError where options do not fit,
/// DtypeError for a mask that is not of bool and a bias that is of bool or complex. Vaswani et al. 2017.
LOCKSTEP_API Array multi_head_attention(const Scope& scope, const ArrayOperand& x,
                                        const MultiHeadAttentionOptions& options, const AttentionContext& context = {});

/// Keys and values of the positions so far, for generating one by one.
struct KvCache {
  Array keys;    ///< [N, S, kv_heads, head_features], S positions at most.
  Array values;  ///< Likewise.
  Array length;  ///< int32: how many positions there are; int32[N]: in each row.
};
LOCKSTEP_TREE(KvCache, keys, values, length);
/// One without a position, for x[N, ..., features]. Throws ValueError for no room.
LOCKSTEP_API KvCache empty_cache(const ArrayOperand& x, std::int64_t positions,
                                 const MultiHeadAttentionOptions& options);
/// The next T positions: the result of multi_head_attention with `is_causal` at these, and the cache with them.
/// Variables are the same. What is beyond the cache's room is not kept, and gives NaN. No dropout. Throws ShapeError
/// for a cache of other heads.
LOCKSTEP_API std::pair<Array, KvCache> multi_head_attention(const Scope& scope, const ArrayOperand& x,
                                                            const KvCache& cache,
                                                            const MultiHeadAttentionOptions& options);

/// Options of `additive_attention`.
struct AdditiveAttentionOptions {
  bool use_scale = true;   ///< Whether there is a variable `scale`; false: 1.
  bool is_causal = false;  ///< Position t sees positions 0 to t.
  double dropout = 0;      ///< Of the probabilities, in training; state rng in scope "dropout".
  Initializer initializer = initializers::glorot_uniform();
  Aggregation aggregation = Aggregation::none;  ///< Of scale.
};
/// Queries [N, T, features] and values [N, S, features'] -> [N, T, features']: means of the values, weighted by the
/// softmax over s of the sum of scale tanh(q_t + k_s). Keys are `keys` of the context, [N, S, features], or the values
/// where there are none; `lengths` of it are those of queries, `key_lengths` those of keys and values, mask and bias
/// broadcast to [N, T, S]. A query that sees no key takes the mean of all values. Variable scale [features]. Throws
/// ShapeError where shapes do not fit, DtypeError for masks and biases as there, ValueError for a dropout outside [0,
/// 1). Bahdanau, Cho and Bengio 2015. (Keras' AdditiveAttention)
LOCKSTEP_API Array additive_attention(const Scope& scope, const ArrayOperand& queries, const ArrayOperand& values,
                                      const AdditiveAttentionOptions& options = {},
                                      const AttentionContext& context = {});

/// Pairs of features (i, i + H / 2) of x[N, T, heads, H] turned by the angle (t + offset) base^(-2 i / H) at position
/// t, so that products of queries and keys depend on their distance. `offset` is a number or an integer scalar. Throws
/// ShapeError for odd H, ValueError for a base that is not above 0. Su et al. 2021.
LOCKSTEP_API Array rotary(const ArrayOperand& x, const Operand& offset = 0, double base = 10000);
/// [1, heads, T, S]: -slope times the distance of query t + offset and key s, slopes 2^(-8 (h + 1) / heads), between
/// those of the powers of two below and above for other numbers of heads. Throws DtypeError unless the dtype is a float. Press,
/// Smith and Lewis 2022.
LOCKSTEP_API Array alibi_bias(std::int64_t heads, std::int64_t queries, std::int64_t keys, const Operand& offset = 0,
                              DType dtype = float32);
/// [T, features]: sin(t base^(-2 i / features)) for i < features / 2, then the cosines. Throws ValueError for an odd
/// number of features and a base that is not above 0, DtypeError unless the dtype is a float. Vaswani et al. 2017.
LOCKSTEP_API Array sinusoidal_positions(std::int64_t positions, std::int64_t features, double base = 10000,
                                        DType dtype = float32);

}  // namespace lockstep
