#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/model.h>
#include <lockstep/models.h>
#include <lockstep/owned.h>
#include <lockstep/precision.h>
#include <lockstep/tree.h>

// Tokens one after the other from a gpt, with a cache of keys and values.
namespace lockstep::models {

/// Keys and values of a gpt's blocks, [N, positions, heads, features of a head] each.
struct GptCache {
  std::vector<Array> keys, values;
  Array length;  ///< int32[N]: how many positions each row has.
};
LOCKSTEP_TREE(GptCache, keys, values, length);
/// One without a position, for `rows` rows of up to options.positions. Throws ValueError where that or `rows` is below 1.
LOCKSTEP_API GptCache empty_cache(std::int64_t rows, const GptOptions& options);
/// The next T tokens, integers [N, T], of rows that have a cache: what gpt gives at these positions, and the cache with
/// them. `counts`, int32[N], says how many of the T each row keeps (all, where it is left out): what stands behind is
/// seen by no other token and overwritten by the next ones. Variables are those of gpt. Beyond `positions` results are
/// NaN. Throws ShapeError for a cache of other blocks or rows.
LOCKSTEP_API std::pair<Array, GptCache> gpt(const Scope& scope, const Array& tokens, const GptCache& cache,
                                            const GptOptions& options, const std::optional<Array>& counts = {});

/// How a token is drawn.
struct SamplingOptions {
  double temperature = 0;  ///< Logits are divided by it; 0: the largest, the first of equal ones.
  std::int64_t top_k = 0;  ///< Of the k largest logits (and their equals) alone; 0: of all.
  double top_p = 1;  ///< Of the fewest tokens, the likeliest first, whose probabilities reach it (nucleus sampling).
};
/// int32 tokens [...] of logits [..., vocabulary]: a draw from softmax(logits / temperature) over what top_k and then
/// top_p leave. `keys` [...], one a draw. Throws ValueError for options out of range. Holtzman et al. 2020.
LOCKSTEP_API Array sample(const ArrayOperand& keys, const ArrayOperand& logits, const SamplingOptions& options = {});

/// Options of `generate` and `Generator`.
struct GenerateOptions {
  std::int64_t tokens = 0;  ///< How many; must be given.
  SamplingOptions sampling = {};
  std::optional<std::int64_t> stop = {};  ///< A row that has drawn it ends; what follows is it again.
  std::int64_t chunk = 64;                ///< Tokens of a prompt that go through the model at a time.
};
/// What was drawn.
struct Generated {
  Array tokens;   ///< int32[N, options.tokens]
  Array lengths;  ///< int32[N]: how many of them count, the stop among them.
  Array logits;   ///< [N, vocabulary]: of which the last token that counts was drawn.
};
LOCKSTEP_TREE(Generated, tokens, lengths, logits);
/// Prompts, integers [N, T], of `lengths` int[N] tokens each (T, where they are left out; at least 1), continued by the
/// gpt whose trainable variables `weights` has. Draw t of row i is made with fold_in(keys[i], t); a single key stands
/// for fold_in(key, i) of each row. A row's bits depend neither on other rows and their number nor on padding
/// (batch_invariant.h). Pure, one program: for jit, vmap, pmap, loops; else `Generator` is faster. Throws ShapeError where
/// shapes do not fit, ValueError where prompt and tokens exceed positions.
LOCKSTEP_API Generated generate(const Tree& weights, const Array& prompts, const Array& key, const GptOptions& gpt,
                                const GenerateOptions& options, const std::optional<Array>& lengths = {});

/// `generate` on all of a process' devices: two functions, one for a chunk of a prompt and one for a token of all rows, are
/// compiled once for prompts and results of any length, and update one cache in place. A handle: copies share them.
class LOCKSTEP_API Generator {
 public:
  explicit Generator(GptOptions gpt, SamplingOptions sampling = {}, Precision precision = Precision::float32);
  /// As generate with `options`, whose `sampling` is not read, up to where all rows have ended. On arrays alone.
  /// Throws ValueError for a length below 1 or above the prompts'.
  Generated operator()(const Tree& weights, const Array& prompts, const Array& key, const GenerateOptions& options,
                       const std::optional<Array>& lengths = {}) const;
  std::size_t traces() const;  ///< How many functions were compiled so far.

 private:
  struct Compiled;
  lockstep::detail::SharedObject<const Compiled> compiled_;
};

}  // namespace lockstep::models
