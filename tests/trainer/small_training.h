#pragma once

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/lockstep.h>

// A small training for tests of what goes on around its steps.
namespace lockstep::tests {

inline WithAux line_loss(const Tree& w, const Tree& state, const Batch& b) {
  const Array y = matmul(b.x, w.at("w").array()) + w.at("b").array();
  return WithAux{mean_squared_error(y, b.y, b.weight), state, {}};
}

/// Adam, whose learning rate stands in the state.
inline optim::GradientTransformation adam_in_state(double rate = 0.1) {
  return optim::inject_hyperparams(
      [](const Named<optim::LearningRate>& values) { return optim::adam(values.at("learning_rate")); },
      {{"learning_rate", rate}});
}

inline TrainStep line_step(int devices = 1) {
  return data_parallel(StepLoss(line_loss), adam_in_state(),
                       {.devices = lockstep::devices("cpu:0-" + std::to_string(devices - 1)), .shards = 4});
}

inline TrainState line_start(const TrainStep& step) {
  return step.init(Tree::dict({{"w", Tree(ones({3, 1}))}, {"b", Tree(zeros({1}))}}), Tree());
}

/// `rows` of a line with some noise, in an order that the epoch decides.
inline data::TreeLoader line_loader(std::int64_t rows = 20, std::int64_t batch = 4, bool shuffle = true) {
  const Array x = random::normal(random::key(1), {rows, 3});
  const Array y =
      matmul(x, array(std::vector<float>{1, -2, 0.5F}, {3, 1})) + 0.1F * random::normal(random::key(2), {rows, 1});
  return data::TreeLoader(Batch{x, y, ones({rows})},
                          {.batch = batch, .seed = 3, .shuffle = shuffle, .drop_last = false});
}

inline std::map<std::string, double> line_validation(const Tree& state) {
  static const EvaluateStep evaluation(StepLoss(line_loss), {.devices = lockstep::devices("cpu:0"), .shards = 4});
  return evaluate(evaluation, state, line_loader(10, 4, false));
}

}  // namespace lockstep::tests
