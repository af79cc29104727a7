#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/non_finite.h"
#include "tests/support/replicas.h"
#include "tests/support/temporary_folder.h"

// Dynamic loss scaling: one decision a step, from reduced gradients. Keras' numbers, on any number of shards, devices and
// microbatches.

using namespace lockstep;
using tests::float_infinity;
using tests::Replicas;

namespace {

constexpr std::int64_t scaled_rows = 16;

WithAux product(const Tree& w, const Tree& state, const Batch& b) {
  const Array seen = state.at("seen").array();
  return {weighted(w.at("v").array() * b.x, b.weight), Tree::dict({{"seen", Tree(seen + 1)}}), {}};
}

TrainState start_in(const TrainStep& step, DType dtype = float32) {
  return step.init(Tree::dict({{"v", Tree(full({}, 3.0, dtype))}}), Tree::dict({{"seen", Tree(array(0.0F))}}));
}

/// Rows of 1, but for the last.
Batch with_last(float last) {
  std::vector<float> x(scaled_rows, 1.0F);
  x.back() = last;
  return tests::batch_of(array(x));
}

std::vector<DataParallelOptions> scaled_options(const LossScale& scale) {
  std::vector<DataParallelOptions> all;
  for (const Replicas& replicas : {Replicas{1, 1}, {2, 1}, {2, 2}, {8, 1}, {8, 2}}) {
    for (const std::int64_t microbatches : {1, 2}) {
      all.push_back(tests::parallel(replicas));
      all.back().microbatches = microbatches;
      all.back().loss_scale = scale;
    }
  }
  return all;
}

float scale_of(const TrainState& state) { return state.loss_scale.at("scale").array().item<float>(); }

}  // namespace

TEST_CASE("four steps of infinite gradients bring a scale of 400 to 25 and leave every variable, bit for bit") {
  for (const DataParallelOptions& options : scaled_options({.initial = 400})) {
    CAPTURE(options.shards);
    const TrainStep step = data_parallel(product, optim::adam(0.1), options);
    TrainState state = start_in(step);
    const auto fingerprints = [&] {
      return fingerprint(state.trainable) + fingerprint(state.non_trainable) + fingerprint(state.optimizer);
    };
    const std::string before = fingerprints();
    for (int i = 0; i < 4; ++i) {
      auto [next, logs] = step(std::move(state), with_last(float_infinity));
      state = std::move(next);
      CHECK(logs.at("gradients_finite").item<float>() == 0);
      CHECK(logs.at("loss_scale").item<float>() == 400.0F / std::pow(2.0F, static_cast<float>(i)));
    }
    CHECK(scale_of(state) == 25);
    CHECK(fingerprints() == before);
    CHECK(state.step.item<std::int64_t>() == 4);
    CHECK(step.traces() == 1);
    // And then it trains.
    auto [next, logs] = step(std::move(state), with_last(1));
    CHECK(next.trainable.at("v").array().item<float>() == doctest::Approx(2.9));
    CHECK(next.non_trainable.at("seen").array().item<float>() == 1);
    CHECK(logs.at("grad_norm").item<float>() == doctest::Approx(1));
    CHECK(logs.at("loss").item<float>() == doctest::Approx(3));
  }
}

TEST_CASE("a scale of 2 that grows every two finite steps is 32 after eight, also where each state is saved") {
  for (const DataParallelOptions& options : scaled_options({.initial = 2, .growth_steps = 2})) {
    CAPTURE(options.shards);
    const TrainStep step = data_parallel(product, optim::sgd(0.1), options);
    TrainState state = start_in(step);
    for (int i = 0; i < 8; ++i) {
      state = step(std::move(state), with_last(1)).first;
      const tests::TemporaryFolder folder;
      checkpoint::save(folder.path() / "state", to_tree(state), {});
      state = from_tree<TrainState>(checkpoint::restore(folder.path() / "state", to_tree(state)));
    }
    CHECK(scale_of(state) == 32);
    CHECK(state.loss_scale.at("finite_steps").array().item<std::int32_t>() == 0);
    CHECK(state.trainable.at("v").array().item<float>() == doctest::Approx(3 - 0.8));
  }
}

TEST_CASE("the scales and weights of Keras' LossScaleOptimizer, step by step") {
  // Keras 3.15.1 with initial_scale 1024 and dynamic_growth_steps 3, on gradients that are finite where there is a 1.
  const std::string finite = "1110111101001111110111111111";
  const std::vector<float> scales = {1024, 1024, 2048, 1024, 1024, 1024, 2048, 2048, 1024, 1024,
                                     512,  256,  256,  256,  512,  512,  512,  1024, 512,  512,
                                     512,  1024, 1024, 1024, 2048, 2048, 2048, 4096};
  for (const DataParallelOptions& options : scaled_options({.initial = 1024, .growth_steps = 3})) {
    const TrainStep step = data_parallel(product, optim::sgd(0.5), options);
    TrainState state = start_in(step);
    float weight = 3;
    for (std::size_t i = 0; i < finite.size(); ++i) {
      state = step(std::move(state), with_last(finite[i] == '1' ? 1 : float_infinity)).first;
      if (finite[i] == '1') weight -= 0.5F;
      CHECK(scale_of(state) == scales[i]);
      CHECK(state.trainable.at("v").array().item<float>() == weight);
    }
  }
}

TEST_CASE("one row that is not finite stops the step of all replicas, and starts the count anew") {
  for (const DataParallelOptions& options : scaled_options({.initial = 8, .growth_steps = 2})) {
    const TrainStep step = data_parallel(product, optim::sgd(0.1), options);
    TrainState state = start_in(step);
    for (const float last : {1.0F, std::nanf(""), 1.0F, 1.0F}) state = step(std::move(state), with_last(last)).first;
    // Halved once, then two finite steps in a row.
    CHECK(scale_of(state) == 8);
    CHECK(state.trainable.at("v").array().item<float>() == doctest::Approx(3 - 0.3));
  }
}

TEST_CASE("gradients that vanish in float16 do not where the loss is scaled") {
  // 1e-6 / 16 a row is below float16's least number when it is rounded; times 2^15 it is not.
  const auto loss = [](const Tree& w, const Tree& state, const Batch& b) {
    const Array y = w.at("v").array() * full({}, 0x1p-14, float16) * convert(b.x, float16);
    return WithAux{weighted(convert(y, float32) * 0x1p-12, b.weight), state, {}};
  };
  const auto moved = [&](std::optional<LossScale> scale) {
    DataParallelOptions options = tests::parallel({2, 2});
    options.loss_scale = scale;
    const TrainStep step = data_parallel(loss, optim::sgd(0x1p24), options);
    const TrainState state = step.init(Tree::dict({{"v", Tree(full({}, 3.0, float16))}}), Tree());
    return 3 - convert(step(state, with_last(1)).first.trainable.at("v").array(), float32).item<float>();
  };
  CHECK(moved({}) == 0);
  CHECK(moved(LossScale{}) == 0.25);
}

TEST_CASE("powers of two as scales leave gradients' bits") {
  const auto trained = [&](std::optional<LossScale> scale) {
    DataParallelOptions options = tests::parallel({8, 2});
    options.loss_scale = scale;
    const TrainStep step = data_parallel(product, optim::adam(0.1), options);
    TrainState state = start_in(step);
    for (int i = 0; i < 5; ++i) state = step(std::move(state), with_last(0.3F * static_cast<float>(i))).first;
    return fingerprint(state.trainable) + fingerprint(state.optimizer);
  };
  CHECK(trained({}) == trained(LossScale{.initial = 1024, .growth_steps = 2}));
}

TEST_CASE("several objectives are one decision") {
  const auto of = [](const char* name) {
    return [name](const Tree& w, const Tree& state, const Batch& b) {
      return WithAux{weighted(w.at(name).array() * (name[0] == 'a' ? b.x : b.y), b.weight), state, {}};
    };
  };
  DataParallelOptions options = tests::parallel({2, 2});
  options.loss_scale = LossScale{.initial = 8};
  const TrainStep step =
      data_parallel({{.name = "a", .loss = of("a"), .optimizers = {{"a", optim::sgd(0.1)}}},
                     {.name = "b", .loss = of("b"), .optimizers = {{"b", optim::sgd(0.1)}}, .sees_updates = true}},
                    options);
  const Tree params = Tree::dict({{"a", Tree(array(1.0F))}, {"b", Tree(array(1.0F))}});
  Batch batch = with_last(1);
  batch.y = with_last(float_infinity).x;
  auto [state, logs] = step(step.init(params, Tree()), batch);
  CHECK(fingerprint(state.trainable) == fingerprint(params));
  CHECK(scale_of(state) == 4);
  CHECK(logs.at("gradients_finite").item<float>() == 0);
}

TEST_CASE("what a loss scale cannot be, and a state without one") {
  const auto with = [](const LossScale& scale) {
    DataParallelOptions options;
    options.loss_scale = scale;
    static_cast<void>(data_parallel(product, optim::sgd(0.1), options));
  };
  tests::expect_error<ValueError>([&] { with({.initial = 0.5}); }, "[loss scale] initial is 0.5, minimum 1");
  tests::expect_error<ValueError>([&] { with({.growth = 1}); }, "growth is 1 and backoff 0.5", "above 1");
  tests::expect_error<ValueError>([&] { with({.backoff = 1}); }, "backoff between 0 and 1");
  tests::expect_error<ValueError>([&] { with({.growth_steps = 0}); }, "growth_steps is 0; it must be at least 1");
  DataParallelOptions options = tests::parallel({2, 1});
  options.loss_scale = LossScale{};
  const TrainStep step = data_parallel(product, optim::sgd(0.1), options);
  TrainState state = start_in(step);
  state.loss_scale = Tree();
  tests::expect_error<StateError>([&] { static_cast<void>(step(state, with_last(1))); }, "the state has no loss_scale",
                                  "loss_scale_state(options)");
}
