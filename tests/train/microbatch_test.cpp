#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/replicas.h"
#include "tests/support/training.h"
#include "tests/train/close_trees.h"

// A step with microbatches is the step without them, with the memory of one: the same loss, gradients, metrics and state
// for any number of shards, devices and microbatches, masks of dropout included.

using namespace lockstep;
using tests::Replicas;

namespace {

constexpr std::int64_t counted_features = 5;

/// Dropout before and behind a rematerialised block that draws too.
Model<Array, Array> dropping() {
  return Model([](Scope& scope, const Array& x) {
    const Array h = dropout(scope["first_drop"], tanh(dense(scope["first"], x, {.units = 8})), 0.25);
    return dense(scope["head"], dropout(scope["drop"], layer_norm(scope["norm"], h), 0.5), {.units = 1});
  });
}

/// Two terms of different weights, a penalty and a metric.
LossFunction two_term_loss(const Model<Array, Array>& model) {
  return [model](const Tree& w, const Tree& state, const Batch& b) {
    auto [y, next] = model.stateless_call(w, state, b.x, true, {.rows = b.weight});
    const Loss loss = mean_squared_error(y, b.y, b.weight) +
                      0.5 * Loss(mean_absolute_error(y, b.y, b.weight * square(b.weight))) + l2_penalty(w, 0.01);
    return WithAux{loss, next, {{"size", weighted(abs(y), b.weight)}}};
  };
}

DataParallelOptions options_of(const Replicas& replicas, std::int64_t microbatches) {
  DataParallelOptions options = tests::parallel(replicas);
  options.microbatches = microbatches;
  return options;
}

struct Outcome {
  Tree state;  ///< With the logs.
  std::string fingerprint;
};

Outcome outcome_of(const Model<Array, Array>& model, const StepLoss& loss, const Batch& batch, const Replicas& replicas,
                   std::int64_t microbatches, int steps = 3) {
  const TrainStep step = data_parallel(loss, optim::sgd(0.1, 0.9), options_of(replicas, microbatches));
  TrainState state = tests::fresh_state(step, model, batch);
  Tree logs;
  for (int i = 0; i < steps; ++i) {
    auto [next, measured] = step(std::move(state), batch);
    state = std::move(next);
    logs = to_tree(measured);
  }
  CHECK(step.traces() == 1);
  const Tree all = Tree::list({to_tree(state), logs});
  return {all, fingerprint(all)};
}

/// Weights 1, 0, 0.5, 1, ...: some microbatches have no row.
Batch with_holes(Batch batch) {
  std::vector<float> weights;
  for (std::int64_t i = 0; i < batch.x.dim(0); ++i) weights.push_back(i % 7 < 3 ? 0.0F : i % 2 == 0 ? 0.5F : 1.0F);
  batch.weight = array(weights);
  return batch;
}

const std::vector<Replicas> cuts = {{1, 1}, {2, 1}, {2, 2}, {4, 1}, {4, 2}, {8, 1}, {8, 2}};

/// A model with a variable of each aggregation in its state.
Model<Array, Array> model_of_aggregations() {
  return Model([](Scope& scope, const Array& x) {
    const Array rows = scope.rows().has_value() ? convert(scope.rows() != 0, float64) : ones({x.dim(0)}, float64);
    scope.non_trainable("calls", {.shape = {}, .dtype = int32});
    scope.assign("calls", scope.non_trainable("calls", {.shape = {}, .dtype = int32}) + 1);
    scope.non_trainable("rows", {.shape = {}, .dtype = float64, .aggregation = Aggregation::sum});
    scope.accumulate("rows", sum(rows));
    scope.non_trainable(
        "first", {.shape = {counted_features}, .dtype = float64, .aggregation = Aggregation::only_first_replica});
    scope.assign("first", x[0]);
    return dense(scope["head"], x, {.units = 1});
  });
}

}  // namespace

TEST_CASE("loss, gradients, metrics and state do not depend on microbatches, with dropout; bits not on devices") {
  const auto model = dropping();
  for (const Batch& batch : {tests::regression_batch(32, counted_features, float64),
                             with_holes(tests::regression_batch(29, counted_features, float64))}) {
    const Outcome plain = outcome_of(model, two_term_loss(model), batch, {1, 1}, 1);
    for (const std::int64_t microbatches : {1, 2, 4}) {
      std::string expected;
      std::int64_t shards = 0;
      for (const Replicas replicas : cuts) {
        CAPTURE(replicas.shards);
        CAPTURE(replicas.devices);
        CAPTURE(microbatches);
        const Outcome cut = outcome_of(model, two_term_loss(model), batch, replicas, microbatches);
        tests::check_close(cut.state, plain.state, 1e-10);
        if (replicas.shards == shards) CHECK(cut.fingerprint == expected);
        shards = replicas.shards;
        expected = cut.fingerprint;
      }
    }
  }
}

TEST_CASE("in float32 and bfloat16 the loss is that of one microbatch, to the dtype's rounding") {
  const auto model = dropping();
  for (const DType dtype : {float32, bfloat16}) {
    const Batch batch = tests::regression_batch(16, counted_features, dtype);
    const double tolerance = dtype == float32 ? 1e-6 : 2e-2;
    const double plain =
        outcome_of(model, tests::loss_of(model), batch, {1, 1}, 1, 1).state.at("1/loss").array().item<double>();
    for (const std::int64_t microbatches : {2, 4, 16}) {
      for (const std::int64_t shards : {1, 2, 4, 8}) {
        const Outcome cut = outcome_of(model, tests::loss_of(model), batch, {shards, 1}, microbatches, 1);
        CHECK(cut.state.at("1/loss").array().item<double>() == doctest::Approx(plain).epsilon(tolerance));
      }
    }
  }
}

TEST_CASE("state moves once a step: counts, sums over rows, the first row") {
  const auto model = model_of_aggregations();
  const Batch batch = with_holes(tests::regression_batch(13, counted_features, float64));
  for (const Replicas replicas : {Replicas{1, 1}, {2, 2}, {4, 2}}) {
    for (const std::int64_t microbatches : {1, 2, 4}) {
      CAPTURE(replicas.shards);
      CAPTURE(microbatches);
      const Tree state =
          outcome_of(model, tests::loss_of(model), batch, replicas, microbatches, 2).state.at("0/non_trainable");
      CHECK(state.at("calls").array().item<int>() == 2);
      CHECK(state.at("rows").array().item<double>() == 2 * 7);  // 13 rows, 3 + 3 of weight 0
      // Rows 0 to 2 have weight 0 and hold what the first that counts holds.
      CHECK(state.at("first").array().to_bytes() == batch.x[3].to_bytes());
    }
  }
}

TEST_CASE("gradients that layers declare to combine otherwise do so over microbatches as over none") {
  for (const Aggregation aggregation : {Aggregation::mean, Aggregation::sum, Aggregation::only_first_replica}) {
    const Model model([aggregation](Scope& scope, const Array& x) {
      return dense(scope["head"], tanh(dense(scope["first"], x, {.units = 3, .aggregation = aggregation})),
                   {.units = 1});
    });
    const Batch batch = with_holes(tests::regression_batch(32, counted_features, float64));
    for (const std::int64_t shards : {1, 2, 4}) {
      const Outcome plain = outcome_of(model, tests::loss_of(model), batch, {shards, 1}, 1);
      const Outcome cut = outcome_of(model, tests::loss_of(model), batch, {shards, 1}, 4);
      tests::check_close(cut.state, plain.state, 1e-10);
    }
  }
}

TEST_CASE("batch_norm over microbatches is an error by layer, unless it is told to take each alone") {
  const auto with = [](const BatchNormOptions& options) {
    return Model([options](Scope& scope, const Array& x) {
      return dense(scope["head"], batch_norm(scope["block"]["norm"], x, options), {.units = 1});
    });
  };
  const Batch batch = tests::regression_batch(16, counted_features, float64);
  for (const bool synchronized : {true, false}) {
    const auto model = with({.synchronized = synchronized});
    tests::expect_error<MeshError>(
        [&] {
          static_cast<void>(outcome_of(model, tests::loss_of(model), batch, {2, 1}, 2));
        },
        "[batch_norm 'block/norm'] the step cuts the batch into microbatches");
  }
  const auto model = with({.momentum = 0.5, .per_microbatch = true});
  const Outcome cut = outcome_of(model, tests::loss_of(model), batch, {2, 1}, 2, 1);
  CHECK(outcome_of(model, tests::loss_of(model), batch, {2, 2}, 2, 1).fingerprint == cut.fingerprint);
  // Microbatch m has rows 4m..4m+3 of each shard of 8; half of the mean of both means, as the moving mean was 0.
  tests::check_close(cut.state.at("0/non_trainable/block/norm/moving_mean"), 0.5 * mean(batch.x, Axes{0}), 1e-12);
  const auto variance_of = [&](std::int64_t m) {
    const Array rows =
        concatenate({slice_in_dim(batch.x, 4 * m, 4 * m + 4, 0), slice_in_dim(batch.x, 8 + 4 * m, 12 + 4 * m, 0)}, 0);
    return mean(square(rows - mean(rows, Axes{0}, true)), Axes{0});
  };
  tests::check_close(cut.state.at("0/non_trainable/block/norm/moving_variance"),
                     0.5 + 0.25 * (variance_of(0) + variance_of(1)), 1e-12);
  // A microbatch without rows moves nothing.
  Batch half = batch;
  half.weight = array(std::vector<float>{1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0});
  tests::check_close(outcome_of(model, tests::loss_of(model), half, {2, 1}, 2, 1)
                         .state.at("0/non_trainable/block/norm/moving_variance"),
                     0.5 + 0.5 * variance_of(0), 1e-12);
}

TEST_CASE("a layer of one's own that sums over the whole batch is refused by name") {
  const Model model([](Scope& scope, const Array& x) {
    const Scope layer = scope["centred"];
    const NamedScope named = layer.named();
    const AxisSet axes = scope.batch_axes();
    const Array centre = axes.empty() ? sum(x, Axes{0}, true) : psum(sum(x, Axes{0}, true), axes);
    return dense(scope["head"], x - centre, {.units = 1});
  });
  const Batch batch = tests::regression_batch(16, counted_features, float64);
  tests::expect_error<MeshError>(
      [&] {
        static_cast<void>(outcome_of(model, tests::loss_of(model), batch, {2, 1}, 2));
      },
      "needs what psum (in layer 'centred') makes of all parts along 'microbatch'");
}

TEST_CASE("sums of integers over microbatches are checked once, behind the last") {
  const Model<Array, Array> counting([](const Scope& scope, const Array& x) {
    scope.non_trainable("rows", {.shape = {}, .dtype = int8, .aggregation = Aggregation::sum});
    scope.accumulate("rows", convert(sum(scope.rows().has_value() ? scope.rows() : ones({x.dim(0)})), int8));
    return dense(scope["out"], x, {.units = 1});
  });
  const auto loss = tests::loss_of(counting);
  const Batch batch = tests::regression_batch(32, 5, float32);
  for (const Replicas& replicas : {Replicas{1, 1}, {4, 2}, {8, 1}}) {
    const TrainStep step = data_parallel(loss, optim::sgd(0.1), options_of(replicas, 4));
    TrainState state = tests::fresh_state(step, counting, batch);
    for (int i = 0; i < 3; ++i) state = step(std::move(state), batch).first;
    CHECK(state.non_trainable.at("rows").array().item<std::int8_t>() == 96);
    const std::string text = tests::error_text<CheckError>([&] { static_cast<void>(step(state, batch)); });
    CHECK_MESSAGE(tests::contains(text, "the sum 'rows' is beyond what int8 holds"), text);
    CHECK_MESSAGE(!tests::contains(text, "replica"), text);
  }
}

TEST_CASE("peak memory falls with the microbatches, and the program does not grow") {
  const Model model([](Scope& scope, const Array& x) {
    Array h = x;
    for (int i = 0; i < 6; ++i)
      h = dropout(scope["drop" + std::to_string(i)], tanh(dense(scope["layer" + std::to_string(i)], h, {.units = 32})),
                  0.1);
    return dense(scope["head"], h, {.units = 1});
  });
  const Batch batch = tests::regression_batch(4096, 32, float32);
  const auto program_of = [&](std::int64_t microbatches) {
    const TrainStep step = data_parallel(tests::loss_of(model), optim::sgd(0.1), options_of({2, 2}, microbatches));
    return step.program(tests::fresh_state(step, model, batch), batch);
  };
  const auto peak = [&](const Function& program) {
    const Plan plan = program.plan();
    return static_cast<double>(plan.arena_bytes + 2 * plan.shard_bytes + 2 * plan.scratch_bytes);
  };
  const auto lines = [](const Function& program) {
    const std::string text = program.to_string();
    return std::count(text.begin(), text.end(), '\n');
  };
  const Function two = program_of(2);
  const Function sixteen = program_of(16);
  const double whole = peak(program_of(1));
  MESSAGE("peak bytes: " << whole << ", " << peak(two) << " in 2, " << peak(program_of(4)) << " in 4, " << peak(sixteen)
                         << " in 16");
  CHECK(peak(two) < 0.6 * whole);
  CHECK(peak(program_of(4)) < 0.35 * whole);
  CHECK(peak(sixteen) < 0.15 * whole);
  CHECK(lines(sixteen) == lines(two));
}

TEST_CASE("a step with microbatches has as many reductions as one without") {
  const auto model = dropping();
  const Batch batch = tests::regression_batch(32, counted_features, float32);
  const auto sums = [&](std::int64_t microbatches) {
    const TrainStep step = data_parallel(tests::loss_of(model), optim::sgd(0.1), options_of({4, 2}, microbatches));
    return step.program(tests::fresh_state(step, model, batch), batch).plan().collectives;
  };
  CHECK(sums(4) == sums(1));
}

TEST_CASE("weights of rows are summed by every process for itself, with microbatches too: shards meet once a step") {
  const Model<Array, Array> model([](Scope& s, const Array& x) { return dense(s["head"], x, {.units = 1}); });
  const Batch batch = tests::regression_batch(32, 4, float32);
  const auto regions = [&](std::int64_t microbatches) {
    const TrainStep step = data_parallel(tests::loss_of(model), optim::sgd(0.1),
                                         {.devices = devices("cpu:0"), .shards = 2, .microbatches = microbatches});
    const std::string text = step.program(tests::fresh_state(step, model, batch), batch).plan().text;
    int count = 0;
    for (std::size_t at = text.find(": region"); at != std::string::npos; at = text.find(": region", at + 1)) ++count;
    return count;
  };
  CHECK(regions(1) == 1);
  for (const std::int64_t microbatches : {2, 4, 16}) CHECK(regions(microbatches) == 1);
}

TEST_CASE("check_one_meaning compares microbatches with none") {
  const auto verdict = [](const Model<Array, Array>& model, const Replicas& replicas) -> std::string {
    const Batch batch = tests::regression_batch(8, counted_features, float32);
    const TrainStep step = data_parallel(tests::loss_of(model), optim::sgd(0.1), options_of(replicas, 2));
    try {
      check_one_meaning(step, tests::fresh_state(step, model, batch), batch);
    } catch (const AggregationError& error) {
      return error.what();
    }
    return "";
  };
  CHECK(verdict(dropping(), {1, 1}).empty());
  CHECK(verdict(dropping(), {2, 2}).empty());
  const Model mixing(
      [](Scope& scope, const Array& x) { return dense(scope["head"], x - mean(x, Axes{0}, true), {.units = 1}); });
  CHECK(tests::contains(verdict(mixing, {1, 1}), "with 1 shard of 2 microbatches"));
  CHECK(tests::contains(verdict(mixing, {2, 1}), "with 2 shards of 2 microbatches"));
  const Model alone([](Scope& scope, const Array& x) {
    return dense(scope["head"], batch_norm(scope["norm"], x, {.per_microbatch = true}), {.units = 1});
  });
  CHECK(tests::contains(verdict(alone, {1, 1}), "with 1 shard of 2 microbatches"));
}

TEST_CASE("an evaluation in microbatches has the sums of the whole batch") {
  const auto model = model_of_aggregations();
  const Batch batch = with_holes(tests::regression_batch(13, counted_features, float64));
  const auto [w, state] = model.init(random::key(1), batch.x);
  const auto sums = [&](const Replicas& replicas, std::int64_t microbatches) {
    return to_tree(EvaluateStep(two_term_loss(model), options_of(replicas, microbatches))(w, state, batch));
  };
  for (const Replicas replicas : {Replicas{1, 1}, {2, 2}})
    tests::check_close(sums(replicas, 4), sums({1, 1}, 1), 1e-12);
}
