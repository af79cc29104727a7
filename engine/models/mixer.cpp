#include <string>

#include <lockstep/error.h>

#include "engine/models/blocks.h"

namespace lockstep::models {

namespace {

Array two_layers(const Scope& scope, const Array& x, std::int64_t units) {
  return dense(scope["dense_1"], gelu(dense(scope["dense_0"], x, {.units = units}), false), {.units = x.dim(-1)});
}

}  // namespace

Array mixer(const Scope& scope, const Array& x, const MixerOptions& options) {
  check_depth("mixer", "depth", options.depth);
  Array h = patches_of(scope, x, options.patch, options.width, "mixer");
  const auto norm = [](const Scope& s, const Array& v) { return layer_norm(s, v, {.epsilon = 1e-6}); };
  for (std::int64_t i = 0; i < options.depth; ++i) {
    const Scope s = scope["block_" + std::to_string(i)];
    h = h + swapaxes(two_layers(s["tokens"], swapaxes(norm(s["norm_0"], h), 1, 2), options.token_units), 1, 2);
    h = h + two_layers(s["channels"], norm(s["norm_1"], h), options.channel_units);
  }
  h = mean(norm(scope["norm"], h), Axes{1});
  return options.head ? dense(scope["head"], h, {.units = options.classes}) : h;
}

}  // namespace lockstep::models
