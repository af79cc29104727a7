#pragma once

#include <map>
#include <string>
#include <vector>

#include <lockstep/model.h>
#include <lockstep/ops.h>

namespace lockstep::tests {

using Doubles = std::vector<double>;

inline Array doubles(const Doubles& values, const Shape& shape) { return array(values, shape); }

/// -1, -0.9, ... in an order that repeats in no dimension.
inline Array spread_values(const Shape& shape, double scale = 1) {
  Doubles values(static_cast<std::size_t>(shape.size()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = scale * (static_cast<double>((i * 7919 + 13) % 101) / 50 - 1);
  }
  return array(values, shape);
}

/// What a layer is called with beside its input.
struct LayerCall {
  std::map<std::string, Array> trainable = {};  ///< Values that take the place of the initial ones.
  std::map<std::string, Array> state = {};
  bool training = true;
  Array rows = {};
};

struct LayerResult {
  Array y;
  Tree trainable;
  Tree before;  ///< Non-trainable state, before and after.
  Tree after;
};

/// A layer as a model of its own, built for x and called once.
template <class F>
LayerResult run_layer(const F& layer, const Array& x, const LayerCall& call = {}) {
  const Model model([&layer](Scope& scope, const Array& input) -> Array { return layer(scope, input); });
  auto [trainable, state] = model.init(random::key(7), x);
  for (const auto& [path, value] : call.trainable) trainable = trainable.with(path, Tree(value));
  for (const auto& [path, value] : call.state) state = state.with(path, Tree(value));
  auto [y, next] = model.stateless_call(trainable, state, x, call.training, {.rows = call.rows});
  return {y, trainable, state, next};
}

}  // namespace lockstep::tests
