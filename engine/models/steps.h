#pragma once

#include <cstdint>
#include <vector>

#include <lockstep/generation.h>

// What `generate` is made of, in one program, and `Generator`, call by call.
namespace lockstep::models {

/// A prompt, or prompts, as far as they have gone through the model.
struct Prefilled {
  GptCache cache;
  Array logits;  ///< [N, vocabulary], of the last token so far.
};
LOCKSTEP_TREE(Prefilled, cache, logits);
/// A chunk int32[N, C] of prompts of `count` int32[N] tokens, the first of which has the position `start` int32[N]. One that
/// goes through again changes nothing.
Prefilled prefill(const Tree& weights, const Prefilled& so_far, const Array& tokens, const Array& start,
                  const Array& count, const GptOptions& options);
/// Their rows as one batch.
Prefilled joined(const std::vector<Prefilled>& parts);

/// Rows between two tokens.
struct Drawing {
  GptCache cache;  ///< All but of the last token.
  Array token;     ///< int32[N], the last one.
  Array ended;     ///< bool[N]: it is the stop, or came behind it.
  Array number;    ///< int32: how many have been drawn.
};
LOCKSTEP_TREE(Drawing, cache, token, ended, number);
/// The next token, of these logits. `stop` is an int32 scalar, -1 for none.
Drawing draw(const Drawing& from, const Array& logits, const Array& keys, const Array& stop,
             const SamplingOptions& options);

struct Decoded {
  Drawing drawing;
  Array logits;  ///< Of which the token was drawn.
};
LOCKSTEP_TREE(Decoded, drawing, logits);
/// The last token goes through the model, and the next one is drawn.
Decoded decode(const Tree& weights, const Drawing& from, const Array& keys, const Array& stop,
               const GptOptions& options, const SamplingOptions& sampling);

}  // namespace lockstep::models
