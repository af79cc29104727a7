#include <limits>
#include <string>

#include <lockstep/error.h>
#include <lockstep/generation.h>
#include <lockstep/ops.h>
#include <lockstep/random.h>
#include <lockstep/reductions.h>
#include <lockstep/transforms.h>

namespace lockstep::models {

namespace {

void check_options(const SamplingOptions& options, const Array& logits) {
  if (logits.ndim() == 0 || !is_float(logits.dtype())) {
    throw ShapeError("[sample] the logits are " + to_string(logits.type()) + "; give floats [..., vocabulary]");
  }
  if (options.temperature >= 0 && options.temperature < std::numeric_limits<double>::infinity() && options.top_k >= 0 &&
      options.top_p > 0 && options.top_p <= 1) {
    return;
  }
  throw ValueError("[sample] temperature is " + std::to_string(options.temperature) + ", top_k " +
                   std::to_string(options.top_k) + ", top_p " + std::to_string(options.top_p) +
                   "; temperature is finite and at least 0, top_k at least 0, top_p in (0, 1]");
}

/// Logits below `least` become -inf.
Array kept_from(const Array& logits, const Array& least) {
  return where(logits >= least, logits, -std::numeric_limits<double>::infinity());
}

/// The least logit of the nucleus, [..., 1]: tokens before which the likelier ones have not reached top_p yet.
Array least_of_nucleus(const Array& logits, double top_p) {
  const Array sorted = sort(logits, -1, true);
  const Array probabilities = softmax(sorted, -1);
  const Array before = cumsum(probabilities, -1) - probabilities;
  return min(where(before < top_p, sorted, std::numeric_limits<double>::infinity()), Axes{-1}, true);
}

}  // namespace

Array sample(const ArrayOperand& keys, const ArrayOperand& logits, const SamplingOptions& options) {
  check_options(options, logits);
  if (options.temperature == 0) return argmax(logits, -1);
  Array scaled = convert(logits, promote(logits.dtype(), float32)) / options.temperature;
  const std::int64_t vocabulary = logits.dim(-1);
  if (options.top_k > 0 && options.top_k < vocabulary) {
    const Array largest = top_k(scaled, options.top_k).first;
    scaled = kept_from(scaled, slice_in_dim(largest, options.top_k - 1, options.top_k, -1));
  }
  if (options.top_p < 1) scaled = kept_from(scaled, least_of_nucleus(scaled, options.top_p));
  if (scaled.ndim() == 1) return random::categorical(keys, scaled);
  const auto draw = [](const Array& key, const Array& of) { return random::categorical(key, of); };
  const Array flat = vmap(draw)(reshape(keys, {-1}), reshape(scaled, {-1, vocabulary}));
  return reshape(flat, Axes(keys.shape().begin(), keys.shape().end()));
}

}  // namespace lockstep::models
