#include <algorithm>
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "tests/acceptance/cases.h"
#include "tests/acceptance/weight_steps.h"

// What is accumulated, averaged and scaled over steps is decided once, from gradients that are reduced already.
namespace lockstep::tests {
namespace {

using Values = std::vector<float>;

/// The mean over rows of the sum of v x: its gradient is the rows' mean.
TrainStep linear_step(const optim::GradientTransformation& optimizer, const DataParallelOptions& options) {
  const auto loss = [](const Tree& w, const Tree& state, const Batch& b) {
    return WithAux{weighted(sum(w.at("v").array() * b.x, {1, 2}), b.weight), state, {}};
  };
  return data_parallel(loss, optimizer, options);
}

Batch rows_of(const Values& gradient) { return batch_of(broadcast_to(array(gradient, {1, 2, 2}), {16, 2, 2})); }

TrainState start(const TrainStep& step, const Values& v) {
  return step.init(Tree::dict({{"v", Tree(array(v, {2, 2}))}}), Tree());
}

Values values_of(const Tree& tree, const std::string& path) {
  return reshape(tree.at(path).array(), {-1}).to_vector<float>();
}

Tree accumulated_over_three_steps(const Replicas& replicas) {
  DataParallelOptions options = parallel(replicas);
  options.aggregations = {{"v", Aggregation::sum}};
  const TrainStep step = linear_step(optim::multi_steps(optim::sgd(1.0), 3), options);
  TrainState state = start(step, {1, 2, 3, 4});
  const auto n = static_cast<float>(replicas.shards);
  for (const float summed : {n, 2 * n, 0.0F}) {
    state = step(std::move(state), rows_of({1, 1, 2, 2})).first;
    CHECK(values_of(state.optimizer, "gradients/v") == Values{summed, summed, 2 * summed, 2 * summed});
    const bool is_update = summed == 0;
    const float by = is_update ? n : 0;  // [[-1,0],[-1,0]] of two
    CHECK(values_of(state.trainable, "v") == Values{1 - by, 2 - by, 3 - 2 * by, 4 - 2 * by});
    CHECK(optim::has_updated(state.optimizer).item<bool>() == is_update);
  }
  CHECK(state.optimizer.at("gradient_step").array().item<std::int32_t>() == 1);
  return to_tree(state);
}

Tree overwritten_by_the_average(const Replicas& replicas) {
  const TrainStep step = linear_step(
      optim::chain(optim::sgd(1.0), optim::average_parameters(0.9, {.overwrite_every = 3})), parallel(replicas));
  const std::vector<Values> parameters = {{2, 3, 4, 5}, {1, 2, 3, 4}, {1.71F, 2.71F, 3.71F, 4.71F}};
  const std::vector<Values> averages = {{2, 3, 4, 5}, {1.9F, 2.9F, 3.9F, 4.9F}, {1.71F, 2.71F, 3.71F, 4.71F}};
  TrainState state = start(step, {3, 4, 5, 6});
  for (std::size_t i = 0; i < 3; ++i) {
    state = step(std::move(state), rows_of({1, 1, 1, 1})).first;
    const Values v = values_of(state.trainable, "v"), average = values_of(state.optimizer, "1/average/v");
    for (std::size_t k = 0; k < 4; ++k) {
      CHECK(v[k] == doctest::Approx(parameters[i][k]).epsilon(1e-6));
      CHECK(average[k] == doctest::Approx(averages[i][k]).epsilon(1e-6));
    }
  }
  return to_tree(state);
}

WithAux scaled_product(const Tree& w, const Tree& state, const Batch& b) {
  const Array seen = state.at("seen").array();
  return {weighted(w.at("v").array() * b.x, b.weight), Tree::dict({{"seen", Tree(seen + 1)}}), {}};
}

TrainState scaled_start(const TrainStep& step) {
  return step.init(Tree::dict({{"v", Tree(array(3.0F))}}), Tree::dict({{"seen", Tree(array(0.0F))}}));
}

/// Rows of 1, but for the last.
Batch with_last(float last) {
  Values x(16, 1.0F);
  x.back() = last;
  return batch_of(array(x));
}

float scale_of(const TrainState& state) { return state.loss_scale.at("scale").array().item<float>(); }

Tree infinite_gradients(const Replicas& replicas) {
  DataParallelOptions options = parallel(replicas);
  options.loss_scale = LossScale{.initial = 400};
  const TrainStep step = data_parallel(scaled_product, optim::adam(0.1), options);
  TrainState state = scaled_start(step);
  const auto variables = [&] {
    return fingerprint(state.trainable) + fingerprint(state.non_trainable) + fingerprint(state.optimizer);
  };
  const std::string before = variables();
  for (int i = 0; i < 4; ++i) {
    state = step(std::move(state), with_last(std::numeric_limits<float>::infinity())).first;
  }
  CHECK(scale_of(state) == 25);
  CHECK(variables() == before);
  return to_tree(step(std::move(state), with_last(1)).first);
}

Tree finite_gradients(const Replicas& replicas) {
  DataParallelOptions options = parallel(replicas);
  options.loss_scale = LossScale{.initial = 2, .growth_steps = 2};
  const TrainStep step = data_parallel(scaled_product, optim::sgd(0.1), options);
  TrainState state = scaled_start(step);
  for (int i = 0; i < 8; ++i) state = step(std::move(state), with_last(1)).first;
  CHECK(scale_of(state) == 32);
  CHECK(state.trainable.at("v").array().item<float>() == doctest::Approx(3 - 0.8));
  return to_tree(state);
}

Tree steps_by_schedule(const Replicas& replicas) {
  const auto k = [](const Array& updates) { return where(updates < 2, full({}, 1.0, float64), 3.0); };
  const auto loss = [](const Tree& w, const Tree& state, const Batch& b) {
    return WithAux{weighted(sum(convert(w.at("v").array(), float32) * b.x, {1, 2}), b.weight), state, {}};
  };
  const TrainStep step = data_parallel(loss, optim::multi_steps(optim::sgd(1.0), Schedule(k)), parallel(replicas));
  TrainState state = step.init(Tree::dict({{"v", Tree(zeros({2, 2}, bfloat16))}}), Tree());
  std::vector<bool> updated;
  for (int i = 0; i < 8; ++i) {
    state = step(std::move(state), rows_of({1, 1, 1, 1})).first;
    updated.push_back(optim::has_updated(state.optimizer).item<bool>());
    CHECK(state.optimizer.at("gradients/v").array().dtype() == float32);
    CHECK(state.trainable.at("v").array().dtype() == bfloat16);
    const auto updates = static_cast<float>(std::ranges::count(updated, true));
    CHECK(values_of(Tree::dict({{"v", Tree(convert(state.trainable.at("v").array(), float32))}}), "v") ==
          Values(4, -updates));
  }
  CHECK(updated == std::vector<bool>{true, true, false, false, true, false, false, true});
  return to_tree(state);
}

}  // namespace

std::vector<AcceptanceCase> optimizer_cases() {
  return {
      {"T18: summed gradients accumulated over three steps make one update by their mean",
       accumulated_over_three_steps},
      {"T19: parameters are overwritten by their average of decay 0.9 every third step", overwritten_by_the_average},
      {"T22: four steps of infinite gradients bring a loss scale of 400 to 25 and leave every variable",
       infinite_gradients},
      {"T23: a loss scale of 2 that grows every two finite steps is 32 after eight", finite_gradients},
      {"T24: a schedule says how many steps an update takes, and gradients of bfloat16 accumulate in float32",
       steps_by_schedule}};
}

}  // namespace lockstep::tests
