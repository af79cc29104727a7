#include "engine/models/steps.h"

#include <utility>

#include <lockstep/indexing.h>
#include <lockstep/ops.h>
#include <lockstep/random.h>
#include <lockstep/transforms.h>

#include "engine/models/gpt_head.h"

namespace lockstep::models {

namespace {

struct Tokens {
  Array tokens;  ///< int32[N, T]
  GptCache cache;
  Array counts;  ///< int32[N]
  Array last;    ///< int32: which of the T has its logits computed.
};
LOCKSTEP_TREE(Tokens, tokens, cache, counts, last);

Prefilled called(const Tree& weights, const Tokens& input, const GptOptions& options) {
  const Model model([options](const Scope& scope, const Tokens& x) {
    GptOptions without_head = options;
    without_head.head = false;
    const auto [features, cache] = gpt(scope, x.tokens, x.cache, without_head, x.counts);
    return Prefilled{cache, gpt_head(scope, dynamic_index_in_dim(features, x.last, 1, false), options)};
  });
  return model.stateless_call(weights, Tree(), input, false).first;
}

}  // namespace

Prefilled prefill(const Tree& weights, const Prefilled& so_far, const Array& tokens, const Array& start,
                  const Array& count, const GptOptions& options) {
  const int chunk = static_cast<int>(tokens.dim(1));
  GptCache cache = so_far.cache;
  cache.length = reshape(start, {1});
  const Array counts = reshape(minimum(count - start, chunk), {1});
  return called(weights, {tokens, cache, counts, counts[0] - 1}, options);
}

Prefilled joined(const std::vector<Prefilled>& rows) {
  const auto join = [&](const auto& part) {
    std::vector<Array> parts;
    for (const Prefilled& row : rows) parts.push_back(part(row));
    return concatenate(parts, 0);
  };
  Prefilled all;
  for (std::size_t i = 0; i < rows[0].cache.keys.size(); ++i) {
    all.cache.keys.push_back(join([i](const Prefilled& row) { return row.cache.keys[i]; }));
    all.cache.values.push_back(join([i](const Prefilled& row) { return row.cache.values[i]; }));
  }
  all.cache.length = join([](const Prefilled& row) { return row.cache.length; });
  all.logits = join([](const Prefilled& row) { return row.logits; });
  return all;
}

Drawing draw(const Drawing& from, const Array& logits, const Array& keys, const Array& stop,
             const SamplingOptions& options) {
  const auto fold = [&](const Array& key) { return random::fold_in(key, from.number); };
  const Array drawn = where(from.ended, stop, sample(vmap(fold)(keys), logits, options));
  return {from.cache, drawn, drawn == stop, from.number + 1};
}

Decoded decode(const Tree& weights, const Drawing& from, const Array& keys, const Array& stop,
               const GptOptions& options, const SamplingOptions& sampling) {
  const Array ones = full(from.token.shape(), 1, int32);
  const Prefilled next = called(weights, {expand_dims(from.token, 1), from.cache, ones, full({}, 0, int32)}, options);
  return {draw({next.cache, from.token, from.ended, from.number}, next.logits, keys, stop, sampling), next.logits};
}

}  // namespace lockstep::models
