#include "engine/models/blocks.h"

#include <string>

namespace lockstep::models {

Array block_norm(const Scope& scope, const Array& x) { return layer_norm(scope, x, {.epsilon = 1e-5}); }

MultiHeadAttentionOptions attention_of(const TransformerOptions& options, bool is_causal) {
  return {.heads = options.heads,
          .is_causal = is_causal,
          .kernel_initializer = initializers::lecun_normal(),
          .joint_projection = options.joint_projection};
}

Array transformer_block(const Scope& scope, const Array& x, const Attend& attend) {
  const Initializer kernels = initializers::lecun_normal();
  const Array h = x + attend(scope, block_norm(scope["norm_0"], x));
  const std::int64_t width = x.dim(-1);
  const Array wide = gelu(
      dense(scope["dense_0"], block_norm(scope["norm_1"], h), {.units = 4 * width, .kernel_initializer = kernels}));
  return h + dense(scope["dense_1"], wide, {.units = width, .kernel_initializer = kernels});
}

Array transformer(const Scope& scope, Array x, const TransformerOptions& options, bool is_causal) {
  const auto attend = [&](const Scope& block, const Array& h) {
    return multi_head_attention(block["attention"], h, attention_of(options, is_causal));
  };
  for (std::int64_t i = 0; i < options.depth; ++i) {
    x = transformer_block(scope["block_" + std::to_string(i)], x, attend);
  }
  return block_norm(scope["norm"], x);
}

Array position_table(const Scope& scope, std::int64_t positions, std::int64_t width, DType dtype) {
  return scope.trainable("positions",
                         {.shape = {positions, width}, .dtype = dtype, .initializer = initializers::normal(0.02)});
}

}  // namespace lockstep::models
