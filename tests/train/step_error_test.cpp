#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/replicas.h"
#include "tests/support/training.h"

using namespace lockstep;

namespace {

const Model<Array, Array>& linear_model() {
  static const Model<Array, Array> linear(
      [](Scope& scope, const Array& x) { return dense(scope["head"], x, {.units = 1}); });
  return linear;
}

/// One step of a loss made of the model's output.
template <class F>
void step_with(F make, const DataParallelOptions& options, const Batch& batch) {
  const LossFunction loss = [&](const Tree& w, const Tree& state, const Batch& b) {
    auto [y, next] = linear_model().stateless_call(w, state, b.x, true, {.rows = b.weight});
    return WithAux{make(y, b), next, {}};
  };
  const TrainStep step = data_parallel(linear_model(), loss, optim::sgd(0.1), options);
  (void)step(tests::fresh_state(step, linear_model(), {zeros({1, 2}), {}, {}}), batch);
}

void step_on(const Batch& batch) {
  step_with([](const Array& y, const Batch& b) { return mean_squared_error(y, b.y, b.weight); },
            tests::parallel({2, 2}), batch);
}

}  // namespace

TEST_CASE("batches: x, y and weight of equally many rows, at least one") {
  step_on({zeros({4, 2}), zeros({4, 1}), {}});
  const std::string text = "give all three the same number of rows, weight of rank 1";
  tests::expect_error<DataError>(
      [&] {
        static_cast<void>(step_on({zeros({4, 2}), zeros({3, 1}), {}}));
      },
      "x is f32[4,2], y f32[3,1], weight f32[4]");
  tests::expect_error<DataError>([&] { static_cast<void>(step_on({zeros({4, 2}), zeros({}), {}})); }, text);
  tests::expect_error<DataError>([&] { static_cast<void>(step_on({zeros({4, 2}), zeros({4, 1}), ones({3})})); }, text);
  tests::expect_error<DataError>(
      [&] {
        static_cast<void>(step_on({zeros({4, 2}), zeros({4, 1}), ones({4, 1})}));
      },
      text);
  tests::expect_error<DataError>(
      [&] {
        static_cast<void>(step_on({zeros({0, 2}), zeros({0, 1}), {}}));
      },
      "give at least one row");
  tests::expect_error<DataError>([&] { static_cast<void>(step_on({zeros({}), zeros({1}), {}})); }, "x or y is empty");
  tests::expect_error<DataError>([&] { static_cast<void>(step_on({{}, zeros({1}), {}})); }, "x or y is empty");
  const EvaluateStep evaluate(tests::loss_of(linear_model()), tests::parallel({2, 2}));
  tests::expect_error<DataError>(
      [&] {
        static_cast<void>(evaluate(Tree(), Tree(), {zeros({4, 2}), zeros({3, 1}), {}}));
      },
      text);
}

TEST_CASE("microbatches are at least 1") {
  for (const std::int64_t count : {0, -3}) {
    tests::expect_error<ValueError>(
        [&] {
          static_cast<void>(
              data_parallel(linear_model(), tests::loss_of(linear_model()), optim::sgd(0.1), {.microbatches = count}));
        },
        "microbatches is " + std::to_string(count) + "; it must be at least 1");
  }
}

TEST_CASE("impossible meshes are refused when the step runs") {
  const Batch batch = tests::regression_batch(8, 2, float32);
  const auto mse = [](const Array& y, const Batch& b) { return mean_squared_error(y, b.y, b.weight); };
  tests::expect_error<MeshError>([&] { static_cast<void>(step_with(mse, {.shards = 3}, batch)); }, "3");
  tests::expect_error<MeshError>(
      [&] { static_cast<void>(step_with(mse, {.devices = devices("cpu:0-2"), .shards = 8}, batch)); }, "3");
  tests::expect_error<MeshError>(
      [&] { static_cast<void>(step_with(mse, {.devices = devices("cpu:0-3"), .shards = 2}, batch)); }, "4");
}

TEST_CASE("a loss has a term, and its penalties are the same on all replicas") {
  const Batch batch = tests::regression_batch(8, 2, float32);
  const auto empty = [](const Array&, const Batch&) { return Loss(); };
  tests::expect_error<ValueError>(
      [&] {
        static_cast<void>(step_with(empty, tests::parallel({2, 2}), batch));
      },
      "[loss] the loss has no term");
  tests::expect_error<ValueError>(
      [&] {
        static_cast<void>(step_with(empty, tests::parallel({1, 1}), batch));
      },
      "return Weighted{sum, weight} or a penalty");
  const auto of_rows = [](const Array& y, const Batch& b) {
    return mean_squared_error(y, b.y, b.weight) + mean(y * y);
  };
  tests::expect_error<MeshError>(
      [&] {
        static_cast<void>(step_with(of_rows, tests::parallel({2, 2}), batch));
      },
      "a penalty is f32[]{batch}: replicas may differ along batch");
}

TEST_CASE("the terms are the same whenever the loss is traced") {
  int calls = 0;  // the first for what it declares
  const auto growing = [&](const Array& y, const Batch& b) {
    Loss loss = mean_squared_error(y, b.y, b.weight);
    return ++calls <= 2 ? loss : loss + Loss(mean_absolute_error(y, b.y, b.weight));
  };
  DataParallelOptions options = tests::parallel({2, 2});
  options.microbatches = 2;
  tests::expect_error<StateError>(
      [&] { static_cast<void>(step_with(growing, options, tests::regression_batch(8, 2, float32))); },
      "the loss had 1 terms when it was traced first and 2 when it was traced again");
}

TEST_CASE("a state leaf that differs between replicas is refused by path, whoever made it") {
  const Model counting([](Scope& scope, const Array& x) {
    scope.non_trainable("seen", {.shape = {}});
    return dense(scope["head"], x, {.units = 1});
  });
  const LossFunction loss = [&](const Tree& w, const Tree& state, const Batch& b) {
    const Array y = counting.stateless_call(w, state, b.x, true).first;
    return WithAux{mean_squared_error(y, b.y, b.weight), state.with("seen", Tree(sum(b.x))), {}};
  };
  const Batch batch = tests::regression_batch(8, 2, float32);
  const TrainStep step = data_parallel(counting, loss, optim::sgd(0.1), tests::parallel({2, 2}));
  tests::expect_error<AggregationError>(
      [&] { static_cast<void>(step(tests::fresh_state(step, counting, batch), batch)); },
      "the new state's leaf 'seen' is f32[]{batch}");
}

TEST_CASE("a step says which op of which layer made a NaN") {
  const auto logarithm = [](const Array& y, const Batch& b) { return weighted(squeeze(log(y), {1}), b.weight); };
  const Batch batch{zeros({4, 2}) - 1.0, zeros({4, 1}), {}};
  DataParallelOptions options = tests::parallel({2, 2});
  step_with(logarithm, options, batch);
  options.debug.nans = true;
  const auto negative = [](const Array& y, const Batch& b) {
    const NamedScope layer("likelihood");
    return weighted(squeeze(log(y - 1.0), {1}), b.weight);
  };
  tests::expect_error<NonFiniteError>([&] { static_cast<void>(step_with(negative, options, batch)); },
                                      "log (forward, layer 'likelihood', replica 0 of 2)");
}

TEST_CASE("state that differs between replicas is told what its dtype may declare") {
  const auto of_state = [](DType dtype) {
    const Model<Array, Array> counting([dtype](Scope& scope, const Array& x) {
      static_cast<void>(
          scope.non_trainable("seen", {.shape = {}, .dtype = dtype, .initializer = initializers::zeros()}));
      scope.assign("seen", convert(sum(x), dtype));
      return dense(scope["head"], x, {.units = 1});
    });
    const Batch batch = tests::regression_batch(8, 2, float32);
    const auto [trainable, state] = counting.init(random::key(0), batch.x);
    const TrainStep step = data_parallel(
        counting, [](const Array& y, const Batch& b) { return mean_squared_error(y, b.y, b.weight); }, optim::sgd(0.1),
        tests::parallel({2, 1}));
    static_cast<void>(step(step.init(trainable, state), batch));
  };
  const std::string differs = "replicas may differ along batch, but the variable declares aggregation=none; ";
  tests::expect_error<AggregationError>(
      [&] { of_state(float32); },
      differs +
          "declare mean, sum (with accumulate) or only_first_replica, or make the value invariant with psum or pmean");
  tests::expect_error<AggregationError>(
      [&] { of_state(int32); },
      differs + "declare sum (with accumulate) or only_first_replica, or make the value invariant with psum");
  tests::expect_error<AggregationError>([&] { of_state(bool_); },
                                        differs + "declare only_first_replica, or make the value invariant");
  const Model<Array, Array> of_examples([](Scope& scope, const Array& x) {
    return vmap([&](const Array& row) {
      static_cast<void>(
          scope.non_trainable("seen", {.shape = {}, .dtype = int32, .initializer = initializers::zeros()}));
      scope.assign("seen", convert(sum(row), int32));
      return row;
    })(x);
  });
  tests::expect_error<AggregationError>(
      [&] {
        static_cast<void>(of_examples.init(random::key(0), ones({4, 2})));
      },
      "differs between the examples of a vmap, but the variable declares aggregation=none; give the vmap an axis_name",
      "or declare sum (with accumulate) or only_first_replica");
}
