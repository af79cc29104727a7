#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/ir/primitive.h"
#include "engine/ops/values.h"

// Dot-product attention with as many keys as fit: q [B,T,N,H], k and v [B,S,K,H], N = K * G, bias and mask of rank 4 with
// the extents of [B,N,T,S] or 1 (Dao et al., FlashAttention, https://arxiv.org/abs/2205.14135, for what is saved and
// recomputed).
namespace lockstep::ops {

struct AttentionGeometry {
  std::int64_t batch = 0, queries = 0, heads = 0, features = 0, keys = 0, key_heads = 0;
  Shape bias, mask;
  double scale = 1;
  std::int64_t left = -1, right = -1;  ///< Of the window; -1: no bound.

  std::int64_t group() const { return key_heads == 0 ? 1 : heads / key_heads; }
  Shape q() const { return {batch, queries, heads, features}; }
  Shape k() const { return {batch, keys, key_heads, features}; }
  Shape lse() const { return {batch, queries, heads}; }
  /// Whether the window lets query t see key s.
  bool in_window(std::int64_t t, std::int64_t s) const {
    return (left < 0 || s >= t - left) && (right < 0 || s <= t + right);
  }
};

/// Of an op whose operands 0 to 4 are q, k, v, bias and mask. Throws ShapeError or DtypeError where they do not fit.
AttentionGeometry attention_geometry(const ir::InferContext& context);
/// The dtype that logits are computed in: float32 for 16-bit floats.
DType logits_dtype(DType dtype);
/// What a masked logit counts as where a query sees nothing, as in JAX: -0.7 times the largest float32.
double masked_logit();

/// The batch merged into dimension 0 of every operand, results split again. `summed_bias`: the last result has the shape
/// of the bias.
std::vector<Value> batch_attention(const ir::BatchContext& context, const ir::Primitive& self, bool summed_bias);

struct AttentionCase {
  Shape q, k, bias, mask;
  double scale;
  Dims window;
};
/// Fewer in the narrower dtypes: the batching rule is run for every choice among up to eleven operands.
std::vector<AttentionCase> attention_cases(DType dtype);
Attrs attention_attrs(const AttentionCase& c);
/// q, k, v, bias and mask.
std::vector<ir::SampleInput> attention_inputs(DType dtype, const AttentionCase& c);

}  // namespace lockstep::ops
