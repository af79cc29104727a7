#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/replicas.h"
#include "tests/support/temporary_folder.h"

// Gradients accumulated over steps, and parameters that are overwritten by their average: the numbers that Keras' and Optax'
// own tests have, on any number of shards, devices and microbatches, and where a run is saved and resumed.

using namespace lockstep;
using tests::Replicas;

namespace {

using Values = std::vector<float>;

constexpr std::int64_t linear_rows = 16;

/// The mean over rows of the sum of v x: its gradient is the rows' mean.
TrainStep linear_step(const optim::GradientTransformation& optimizer, DataParallelOptions options) {
  const auto loss = [](const Tree& w, const Tree& state, const Batch& b) {
    return WithAux{weighted(sum(w.at("v").array() * b.x, {1, 2}), b.weight), state, {}};
  };
  return data_parallel(loss, optimizer, std::move(options));
}

Batch batch_of_gradient(const Values& g) {
  return tests::batch_of(broadcast_to(array(g, {1, 2, 2}), {linear_rows, 2, 2}));
}

TrainState start_at(const TrainStep& step, const Values& v) {
  return step.init(Tree::dict({{"v", Tree(array(v, {2, 2}))}}), Tree());
}

Values values_of(const Tree& tree, const std::string& path) {
  return reshape(tree.at(path).array(), {-1}).to_vector<float>();
}

/// Through a file.
TrainState resumed(const TrainState& state) {
  const tests::TemporaryFolder folder;
  checkpoint::save(folder.path() / "state", to_tree(state), {});
  return from_tree<TrainState>(checkpoint::restore(folder.path() / "state", to_tree(state)));
}

std::vector<DataParallelOptions> accumulation_options() {
  std::vector<DataParallelOptions> all;
  for (const Replicas& replicas : {Replicas{1, 1}, {2, 1}, {2, 2}, {8, 1}, {8, 2}}) {
    for (const std::int64_t microbatches : {1, 2}) {
      all.push_back(tests::parallel(replicas));
      all.back().microbatches = microbatches;
    }
  }
  return all;
}

}  // namespace

TEST_CASE("three steps of two replicas, summed, make one update by their mean") {
  for (const int devices : {1, 2}) {
    for (const std::int64_t microbatches : {1, 2}) {
      CAPTURE(devices);
      DataParallelOptions options = tests::parallel({2, devices});
      options.microbatches = microbatches;
      options.aggregations = {{"v", Aggregation::sum}};
      const TrainStep step = linear_step(optim::multi_steps(optim::sgd(1.0), 3), options);
      TrainState state = start_at(step, {1, 2, 3, 4});
      const std::vector<Values> accumulators = {{2, 2, 4, 4}, {4, 4, 8, 8}, {0, 0, 0, 0}};
      for (std::size_t i = 0; i < 3; ++i) {
        state = resumed(step(std::move(state), batch_of_gradient({1, 1, 2, 2})).first);
        CHECK(values_of(state.optimizer, "gradients/v") == accumulators[i]);
        CHECK(values_of(state.trainable, "v") == (i < 2 ? Values{1, 2, 3, 4} : Values{-1, 0, -1, 0}));
        CHECK(optim::has_updated(state.optimizer).item<bool>() == (i == 2));
      }
      CHECK(state.optimizer.at("gradient_step").array().item<std::int32_t>() == 1);
    }
  }
}

TEST_CASE("accumulation means the same on any number of replicas") {
  for (const DataParallelOptions& options : accumulation_options()) {
    CAPTURE(options.shards);
    const TrainStep step = linear_step(optim::multi_steps(optim::sgd(1.0), 3), options);
    TrainState state = start_at(step, {1, 2, 3, 4});
    for (const Values& g : {Values{2, 2, 4, 4}, Values{1, 1, 2, 2}, Values{3, 3, 6, 6}}) {
      CHECK(values_of(state.trainable, "v") == Values{1, 2, 3, 4});
      state = step(std::move(state), batch_of_gradient(g)).first;
    }
    CHECK(values_of(state.trainable, "v") == Values{-1, 0, -1, 0});
    CHECK(values_of(state.optimizer, "gradients/v") == Values{0, 0, 0, 0});
  }
}

TEST_CASE("a step that makes no update leaves every bit, that of -0 too") {
  const TrainStep step = linear_step(optim::multi_steps(optim::adam(0.1), 2), tests::parallel({2, 1}));
  TrainState state = start_at(step, {-0.0F, 0.0F, 1, -1});
  const std::string before = fingerprint(state.trainable);
  state = step(std::move(state), batch_of_gradient({1, 1, 1, 1})).first;
  CHECK(fingerprint(state.trainable) == before);
  state = step(std::move(state), batch_of_gradient({1, 1, 1, 1})).first;
  CHECK(fingerprint(state.trainable) != before);
}

TEST_CASE("a schedule of the updates made says how many steps an update takes; accumulators of bfloat16 are float32") {
  const auto k = [](const Array& updates) { return where(updates < 2, full({}, 1.0, float64), 3.0); };
  const auto optimizer = optim::multi_steps(optim::sgd(1.0), Schedule(k));
  const Tree params = Tree::dict({{"v", Tree(zeros({2}, bfloat16))}});
  Tree state = optimizer.init(params);
  CHECK(state.at("gradients/v").array().dtype() == float32);
  std::vector<bool> updated;
  for (int i = 0; i < 8; ++i) {
    auto [updates, next] = optimizer.update(Tree::dict({{"v", Tree(ones({2}, bfloat16))}}), state, params);
    state = std::move(next);
    updated.push_back(optim::has_updated(state).item<bool>());
    CHECK(state.at("gradients/v").array().dtype() == float32);
    // -1 where it updates, -0 where it does not.
    CHECK(convert(updates.at("v").array(), float32)[0].item<float>() == (updated.back() ? -1 : 0));
  }
  CHECK(updated == std::vector<bool>{true, true, false, false, true, false, false, true});
}

TEST_CASE("parameters are overwritten by their average every third step") {
  const auto optimizer = optim::chain(optim::sgd(1.0), optim::average_parameters(0.9, {.overwrite_every = 3}));
  const std::vector<Values> parameters = {{2, 3, 4, 5}, {1, 2, 3, 4}, {1.71F, 2.71F, 3.71F, 4.71F}};
  const std::vector<Values> averages = {{2, 3, 4, 5}, {1.9F, 2.9F, 3.9F, 4.9F}, {1.71F, 2.71F, 3.71F, 4.71F}};
  for (const DataParallelOptions& options : accumulation_options()) {
    CAPTURE(options.shards);
    const TrainStep step = linear_step(optimizer, options);
    TrainState state = start_at(step, {3, 4, 5, 6});
    for (std::size_t i = 0; i < 3; ++i) {
      state = step(std::move(state), batch_of_gradient({1, 1, 1, 1})).first;
      if (options.shards == 8) state = resumed(state);
      const Values v = values_of(state.trainable, "v"), average = values_of(state.optimizer, "1/average/v");
      for (std::size_t k = 0; k < 4; ++k) {
        CHECK(v[k] == doctest::Approx(parameters[i][k]).epsilon(1e-6));
        CHECK(average[k] == doctest::Approx(averages[i][k]).epsilon(1e-6));
      }
    }
  }
}
