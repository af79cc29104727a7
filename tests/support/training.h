#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/data.h>
#include <lockstep/losses.h>
#include <lockstep/metrics.h>
#include <lockstep/random.h>
#include <lockstep/train.h>

namespace lockstep::tests {

/// Mean squared error of the model's output, or cross entropy where labels are integers.
inline Weighted error_of(const Array& y, const Batch& b) {
  return is_integer(b.y.dtype()) ? softmax_cross_entropy(y, b.y, b.weight) : mean_squared_error(y, b.y, b.weight);
}

/// The loss of a model's training call; it sees the rows' weights.
inline LossFunction loss_of(const Model<Array, Array>& model) {
  return [model](const Tree& w, const Tree& state, const Batch& b) {
    auto [y, next] = model.stateless_call(w, state, b.x, true, {.rows = b.weight});
    return WithAux{error_of(y, b), next, {}};
  };
}

/// A fresh state for inputs like the batch's.
inline TrainState fresh_state(const TrainStep& step, const Model<Array, Array>& model, const Batch& batch,
                              std::uint64_t seed = 3) {
  auto [trainable, non_trainable] = model.init(random::key(seed), batch.x);
  return step.init(std::move(trainable), std::move(non_trainable));
}

struct Trained {
  std::vector<double> losses;
  TrainState state;
};

/// Steps on batches that `next(i)` gives.
inline Trained train(const TrainStep& step, TrainState state, int steps, const std::function<Batch(int)>& next) {
  Trained run{{}, std::move(state)};
  for (int i = 0; i < steps; ++i) {
    auto [after, logs] = step(std::move(run.state), next(i));
    run.state = std::move(after);
    run.losses.push_back(logs.at("loss").item<double>());
  }
  return run;
}

/// Random rows of `features` floats against targets of one float.
inline Batch regression_batch(std::int64_t rows, std::int64_t features, DType dtype, std::uint64_t seed = 17) {
  const Array key = random::key(seed);
  return {random::normal(random::fold_in(key, 0), {rows, features}, dtype),
          random::normal(random::fold_in(key, 1), {rows, 1}, dtype), ones({rows})};
}

}  // namespace lockstep::tests
