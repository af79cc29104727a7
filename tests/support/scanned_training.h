#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include <lockstep/lockstep.h>

#include "tests/support/replicas.h"
#include "tests/support/training.h"

// A training whose layers stand in a scan, with draws and statistics, for tests that run it in several ways.
namespace lockstep::tests {

/// Three blocks in a scan, each computed again for the backward pass.
inline Model<Array, Array> scanned_model() {
  return Model<Array, Array>([](const Scope& scope, const Array& x) {
    const auto block = [](const Scope& layer, const Array& v) {
      const Array h = gelu(dense(layer["in"], layer_norm(layer["norm"], v), {.units = 2 * v.dim(-1)}));
      return v + dropout(layer["drop"], dense(layer["out"], h, {.units = v.dim(-1)}), 0.25);
    };
    const auto body = [&](const Scope& layer, const Array& h) {
      return remat([&](const Array& v) { return block(layer, v); })(h);
    };
    const Array h = batch_norm(scope["first"], dense(scope["embed"], x, {.units = 8}), {.per_microbatch = true});
    return dense(scope["head"], scan_layers(scope["blocks"], 3, body, h), {.units = 1});
  });
}

inline Batch scanned_batch(int step) {
  return regression_batch(16, 5, float32, 100 + static_cast<std::uint64_t>(step));
}

inline TrainStep scanned_step(int devices) {
  DataParallelOptions options = parallel({.shards = 4, .devices = devices});
  options.microbatches = 2;
  const auto model = scanned_model();
  return data_parallel(model, loss_of(model), optim::adam(0.01), options);
}

inline TrainState scanned_start(const TrainStep& step) { return fresh_state(step, scanned_model(), scanned_batch(0)); }

/// The state after steps [first, last); `after(i, state)` sees each.
inline TrainState trained_through(
    const TrainStep& step, TrainState state, int first, int last,
    const std::function<void(int, const TrainState&)>& after = [](int, const TrainState&) {}) {
  for (int i = first; i < last; ++i) {
    state = step(std::move(state), scanned_batch(i)).first;
    after(i, state);
  }
  return state;
}

}  // namespace lockstep::tests
