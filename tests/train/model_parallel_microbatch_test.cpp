#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/training.h"
#include "tests/train/megatron.h"

// Microbatches, loss scaling and evaluation of a partitioned step, with every stage of zero.

using namespace lockstep;
using tests::expect_error;
using tests::megatron;

namespace {

Mesh grid_of_sizes(std::int64_t data, std::int64_t model) {
  return Mesh({{"data", data}, {"model", model}}, devices(data * model > 1 ? "cpu:0-1" : "cpu:0"));
}

Model<Array, Array> counting_model(std::int64_t units, std::int64_t outputs) {
  return Model<Array, Array>([units, outputs](const Scope& s, const Array& x) {
    const Array rows = s.rows().has_value() ? s.rows() : ones({x.dim(0)});
    s.non_trainable("seen", {.shape = {}, .dtype = int32, .aggregation = Aggregation::sum});
    s.accumulate("seen", convert(sum(rows), int32));
    const Array h = relu(dense(s["in"], x, {.units = units}));
    return dense(s["out"], dropout(s["drop"], h, 0.25), {.units = outputs});
  });
}
const Model<Array, Array> eight_units = counting_model(8, 1);

ModelParallelOptions cut(const Mesh& mesh, int zero, std::int64_t microbatches) {
  return {.mesh = mesh, .layouts = megatron, .zero = zero, .microbatches = microbatches};
}

TrainState trained_state(const TrainStep& step, const Batch& batch, int steps = 3,
                         const Model<Array, Array>& of = eight_units) {
  TrainState state = tests::fresh_state(step, of, batch);
  for (int i = 0; i < steps; ++i) state = step(std::move(state), batch).first;
  return state;
}

void check_leaves_near(const Tree& a, const Tree& b) {
  const std::vector<std::string> paths = a.paths();
  const std::vector<Array> x = a.leaves(), y = b.leaves();
  REQUIRE(x.size() == y.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    CAPTURE(paths[i]);
    if (is_inexact(x[i].dtype())) {
      CHECK(allclose(x[i], y[i], 1e-4, 1e-6).item<bool>());
    } else {
      CHECK(fingerprint(Tree(x[i])) == fingerprint(Tree(y[i])));
    }
  }
}

Batch with_masked_nan(Batch batch) {
  const Array masked = arange(batch.x.dim(0), int32) == 3;
  batch.x = where(reshape(masked, {-1, 1}), std::numeric_limits<float>::quiet_NaN(), batch.x);
  batch.weight = where(masked, 0.0F, 1.0F);
  return batch;
}

}  // namespace

TEST_CASE("microbatches mean one step: dropout, counters, padding and masked rows are those of one device") {
  const StepLoss loss = tests::loss_of(eight_units);
  const TrainStep one = data_parallel(loss, optim::adam(0.01), {.devices = devices("cpu:0"), .shards = 1});
  for (const Batch& batch : {tests::regression_batch(16, 6, float32), tests::regression_batch(13, 6, float32),
                             with_masked_nan(tests::regression_batch(16, 6, float32))}) {
    const TrainState expected = trained_state(one, batch);
    for (const int zero : {0, 1, 2, 3}) {
      for (const std::int64_t microbatches : {2, 4}) {
        for (const Mesh& mesh : {grid_of_sizes(2, 2), grid_of_sizes(1, 1), grid_of_sizes(4, 2)}) {
          CAPTURE(zero);
          CAPTURE(microbatches);
          const TrainStep step = model_parallel(loss, optim::adam(0.01), cut(mesh, zero, microbatches));
          check_leaves_near(gather(to_tree(trained_state(step, batch))), to_tree(expected));
          CHECK(step.traces() == 1);
        }
      }
    }
  }
}

TEST_CASE("microbatches move no rows, and gradients once, behind the loop") {
  const Batch batch = tests::regression_batch(16, 6, float32);
  const auto plan_of = [&](const Mesh& mesh, int zero, std::int64_t microbatches) {
    const TrainStep step =
        model_parallel(tests::loss_of(eight_units), optim::adam(0.01), cut(mesh, zero, microbatches));
    return layout_plan(step, tests::fresh_state(step, eight_units, batch), batch);
  };
  for (const int zero : {0, 1, 2, 3}) {
    CAPTURE(zero);
    const LayoutPlan whole = plan_of(grid_of_sizes(4, 1), zero, 1), parts = plan_of(grid_of_sizes(4, 1), zero, 4);
    CAPTURE(parts.text);
    CHECK(parts.count("all_to_all") == 0);
    CHECK(parts.count("psum_scatter") == whole.count("psum_scatter"));
    CHECK(parts.count("all_gather_invariant") == whole.count("all_gather_invariant"));
    for (const InsertedCollective& c : parts.collectives) {
      if (c.times > 1) CHECK_MESSAGE(c.bytes <= 8, c.op << " for " << c.read_by);  // sums of scalars
    }
  }
}

TEST_CASE("with contraction_blocks one fingerprint holds for every layout and stage of zero, in microbatches too") {
  const Model<Array, Array> wide = counting_model(32, 4);
  Batch batch = tests::regression_batch(32, 24, float32);
  batch.y = random::randint(random::key(2), {32}, 0, 4);
  const auto fingerprint_of = [&](const Mesh& mesh, int zero) {
    ModelParallelOptions options = cut(mesh, zero, 2);
    options.contraction_blocks = 8;
    options.loss_scale = LossScale{.initial = 1024};
    return fingerprint(
        to_tree(trained_state(model_parallel(tests::loss_of(wide), optim::adam(0.01), options), batch, 3, wide)));
  };
  const std::string expected = fingerprint_of(grid_of_sizes(1, 1), 0);
  for (const auto& [data, of_model] : {std::pair(8, 1), {4, 2}, {1, 8}}) {
    for (const int zero : {0, 2, 3}) {
      CAPTURE(data);
      CAPTURE(zero);
      CHECK(fingerprint_of(grid_of_sizes(data, of_model), zero) == expected);
    }
  }
}

TEST_CASE("loss scaling: a step of finite gradients is the plain one, another leaves every variable as it lies") {
  const StepLoss loss = tests::loss_of(eight_units);
  const Batch batch = tests::regression_batch(16, 6, float32);
  Batch infinite = batch;
  infinite.y = where(arange(16, int32) == 3, std::numeric_limits<float>::infinity(), 0.0F);
  infinite.y = reshape(infinite.y, {16, 1});
  for (const int zero : {0, 1, 2, 3}) {
    for (const std::int64_t microbatches : {1, 2}) {
      CAPTURE(zero);
      CAPTURE(microbatches);
      ModelParallelOptions options = cut(grid_of_sizes(2, 2), zero, microbatches);
      const TrainState plain = trained_state(model_parallel(loss, optim::adam(0.01), options), batch);
      options.loss_scale = LossScale{.initial = 1024, .growth_steps = 2};
      const TrainStep step = model_parallel(loss, optim::adam(0.01), options);
      TrainState state = trained_state(step, batch);
      check_leaves_near(gather(state.trainable), gather(plain.trainable));
      CHECK(state.loss_scale.at("scale").array().item<float>() == 2048);
      const auto bits = [&] {
        return fingerprint(state.trainable) + fingerprint(state.non_trainable) + fingerprint(state.optimizer);
      };
      const std::string before = bits();
      auto [next, logs] = step(std::move(state), infinite);
      state = std::move(next);
      CHECK(bits() == before);
      CHECK(is_cut(state.trainable.at("in/kernel").array()));
      CHECK(logs.at("gradients_finite").item<float>() == 0);
      CHECK(state.loss_scale.at("scale").array().item<float>() == 1024);
      CHECK(state.step.item<std::int64_t>() == 4);
      CHECK(step.traces() == 1);
    }
  }
}

TEST_CASE("a NaN in a state that lies cut is traced to the op that made it") {
  const auto loss = [](const Tree& w, const Tree& state, const Batch& b) {
    const Array y = matmul(b.x, w.at("in").array());
    return WithAux{weighted(squeeze(log(matmul(y, w.at("out").array())), {1}), b.weight), state, {}};
  };
  for (const std::int64_t microbatches : {1, 2}) {
    ModelParallelOptions options{.mesh = grid_of_sizes(2, 2),
                                 .layouts = {{"in", sharded("model", 1)}, {"out", sharded("model")}},
                                 .zero = 3,
                                 .microbatches = microbatches};
    options.debug.nans = true;
    const TrainStep step = model_parallel(loss, optim::sgd(0.125), options);
    const TrainState state = step.init(Tree::dict({{"in", Tree(ones({4, 8}))}, {"out", Tree(ones({8, 1}))}}), Tree());
    const Batch good{ones({8, 4}), zeros({8}), ones({8})};
    const TrainState next = step(state, good).first;
    CHECK(is_cut(next.trainable.at("in").array()));
    Batch bad = good;
    bad.x = where(reshape(arange(8, int32) == 5, {8, 1}), -1.0F, good.x);
    expect_error<NonFiniteError>([&] { static_cast<void>(step(next, bad)); }, "log (forward", "NaN");
    static_cast<void>(step(next, good));
  }
}

TEST_CASE("a run that is saved and goes on has the bits of one that does not stop") {
  const Batch batch = tests::regression_batch(16, 6, float32);
  ModelParallelOptions options = cut(grid_of_sizes(2, 2), 3, 2);
  options.loss_scale = LossScale{.initial = 4, .growth_steps = 1};
  const TrainStep step = model_parallel(tests::loss_of(eight_units), optim::adam(0.01), options);
  TrainState state = trained_state(step, batch, 2);
  const tests::TemporaryFolder folder;
  checkpoint::save(folder.path() / "state", to_tree(state), {});
  TrainState again = from_tree<TrainState>(
      checkpoint::restore(folder.path() / "state", to_tree(tests::fresh_state(step, eight_units, batch))));
  for (int i = 0; i < 2; ++i) again = step(std::move(again), batch).first;
  CHECK(fingerprint(to_tree(again)) == fingerprint(to_tree(trained_state(step, batch, 4))));
}

TEST_CASE("evaluation of a state that lies cut gives the sums over all rows") {
  const auto loss = [](const Tree& w, const Tree& state, const Batch& b) {
    auto [y, next] = eight_units.stateless_call(w, state, b.x, false, {.rows = b.weight});
    return WithAux{
        mean_squared_error(y, b.y, b.weight), state, {{"error", weighted(sum(abs(y - b.y), Axes{1}), b.weight)}}};
  };
  for (const Batch& batch : {tests::regression_batch(16, 6, float32), tests::regression_batch(13, 6, float32),
                             with_masked_nan(tests::regression_batch(16, 6, float32))}) {
    const std::int64_t counted = sum(convert(batch.weight, int32)).item<std::int32_t>();
    for (const int zero : {0, 3}) {
      for (const std::int64_t microbatches : {1, 2}) {
        const ModelParallelOptions options = cut(grid_of_sizes(2, 2), zero, microbatches);
        const TrainStep step = model_parallel(tests::loss_of(eight_units), optim::adam(0.01), options);
        const TrainState state = trained_state(step, batch);
        REQUIRE(is_cut(state.trainable.at("in/kernel").array()));
        const Tree whole = gather(state.trainable);
        const auto expected =
            EvaluateStep(loss, {.devices = devices("cpu:0"), .shards = 1})(whole, gather(state.non_trainable), batch);
        const EvaluateStep evaluate = model_parallel_evaluation(loss, options);
        for (const Tree& weights : {state.trainable, whole}) {
          const auto sums = evaluate(weights, state.non_trainable, batch);
          REQUIRE(sums.size() == 2);
          for (const auto& [name, value] : sums) {
            CAPTURE(name);
            CHECK(allclose(value.sum, expected.at(name).sum, 1e-5, 1e-6).item<bool>());
            CHECK(value.weight.item<float>() == static_cast<float>(counted));
          }
        }
        expect_error<MeshError>(
            [&] {
              static_cast<void>(EvaluateStep(loss, {.devices = devices("cpu:0"), .shards = 1})(
                  state.trainable, state.non_trainable, batch));
            },
            "lies cut");
      }
    }
  }
}

TEST_CASE("narrow dtypes, evaluated and stepped in microbatches") {
  for (const DType dtype : {bfloat16, float16, float64}) {
    CAPTURE(name(dtype));
    const Batch batch = tests::regression_batch(16, 6, dtype);
    const auto step_of = [&](std::int64_t microbatches) {
      return model_parallel(tests::loss_of(eight_units), optim::sgd(0.01), cut(grid_of_sizes(2, 2), 2, microbatches));
    };
    const TrainState one = trained_state(step_of(1), batch, 1), two = trained_state(step_of(2), batch, 1);
    const std::vector<Array> x = gather(one.trainable).leaves(), y = gather(two.trainable).leaves();
    for (std::size_t i = 0; i < x.size(); ++i) {
      CHECK(x[i].dtype() == y[i].dtype());
      CHECK(allclose(convert(x[i], float64), convert(y[i], float64), 2e-2, 2e-2).item<bool>());
    }
    const auto sums = model_parallel_evaluation(tests::loss_of(eight_units), cut(grid_of_sizes(2, 2), 2, 2))(
        one.trainable, one.non_trainable, batch);
    CHECK(sums.at("loss").weight.item<double>() == 16);
  }
}

TEST_CASE("what parts would mean otherwise is found, and options out of range are refused") {
  const Model<Array, Array> mixing(
      [](const Scope& s, const Array& x) { return dense(s["out"], x - mean(x, Axes{0}, true), {.units = 1}); });
  const Batch batch = tests::regression_batch(16, 6, float32);
  const TrainStep step =
      model_parallel(tests::loss_of(mixing), optim::sgd(0.1), {.mesh = grid_of_sizes(2, 2), .microbatches = 2});
  const TrainState state = tests::fresh_state(step, mixing, batch);
  expect_error<AggregationError>([&] { check_one_meaning(step, state, batch); }, "with 1 shard of 2 microbatches");
  const TrainStep right = model_parallel(tests::loss_of(eight_units), optim::sgd(0.1), cut(grid_of_sizes(2, 2), 3, 2));
  check_one_meaning(right, trained_state(right, batch), batch);
  const auto refused = [&](const ModelParallelOptions& options) {
    static_cast<void>(model_parallel(tests::loss_of(eight_units), optim::sgd(0.1), options));
  };
  expect_error<ValueError>([&] { refused({.mesh = grid_of_sizes(2, 2), .microbatches = 0}); }, "microbatches is 0");
  expect_error<ValueError>([&] { refused({.mesh = grid_of_sizes(2, 2), .loss_scale = LossScale{.initial = -1}}); },
                           "initial is -1");
}
