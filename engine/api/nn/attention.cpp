#include <cmath>

#include <fmt/format.h>

#include <lockstep/attention.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "engine/api/indexing/index_values.h"
#include "engine/api/numpy/operands.h"
#include "engine/api/transforms/bind.h"
#include "engine/ops/primitives.h"

namespace lockstep {

namespace {

Array with_batch(const Array& x, std::string_view what) {
  if (x.ndim() == 4) return x;
  if (x.ndim() == 3) return expand_dims(x, 0);
  throw ShapeError(
      fmt::format("dot_product_attention: {} must have shape [B, length, heads, H], or the same without B, "
                  "got {}",
                  what, to_string(x.shape())));
}

/// A bias or mask at rank 4, as logits [B, N, T, S] take it.
Array at_logits(const Array& x, std::string_view what, const Shape& logits) {
  Array result = x;
  while (result.ndim() < 4) result = expand_dims(result, 0);
  bool fits = result.ndim() == 4;
  for (int i = 0; fits && i < 4; ++i) fits = result.dim(i) == 1 || result.dim(i) == logits.dim(i);
  if (fits) return result;
  throw ShapeError(fmt::format("dot_product_attention: the {} must broadcast to [B, N, T, S] = {}, got {}", what,
                               to_string(logits), to_string(x.shape())));
}

Array bias_of(const AttentionOptions& options, const Shape& logits, DType dtype) {
  if (!options.bias) return zeros({1, 1, 1, 1}, dtype);
  if (options.bias->dtype() == bool_ || is_complex(options.bias->dtype())) {
    throw DtypeError(
        fmt::format("dot_product_attention: the bias must be of floats, which are added to the logits, got "
                    "{}; bool, true where a query sees a key, is the mask",
                    to_string(options.bias->type())));
  }
  return convert(at_logits(*options.bias, "bias", logits), dtype);
}

Array mask_of(const AttentionOptions& options, const Shape& logits) {
  if (!options.mask) return full({1, 1, 1, 1}, true, bool_);
  if (options.mask->dtype() != bool_) {
    throw DtypeError(
        fmt::format("dot_product_attention: the mask must be of bool, true where a query sees a key, got "
                    "{}; what is added to the logits is the bias",
                    to_string(options.mask->type())));
  }
  return at_logits(*options.mask, "mask", logits);
}

/// Positions before each example's length, [B, extent].
Array before_length(const Array& lengths, std::int64_t batch, std::int64_t extent, std::string_view what) {
  if (!is_integer(lengths.dtype()) || !(lengths.shape() == Shape{batch})) {
    throw ShapeError(fmt::format("dot_product_attention: {} must be integers of shape [{}], one per example, got {}",
                                 what, batch, to_string(lengths.type())));
  }
  const Array wide = api::in_at_least_32_bits(lengths);
  return less(iota({batch, extent}, 1, wide.dtype()), expand_dims(wide, -1));
}

/// x [B, length, N, H] where it is seen or finite, else 0: NaN that nobody sees would come into sums as 0 times it.
Array without_unseen(const Array& x, const Array& seen) {
  return where(reshape(seen, {seen.dim(0), seen.dim(1), 1, 1}) | is_finite(x), x, 0);
}

/// Whether `mask` hides keys from all queries and heads alike, as padding is said.
bool is_of_keys(const Array& mask) { return mask.dim(1) == 1 && mask.dim(2) == 1 && mask.dim(3) != 1; }

/// The window of keys that a query sees, -1: no bound.
Axes window_of(const AttentionOptions& options) {
  Axes window = {-1, -1};
  if (options.local_window_size) {
    const auto& [left, right] = *options.local_window_size;
    if (left < 0 || right < 0) {
      throw ValueError(
          fmt::format("dot_product_attention: local_window_size must not be negative, got ({}, {})", left, right));
    }
    window = {left, right};
  }
  if (options.is_causal) window[1] = 0;
  return window;
}

}  // namespace

std::pair<Array, Array> dot_product_attention_with_residual(const ArrayOperand& query, const ArrayOperand& key,
                                                            const ArrayOperand& value,
                                                            const AttentionOptions& options) {
  const Operand a = query, b = key, c = value;
  const DType dtype = api::inexact(api::common_dtype({&a, &b, &c}));
  Array q = convert(with_batch(query, "the query"), dtype);
  Array k = convert(with_batch(key, "the key"), dtype);
  Array v = convert(with_batch(value, "the value"), dtype);
  const std::int64_t batch = q.dim(0), queries = q.dim(1), keys = k.dim(1);
  const Shape logits = {batch, q.dim(2), queries, keys};
  const Array bias = bias_of(options, logits, dtype);
  Array mask = mask_of(options, logits);
  const auto clean = [&](Array& x, const Array& seen) {
    if (!options.unseen_is_finite) x = without_unseen(x, seen);
  };
  const auto hide = [&](const Array& seen) {
    clean(k, seen);
    clean(v, seen);
  };
  if (options.mask && is_of_keys(mask)) hide(reshape(mask, {mask.dim(0), mask.dim(3)}));
  Array asked;  // queries that count
  if (options.key_value_seq_lengths) {
    const Array seen = before_length(*options.key_value_seq_lengths, batch, keys, "key_value_seq_lengths");
    mask = mask & reshape(seen, {batch, 1, 1, keys});
    hide(seen);
  }
  if (options.query_seq_lengths) {
    asked = before_length(*options.query_seq_lengths, batch, queries, "query_seq_lengths");
    mask = mask & reshape(asked, {batch, 1, queries, 1});
    clean(q, asked);
  }
  const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(q.dim(-1), 1))));
  std::vector<Array> results = api::bind(ops::primitives::attention(), std::vector<Array>{q, k, v, bias, mask},
                                         {{"scale", scale}, {"window", window_of(options)}});
  if (asked.has_value()) results[0] = where(reshape(asked, {batch, queries, 1, 1}), results[0], 0);
  const Array residual = stop_gradient(results[1]);
  if (query.ndim() == 4) return {results[0], residual};
  return {squeeze(results[0], {0}), squeeze(residual, {0})};
}

Array dot_product_attention(const ArrayOperand& query, const ArrayOperand& key, const ArrayOperand& value,
                            const AttentionOptions& options) {
  return dot_product_attention_with_residual(query, key, value, options).first;
}

}  // namespace lockstep
