#include <lockstep/error.h>
#include <lockstep/layers.h>
#include <lockstep/models.h>

namespace lockstep::models {

namespace {

constexpr double epsilon = 1e-5;

Array norm(const Scope& scope, const Array& x) { return layer_norm(scope, x, {.epsilon = epsilon}); }

Array transformer_block(const Scope& scope, const Array& x, const TransformerOptions& options, bool is_causal) {
  const Initializer kernels = initializers::lecun_normal();
  const Array h = x + multi_head_attention(scope["attention"], norm(scope["norm_0"], x),
                                           {.heads = options.heads,
                                            .is_causal = is_causal,
                                            .kernel_initializer = kernels,
                                            .joint_projection = options.joint_projection});
  const std::int64_t width = x.dim(-1);
  const Array wide =
      gelu(dense(scope["dense_0"], norm(scope["norm_1"], h), {.units = 4 * width, .kernel_initializer = kernels}));
  return h + dense(scope["dense_1"], wide, {.units = width, .kernel_initializer = kernels});
}

Array transformer(const Scope& scope, Array x, const TransformerOptions& options, bool is_causal) {
  for (std::int64_t i = 0; i < options.depth; ++i) {
    x = transformer_block(scope["block_" + std::to_string(i)], x, options, is_causal);
  }
  return norm(scope["norm"], x);
}

/// Rows of a learned table, one for each position.
Array positions(const Scope& scope, std::int64_t length, std::int64_t width, DType dtype) {
  return scope.trainable("positions",
                         {.shape = {length, width}, .dtype = dtype, .initializer = initializers::normal(0.02)});
}

}  // namespace

Array vit(const Scope& scope, const Array& x, const VitOptions& options) {
  const std::int64_t patch = options.patch;
  if (x.ndim() != 4 || patch <= 0 || x.dim(1) % patch != 0 || x.dim(2) % patch != 0) {
    throw ShapeError("[vit] the input is " + to_string(x.type()) + " and patches have size " + std::to_string(patch) +
                     "; give images [N, H, W, C] whose height and width it divides");
  }
  const std::int64_t width = options.blocks.width;
  const Array patches = conv2d(scope["patches"], x,
                               {.filters = width,
                                .kernel = {patch, patch},
                                .strides = {patch, patch},
                                .padding = Padding::valid,
                                .kernel_initializer = initializers::lecun_normal()});
  const Array h = reshape(patches, {x.dim(0), -1, width});
  const Array y = transformer(scope, h + positions(scope, h.dim(1), width, x.dtype()), options.blocks, false);
  return dense(scope["head"], mean(y, Axes{1}), {.units = options.classes});
}

Array gpt(const Scope& scope, const Array& tokens, const GptOptions& options) {
  if (tokens.ndim() != 2 || !is_integer(tokens.dtype())) {
    throw ShapeError("[gpt] the input is " + to_string(tokens.type()) + "; give integer tokens [N, T]");
  }
  const std::int64_t width = options.blocks.width;
  const Array embedded =
      embedding(scope["tokens"], tokens,
                {.vocabulary = options.vocabulary, .features = width, .initializer = initializers::normal(0.02)});
  const Array x = embedded + positions(scope, tokens.dim(1), width, embedded.dtype());
  return dense(scope["head"], transformer(scope, x, options.blocks, true),
               {.units = options.vocabulary, .use_bias = false, .kernel_initializer = initializers::lecun_normal()});
}

}  // namespace lockstep::models
