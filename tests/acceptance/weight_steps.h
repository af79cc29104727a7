#pragma once

#include <functional>
#include <utility>
#include <vector>

#include <lockstep/lockstep.h>

#include "tests/support/replicas.h"

// Steps of a model of one weight vector, whose gradients are known numbers.
namespace lockstep::tests {

/// y = x w, with w of such values and aggregation.
inline Model<Array, Array> weight_model(const std::vector<float>& initial, Aggregation aggregation) {
  return Model<Array, Array>([=](const Scope& scope, const Array& x) {
    const VariableSpec spec{.shape = {static_cast<std::int64_t>(initial.size())},
                            .initializer = [initial](const Array&, const Shape&, DType) { return array(initial); },
                            .aggregation = aggregation};
    return x * scope.trainable("w", spec);
  });
}

/// The loss of each row, [B], from the model's output.
using RowLoss = std::function<Array(const Array& y)>;
inline Array squared_rows(const Array& y) { return squeeze(square(y), {1}); }
inline Array summed_rows(const Array& y) { return sum(y, Axes{1}); }

inline LossFunction loss_of_rows(const Model<Array, Array>& model, const RowLoss& rows) {
  return [model, rows](const Tree& w, const Tree& state, const Batch& b) {
    auto [y, next] = model.stateless_call(w, state, b.x, true, {.rows = b.weight});
    return WithAux{weighted(rows(y), b.weight), next, {}};
  };
}

inline Batch column(const std::vector<float>& x) {
  return batch_of(array(x, {static_cast<std::int64_t>(x.size()), 1}));
}

struct WeightStep {
  TrainState state;
  std::vector<float> weight;
  float grad_norm = 0;
};
inline WeightStep one_step(const Model<Array, Array>& model, const RowLoss& rows, const Batch& batch,
                           const optim::GradientTransformation& optimizer, const DataParallelOptions& options) {
  const TrainStep step = data_parallel(loss_of_rows(model, rows), optimizer, options);
  const auto [trainable, state] = model.init(random::key(0), batch.x);
  auto [after, logs] = step(step.init(trainable, state), batch);
  return {after, after.trainable.at("w").array().to_vector<float>(), logs.at("grad_norm").item<float>()};
}

}  // namespace lockstep::tests
