#include "engine/models/blocks.h"

#include <string>

#include <lockstep/error.h>

namespace lockstep::models {

void check_depth(const std::string& model, const std::string& option, std::int64_t depth) {
  if (depth >= 0) return;
  throw ValueError("[" + model + "] " + option + " is " + std::to_string(depth) + "; it must be at least 0");
}

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
  check_depth("transformer", "depth", options.depth);
  const auto attend = [&](const Scope& block, const Array& h) {
    return multi_head_attention(block["attention"], h, attention_of(options, is_causal));
  };
  for (std::int64_t i = 0; i < options.depth; ++i) {
    x = transformer_block(scope["block_" + std::to_string(i)], x, attend);
  }
  return block_norm(scope["norm"], x);
}

Array patches_of(const Scope& scope, const Array& x, std::int64_t patch, std::int64_t width, const std::string& model) {
  if (x.ndim() != 4 || patch <= 0 || x.dim(1) % patch != 0 || x.dim(2) % patch != 0) {
    throw ShapeError("[" + model + "] the input is " + to_string(x.type()) + " and patches have size " +
                     std::to_string(patch) + "; give images [N, H, W, C] whose height and width it divides");
  }
  const Array patches = conv2d(scope["patches"], x,
                               {.filters = width,
                                .kernel = {patch, patch},
                                .strides = {patch, patch},
                                .padding = Padding::valid,
                                .kernel_initializer = initializers::lecun_normal()});
  return reshape(patches, {x.dim(0), -1, width});
}

Array position_table(const Scope& scope, std::int64_t positions, std::int64_t width, DType dtype) {
  return scope.trainable("positions",
                         {.shape = {positions, width}, .dtype = dtype, .initializer = initializers::normal(0.02)});
}

}  // namespace lockstep::models
