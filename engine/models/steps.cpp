#include "engine/models/steps.h"

#include <utility>

#include <lockstep/batch_invariant.h>
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
  Array counts;  ///< int32[N]: the last of so many of the T has its logits computed.
};
LOCKSTEP_TREE(Tokens, tokens, cache, counts);

Array last_of(const Array& features, const Array& counts) {
  if (features.dim(1) == 1) return squeeze(features, Axes{1});
  const auto row = [](const Array& of, const Array& count) { return dynamic_index_in_dim(of, count - 1, 0, false); };
  return vmap(row)(features, counts);
}

/// Products in one order, so that what a row gives does not depend on how many there are.
Prefilled called(const Tree& weights, const Tokens& input, const GptOptions& options) {
  const Model model([options](const Scope& scope, const Tokens& x) {
    GptOptions without_head = options;
    without_head.head = false;
    const auto [features, cache] = gpt(scope, x.tokens, x.cache, without_head, x.counts);
    return Prefilled{cache, gpt_head(scope, last_of(features, x.counts), options)};
  });
  const auto call = [&](const Tree& w, const Tokens& x) { return model.stateless_call(w, Tree(), x, false).first; };
  return batch_invariant(call)(weights, input);
}

}  // namespace

Prefilled prefill(const Tree& weights, const Prefilled& so_far, const Array& tokens, const Array& start,
                  const Array& count, const GptOptions& options) {
  GptCache cache = so_far.cache;
  cache.length = start;
  return called(weights, {tokens, cache, minimum(count - start, static_cast<int>(tokens.dim(1)))}, options);
}

Prefilled joined(const std::vector<Prefilled>& parts) {
  const auto join = [&](const auto& array_of) {
    std::vector<Array> arrays;
    for (const Prefilled& part : parts) arrays.push_back(array_of(part));
    return concatenate(arrays, 0);
  };
  Prefilled all;
  for (std::size_t i = 0; i < parts[0].cache.keys.size(); ++i) {
    all.cache.keys.push_back(join([i](const Prefilled& part) { return part.cache.keys[i]; }));
    all.cache.values.push_back(join([i](const Prefilled& part) { return part.cache.values[i]; }));
  }
  all.cache.length = join([](const Prefilled& part) { return part.cache.length; });
  all.logits = join([](const Prefilled& part) { return part.logits; });
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
  const Prefilled next = called(weights, {expand_dims(from.token, 1), from.cache, ones}, options);
  return {draw({next.cache, from.token, from.ended, from.number}, next.logits, keys, stop, sampling), next.logits};
}

}  // namespace lockstep::models
