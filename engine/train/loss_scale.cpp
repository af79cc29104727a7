#include "engine/train/loss_scale.h"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>

namespace lockstep {

Tree loss_scale_state(const LossScale& o) {
  if (!(o.minimum > 0 && o.minimum <= o.initial && o.initial <= o.maximum && o.maximum <= 0x1p126)) {
    throw ValueError(fmt::format(
        "[loss scale] initial is {}, minimum {}, maximum {}; they must be 0 < minimum <= initial <= maximum <= 2^126",
        o.initial, o.minimum, o.maximum));
  }
  if (!(o.growth > 1 && std::isfinite(o.growth) && o.backoff > 0 && o.backoff < 1)) {
    throw ValueError(
        fmt::format("[loss scale] growth is {} and backoff {}; growth must be above 1, backoff between 0 "
                    "and 1",
                    o.growth, o.backoff));
  }
  if (o.growth_steps < 1) {
    throw ValueError(fmt::format("[loss scale] growth_steps is {}; it must be at least 1", o.growth_steps));
  }
  return Tree::dict({{"scale", Tree(full({}, o.initial, float32))}, {"finite_steps", Tree(full({}, 0, int32))}});
}

namespace train {

Array scale_of(const DataParallelOptions& options, const TrainState& state) {
  if (!options.loss_scale) return {};
  if (!state.loss_scale.contains("scale")) {
    throw StateError(
        "[data_parallel] the step scales its loss, but the state has no loss_scale; make the state by this step's "
        "init, "
        "or set state.loss_scale = loss_scale_state(options)");
  }
  return state.loss_scale.at("scale").array();
}

TrainState kept_unless(const Array& finite, TrainState next, const TrainState& state) {
  const auto kept = [&](const Tree& after, const Tree& before) {
    return map([&](const Array& a, const Array& b) { return where(finite, a, b); }, after, before);
  };
  next.trainable = kept(next.trainable, state.trainable);
  next.non_trainable = kept(next.non_trainable, state.non_trainable);
  next.optimizer = kept(next.optimizer, state.optimizer);
  return next;
}

Tree scale_after(const Array& finite, const LossScale& options, const Tree& before) {
  const Array scale = before.at("scale").array(), steps = before.at("finite_steps").array() + 1;
  const Array grows = steps >= options.growth_steps;
  const Array larger = minimum(where(grows, scale * options.growth, scale), options.maximum);
  const Array smaller = maximum(scale * options.backoff, options.minimum);
  return Tree::dict({{"scale", Tree(where(finite, larger, smaller))},
                     {"finite_steps", Tree(where(logical_and(finite, logical_not(grows)), steps, 0))}});
}

}  // namespace train
}  // namespace lockstep
