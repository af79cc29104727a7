#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include <lockstep/array.h>
#include <lockstep/export.h>

namespace lockstep {

/// What dot_product_attention adds to the logits, and which keys a query sees: those that all options let it see.
struct AttentionOptions {
  std::optional<Array> bias = {};    ///< Added to the logits; broadcasts to [B, N, T, S].
  std::optional<Array> mask = {};    ///< bool, true where a query sees a key; broadcasts to [B, N, T, S].
  std::optional<double> scale = {};  ///< Of the logits; 1 / sqrt(H) where there is none.
  bool is_causal = false;            ///< Query t sees keys 0 to t.
  /// Query t sees keys t - left to t + right.
  std::optional<std::pair<std::int64_t, std::int64_t>> local_window_size = {};
  /// int32[B]: queries from there on give 0, keys from there on are not seen.
  std::optional<Array> query_seq_lengths = {};
  std::optional<Array> key_value_seq_lengths = {};
  /// What lengths, or a mask of keys, hide is finite, as in a cache that began with zeros: it is read as it lies. Else NaN
  /// and infinities there are taken for 0 first, in a pass over all keys and values.
  bool unseen_is_finite = false;
};

/// softmax(scale * query key^T + bias) value per head, as jax.nn.dot_product_attention: query [B, T, N, H], key and
/// value [B, S, K, H], N a multiple of K (grouped queries); all without B too. A query that sees no key takes the mean
/// of all. The T x S matrix of logits is never stored as a whole, in the backward pass neither (derivatives of second
/// order do). Throws ShapeError or DtypeError where the operands do not fit.
LOCKSTEP_API Array dot_product_attention(const ArrayOperand& query, const ArrayOperand& key, const ArrayOperand& value,
                                         const AttentionOptions& options = {});
/// With the log-sum-exp of each query's logits, [B, T, N], which passes no derivative.
LOCKSTEP_API std::pair<Array, Array> dot_product_attention_with_residual(const ArrayOperand& query,
                                                                         const ArrayOperand& key,
                                                                         const ArrayOperand& value,
                                                                         const AttentionOptions& options = {});

/// Softmax and its logarithm over the elements where the mask (bool, broadcast) holds; the others give 0 and -inf.
/// Throws DtypeError for a mask that is not of bool.
LOCKSTEP_API Array softmax(const ArrayOperand& x, std::int64_t axis, const ArrayOperand& mask);
/// The logarithm of that.
LOCKSTEP_API Array log_softmax(const ArrayOperand& x, std::int64_t axis, const ArrayOperand& mask);

}  // namespace lockstep
