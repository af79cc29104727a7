#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/replicas.h"

// A summed variable must grow by what the replicas contribute. Summing the whole value at each write multiplies it by the
// number of replicas a step: Keras' metrics reached infinity, then NaN, within 127 steps.

using namespace lockstep;
using tests::replica_counts;

namespace {

WithAux plain_loss(const Array& y, const Tree& next, const Batch& b) {
  return {.loss = mean_squared_error(y, zeros_like(y), b.weight), .state = next, .metrics = {}};
}

}  // namespace

TEST_CASE("a counter of 200 steps counts one per replica and step") {
  const Model model([](Scope& scope, const Array& x) {
    scope.non_trainable("count", {.shape = {}, .dtype = int64, .aggregation = Aggregation::sum});
    scope.non_trainable("total", {.shape = {}, .aggregation = Aggregation::sum});
    scope.accumulate("count", ones({}, int64));
    scope.accumulate("total", sum(x));
    return x;
  });
  const Array x = ones({4, 1});
  for (const auto& replicas : replica_counts) {
    CAPTURE(replicas.shards);
    auto [trainable, state] = model.init(random::key(0), x);
    for (int i = 0; i < 200; ++i) {
      state = tests::call_on(replicas, model, trainable, state, tests::batch_of(x), true).second;
    }
    CHECK(state.at("count").array().item<std::int64_t>() == 200 * replicas.shards);
    CHECK(state.at("total").array().item<float>() == 800);
  }
}

TEST_CASE("an Identity model with a squared error keeps its loss for 500 steps") {
  const Model model([](Scope&, const Array& x) { return x; });
  const auto loss = [&](const Tree& w, const Tree& state, const Batch& b) {
    auto [y, next] = model.stateless_call(w, state, b.x, true, {.rows = b.weight});
    return plain_loss(y, next, b);
  };
  const Batch batch = tests::batch_of(array(std::vector<float>{1, 2, 3, 4}, {4, 1}));
  for (const auto& replicas : replica_counts) {
    CAPTURE(replicas.shards);
    const TrainStep step = data_parallel(model, loss, optim::sgd(0.1), tests::parallel(replicas));
    auto [trainable, non_trainable] = model.init(random::key(0), batch.x);
    TrainState state = step.init(trainable, non_trainable);
    for (int i = 0; i < 500; ++i) {
      auto [next, logs] = step(std::move(state), batch);
      state = std::move(next);
      REQUIRE(logs.at("loss").item<float>() == 7.5F);
    }
  }
}

TEST_CASE("an accuracy of 0.89 is reported as 0.89") {
  std::vector<float> logits(200, 0.0F);
  std::vector<std::int32_t> labels(100, 1);
  for (std::size_t row = 0; row < 100; ++row) logits[2 * row + (row < 89 ? 1 : 0)] = 1.0F;
  const Batch batch{array(logits, {100, 2}), array(labels), {}};
  for (const auto& replicas : replica_counts) {
    const EvaluateStep evaluate(
        [](const Tree&, const Tree& state, const Batch& b) {
          return WithAux{
              softmax_cross_entropy(b.x, b.y, b.weight), state, {{"accuracy", accuracy(b.x, b.y, b.weight)}}};
        },
        tests::parallel(replicas));
    const auto sums = evaluate(Tree(), Tree(), batch);
    CHECK(sums.at("accuracy").sum.item<float>() == 89);
    CHECK(sums.at("accuracy").weight.item<float>() == 100);
  }
}

TEST_CASE("assigning old + x to a summed variable is refused, and the text says what to write") {
  const Model model([](Scope& scope, const Array& x) {
    const Array old = scope.non_trainable("count", {.shape = {}, .aggregation = Aggregation::sum});
    scope.assign("count", old + 1);
    return x;
  });
  tests::expect_error<AggregationError>([&] { static_cast<void>(model.init(random::key(0), zeros({2}))); },
                                        "accumulate(\"count\", contribution)");
  const Model other([](Scope& scope, const Array& x) {
    scope.non_trainable("mean", {.shape = {}, .aggregation = Aggregation::mean});
    scope.accumulate("mean", ones({}));
    return x;
  });
  tests::expect_error<AggregationError>([&] { static_cast<void>(other.init(random::key(0), zeros({2}))); },
                                        "declare it sum, or assign");
}
