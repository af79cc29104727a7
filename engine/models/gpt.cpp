#include <string>

#include <lockstep/error.h>
#include <lockstep/generation.h>

#include "engine/models/blocks.h"
#include "engine/models/gpt_head.h"

namespace lockstep::models {

namespace {

Array embedded(const Scope& scope, const Array& tokens, const GptOptions& options) {
  if (tokens.ndim() != 2 || !is_integer(tokens.dtype())) {
    throw ShapeError("[gpt] the input is " + to_string(tokens.type()) + "; give integer tokens [N, T]");
  }
  if (options.positions > 0 && tokens.dim(1) > options.positions) {
    throw ShapeError("[gpt] the input is " + to_string(tokens.type()) + " and positions is " +
                     std::to_string(options.positions) + "; give at most so many tokens");
  }
  return embedding(scope["tokens"], tokens,
                   {.vocabulary = options.vocabulary,
                    .features = options.blocks.width,
                    .dtype = options.dtype,
                    .initializer = initializers::normal(0.02)});
}

Array logits_of(const Scope& scope, const Array& h, const GptOptions& options) {
  return options.head ? gpt_head(scope, h, options) : h;
}

void check_cache(const Array& tokens, const GptCache& cache, const GptOptions& options) {
  const auto blocks = static_cast<std::size_t>(options.blocks.depth);
  if (cache.keys.size() == blocks && cache.values.size() == blocks && cache.length.shape() == Shape{tokens.dim(0)} &&
      (blocks == 0 || cache.keys[0].dim(1) == options.positions)) {
    return;
  }
  throw ShapeError("[gpt] the input is " + to_string(tokens.type()) + ", the cache has " +
                   std::to_string(cache.keys.size()) + " blocks and length " + to_string(cache.length.type()) +
                   "; give one that empty_cache made for so many rows and these options");
}

}  // namespace

Array gpt_head(const Scope& scope, const Array& features, const GptOptions& options) {
  return dense(scope["head"], features,
               {.units = options.vocabulary, .use_bias = false, .kernel_initializer = initializers::lecun_normal()});
}

Array gpt(const Scope& scope, const Array& tokens, const GptOptions& options) {
  const Array x = embedded(scope, tokens, options);
  const std::int64_t length = tokens.dim(1), most = options.positions == 0 ? length : options.positions;
  const Array table = position_table(scope, most, options.blocks.width, x.dtype());
  const Array h = transformer(scope, x + slice_in_dim(table, 0, length, 0), options.blocks, true);
  return logits_of(scope, h, options);
}

GptCache empty_cache(std::int64_t rows, const GptOptions& options) {
  if (rows < 1 || options.positions < 1) {
    throw ValueError("[empty_cache] rows is " + std::to_string(rows) + ", positions " +
                     std::to_string(options.positions) + "; both must be at least 1");
  }
  check_depth("empty_cache", "depth", options.blocks.depth);
  GptCache cache;
  const Array x = zeros({rows, 1, options.blocks.width}, options.dtype);
  for (std::int64_t i = 0; i < options.blocks.depth; ++i) {
    const KvCache block = lockstep::empty_cache(x, options.positions, attention_of(options.blocks, true));
    cache.keys.push_back(block.keys);
    cache.values.push_back(block.values);
  }
  cache.length = zeros({rows}, int32);
  return cache;
}

std::pair<Array, GptCache> gpt(const Scope& scope, const Array& tokens, const GptCache& cache,
                               const GptOptions& options, const std::optional<Array>& counts) {
  Array x = embedded(scope, tokens, options);
  check_cache(tokens, cache, options);
  const Array table = position_table(scope, options.positions, options.blocks.width, x.dtype());
  x = x + take_rows(table, expand_dims(cache.length, 1) + expand_dims(arange(tokens.dim(1)), 0));
  GptCache next;
  next.length = cache.length + (counts ? convert(*counts, int32) : full({}, tokens.dim(1), int32));
  for (std::size_t i = 0; i < cache.keys.size(); ++i) {
    const auto attend = [&](const Scope& block, const Array& h) {
      const KvCache seen{cache.keys[i], cache.values[i], cache.length};
      auto [y, now] = multi_head_attention(block["attention"], h, seen, attention_of(options.blocks, true));
      next.keys.push_back(now.keys);
      next.values.push_back(now.values);
      return y;
    };
    x = transformer_block(scope["block_" + std::to_string(i)], x, attend);
  }
  return {logits_of(scope, block_norm(scope["norm"], x), options), next};
}

}  // namespace lockstep::models
