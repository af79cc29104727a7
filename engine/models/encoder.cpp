#include <string>

#include <lockstep/error.h>

#include "engine/models/blocks.h"

namespace lockstep::models {

namespace {

Array norm(const Scope& scope, const Array& x) { return layer_norm(scope, x, {.epsilon = 1e-12}); }

/// Kernels of standard deviation 0.02, as in the paper.
Array layer(const Scope& scope, const Array& x, std::int64_t units) {
  return dense(scope, x, {.units = units, .kernel_initializer = initializers::truncated_normal(0.02)});
}

Array block(const Scope& scope, const Array& x, const TransformerOptions& options,
            const std::optional<Array>& lengths) {
  MultiHeadAttentionOptions attention = attention_of(options, false);
  attention.kernel_initializer = initializers::truncated_normal(0.02);
  const Array attended = multi_head_attention(scope["attention"], x, attention, {.key_lengths = lengths});
  const Array h = norm(scope["norm_0"], x + attended);
  const Array wide = gelu(layer(scope["dense_0"], h, 4 * x.dim(-1)), false);
  return norm(scope["norm_1"], h + layer(scope["dense_1"], wide, x.dim(-1)));
}

}  // namespace

Array encoder(const Scope& scope, const Array& tokens, const EncoderOptions& options, const std::optional<Array>& types,
              const std::optional<Array>& lengths) {
  if (tokens.ndim() != 2 || !is_integer(tokens.dtype()) || tokens.dim(1) > options.positions ||
      (types && types->shape() != tokens.shape())) {
    throw ShapeError("[encoder] the input is " + to_string(tokens.type()) + ", types " +
                     (types ? to_string(types->type()) : "not given") + "; give integer tokens [N, T] of at most " +
                     std::to_string(options.positions) + " positions, and types of their shape");
  }
  check_depth("encoder", "depth", options.blocks.depth);
  const std::int64_t width = options.blocks.width;
  const auto embedded = [&](const char* name, const Array& indices, std::int64_t rows) {
    return embedding(scope[name], indices,
                     {.vocabulary = rows,
                      .features = width,
                      .dtype = options.dtype,
                      .initializer = initializers::truncated_normal(0.02)});
  };
  Array h = embedded("tokens", tokens, options.vocabulary);
  h = h + slice_in_dim(position_table(scope, options.positions, width, h.dtype()), 0, tokens.dim(1), 0);
  h = norm(scope["norm"], h + embedded("types", types.value_or(zeros_like(tokens)), options.types));
  for (std::int64_t i = 0; i < options.blocks.depth; ++i) {
    h = block(scope["block_" + std::to_string(i)], h, options.blocks, lengths);
  }
  if (!options.head) return h;
  const Array first = squeeze(slice_in_dim(h, 0, 1, 1), Axes{1});
  return layer(scope["head"], tanh(layer(scope["pooler"], first, width)), options.classes);
}

}  // namespace lockstep::models
