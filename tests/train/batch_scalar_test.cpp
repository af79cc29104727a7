#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/replicas.h"
#include "tests/support/training.h"

// A leaf of a batch of rank 0 is the same for all rows: every shard and microbatch has it as it is.

using namespace lockstep;
using tests::expect_error;
using tests::Replicas;

namespace {

struct Warm {
  Array temperature, x, y, weight;
};
LOCKSTEP_TREE(Warm, temperature, x, y, weight);

Array warm_network(const Scope& s, const Array& x) {
  return dense(s["out"], dropout(s["drop"], tanh(dense(s["in"], x, {.units = 8})), 0.25), {.units = 3});
}
const Model<Array, Array> warm_model(warm_network);

WithAux warm_loss(const Tree& w, const Tree& state, const Warm& b) {
  auto [y, next] = warm_model.stateless_call(w, state, b.x, true, {.rows = b.weight});
  return {softmax_cross_entropy(y * convert(b.temperature, y.dtype()), b.y, b.weight),
          next,
          {{"accuracy", accuracy(y, b.y, b.weight)}}};
}

Warm warm_batch(std::int64_t rows, const Array& temperature) {
  const Array key = random::key(7);
  return {temperature, random::normal(random::fold_in(key, 0), {rows, 5}),
          random::randint(random::fold_in(key, 1), {rows}, 0, 3), ones({rows})};
}

TrainState warm_start(const TrainStep& step) {
  auto [w, state] = warm_model.init(random::key(1), zeros({1, 5}));
  return step.init(std::move(w), std::move(state));
}

/// The state after three steps.
Tree trained_warm(const TrainStep& step, const Warm& batch) {
  TrainState state = warm_start(step);
  for (int i = 0; i < 3; ++i) state = step(std::move(state), batch).first;
  CHECK(step.traces() == 1);
  return gather(state.trainable);
}

void check_trees_near(const Tree& a, const Tree& b) {
  const std::vector<Array> x = a.leaves(), y = b.leaves();
  REQUIRE(x.size() == y.size());
  for (std::size_t i = 0; i < x.size(); ++i) CHECK(allclose(x[i], y[i], 1e-5, 1e-6).item<bool>());
}

std::vector<DataParallelOptions> warm_options() {
  std::vector<DataParallelOptions> all;
  for (const Replicas& replicas : {Replicas{1, 1}, {2, 1}, {4, 2}, {8, 2}}) {
    for (const std::int64_t microbatches : {1, 2}) {
      all.push_back(tests::parallel(replicas));
      all.back().microbatches = microbatches;
    }
  }
  return all;
}

const Mesh data_and_model({{"data", 2}, {"model", 2}}, devices("cpu:0-1"));
const LayoutMap first_layer_layouts = {{"in/kernel", sharded("model", 1)}, {"in/bias", sharded("model")}};

}  // namespace

TEST_CASE("a temperature beside the rows means the same on any shards, microbatches and layouts, padded or not") {
  for (const std::int64_t rows : {16, 13}) {
    for (const Array& temperature : {array(0.5F), convert(array(0.5F), bfloat16), array(2.0F)}) {
      const Warm batch = warm_batch(rows, temperature);
      const auto step_of = [&](const DataParallelOptions& options) {
        return data_parallel(warm_loss, optim::adam(0.01), options);
      };
      const Tree one = trained_warm(step_of(tests::parallel({1, 1})), batch);
      for (const DataParallelOptions& options : warm_options())
        check_trees_near(trained_warm(step_of(options), batch), one);
      for (const std::int64_t microbatches : {1, 2}) {
        check_trees_near(
            trained_warm(
                model_parallel(
                    warm_loss, optim::adam(0.01),
                    {.mesh = data_and_model, .layouts = first_layer_layouts, .zero = 2, .microbatches = microbatches}),
                batch),
            one);
      }
      Warm other = batch;
      other.temperature = batch.temperature * 3;
      CHECK(fingerprint(trained_warm(step_of(tests::parallel({2, 1})), other)) !=
            fingerprint(trained_warm(step_of(tests::parallel({2, 1})), batch)));
    }
  }
}

TEST_CASE("a scalar is no row: a row of weight 0, whatever it holds, does not touch it") {
  Warm bad = warm_batch(16, array(0.5F)), good = bad;
  const Array masked = arange(16, int32) == 3;
  good.weight = bad.weight = where(masked, 0.0F, 1.0F);
  bad.x = where(reshape(masked, {16, 1}), std::numeric_limits<float>::quiet_NaN(), bad.x);
  for (const DataParallelOptions& options : warm_options()) {
    const TrainStep step = data_parallel(warm_loss, optim::sgd(0.1), options);
    CHECK(fingerprint(trained_warm(step, bad)) == fingerprint(trained_warm(step, good)));
  }
}

TEST_CASE("evaluation, the check for one meaning and lint take such batches") {
  const Warm batch = warm_batch(16, array(0.5F));
  std::map<std::string, Weighted> first;
  for (const DataParallelOptions& options : warm_options()) {
    const TrainStep step = data_parallel(warm_loss, optim::sgd(0.1), options);
    const TrainState state = warm_start(step);
    check_one_meaning(step, state, batch);
    for (const std::string& finding : lint(step, state, batch)) CHECK_MESSAGE(finding.empty(), finding);
    const std::map<std::string, Weighted> sums =
        EvaluateStep(warm_loss, options)(state.trainable, state.non_trainable, batch);
    if (first.empty()) first = sums;
    for (const auto& [name, sum] : sums) {
      CHECK(allclose(sum.sum, first.at(name).sum, 1e-5, 1e-6).item<bool>());
      CHECK(sum.weight.item<float>() == 16);
    }
  }
}

TEST_CASE("a loader gives the scalar with every batch, and fit trains on them") {
  data::TreeLoader loader(warm_batch(20, array(0.5F)), {.batch = 8});
  for (int i = 0; i < 6; ++i) {
    const auto batch = loader.next<Warm>();
    CHECK(batch.temperature.item<float>() == 0.5F);
    CHECK(batch.temperature.ndim() == 0);
    CHECK(batch.x.dim(0) == 8);
  }
  data::TreeLoader again(warm_batch(20, array(0.5F)), {.batch = 8});
  const TrainStep step = data_parallel(warm_loss, optim::sgd(0.1), tests::parallel({4, 2}));
  const TrainState end = fit(step, warm_start(step), again, {.steps = 5}, {});
  CHECK(end.step.item<std::int64_t>() == 5);
}

TEST_CASE("what is no batch is refused: scalars alone, weights of rank 0, other numbers of rows") {
  const TrainStep step = data_parallel(warm_loss, optim::sgd(0.1), tests::parallel({2, 1}));
  const TrainState state = warm_start(step);
  Warm batch = warm_batch(16, array(0.5F));
  batch.weight = array(1.0F);
  expect_error<DataError>([&] { static_cast<void>(step(state, batch)); }, "weight f32[]", "weights are of rank 1");
  batch.weight = ones({16});
  batch.y = zeros({15}, int32);
  expect_error<DataError>([&] { static_cast<void>(step(state, batch)); }, "y i32[15]", "or rank 0 where one value");
  const std::map<std::string, Array> scalars = {{"a", array(1.0F)}, {"b", array(2.0F)}};
  expect_error<DataError>([&] { static_cast<void>(step(state, scalars)); }, "a is f32[]", "the same number of rows");
  expect_error<DataError>([&] { data::TreeLoader(scalars, {.batch = 1}); }, "no leaf with rows");
  expect_error<ShapeError>(
      [&] {
        sequential_map([](const auto& v) { return v; }, scalars, {"part", 2});
      },
      "no leaf of the argument has rows");
}

TEST_CASE("rows that come stacked by part are those that are cut") {
  const Array x = random::normal(random::key(3), {6, 4});
  const auto sums = [](const std::vector<Array>& v) { return psum(sum(square(v[0]) * v[1], Axes{0}), {"part"}); };
  const auto run = [&](const Array& rows, bool stacked) {
    return sequential_map(sums, std::vector<Array>{rows, array(2.0F)}, {"part", 3, true, stacked});
  };
  CHECK(fingerprint(Tree(run(x, false))) == fingerprint(Tree(run(reshape(x, {3, 2, 4}), true))));
  expect_error<ShapeError>([&] { run(x, true); }, "f32[6,4]", "[3, rows, ...]");
}
