// A gradient for each example inside a data-parallel loss: what is one row's own, and what all shards share.
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/training.h"

using namespace lockstep;
using tests::expect_error;

namespace {

const std::string in_vmap = "it reduces over batch inside a vmap over rows";

Array prediction(const Tree& w, const Array& x) { return matmul(x, w.at("w").array()); }

/// The norm of each row's gradient, as a metric of a step over so many shards.
double mean_norm(std::int64_t shards, Array (*value_of)(const Weighted&), std::int64_t microbatches = 1) {
  const auto norms_of = [value_of](const Tree& w, const Batch& b) {
    const Tree own = map([&](const Array& leaf) { return pvary(leaf, b.x.type().varying); }, w);
    const auto row_loss = [value_of](const Tree& weights, const Array& x, const Array& y) {
      return value_of(mean_squared_error(prediction(weights, expand_dims(x, 0)), expand_dims(y, 0)));
    };
    const auto of_row = [&](const Array& x, const Array& y) {
      const Tree gradient = grad([&](const Tree& weights) { return row_loss(weights, x, y); })(own);
      return sqrt(sum(square(gradient.at("w").array())));
    };
    return vmap(of_row)(b.x, b.y);
  };
  const StepLoss loss = [norms_of](const Tree& w, const Tree& state, const Batch& b) {
    return WithAux{
        mean_squared_error(prediction(w, b.x), b.y, b.weight), state, {{"norm", weighted(norms_of(w, b), b.weight)}}};
  };
  const TrainStep step = data_parallel(loss, optim::sgd(0.0), {.shards = shards, .microbatches = microbatches});
  const Tree w = Tree::dict({{"w", Tree(random::normal(random::key(1), {3, 1}))}});
  return step(step.init(w, Tree()), tests::regression_batch(8, 3, float32)).second.at("norm").item<double>();
}

}  // namespace

TEST_CASE("a gradient for each example takes local_value, and is the same over any shards and microbatches") {
  const double one = mean_norm(1, local_value);
  CHECK(one > 0.1);
  for (const std::int64_t shards : {2, 4, 8})
    CHECK(mean_norm(shards, local_value) == doctest::Approx(one).epsilon(1e-6));
  CHECK(mean_norm(2, local_value, 2) == doctest::Approx(one).epsilon(1e-6));
}

TEST_CASE("value of one row's loss in a vmap over a shard's rows is refused, on one shard, too") {
  for (const std::int64_t shards : {1, 4}) {
    expect_error<MeshError>([&] { static_cast<void>(mean_norm(shards, value)); }, "[value] " + in_vmap, "local_value");
  }
}

TEST_CASE("other reductions over the batch in a vmap over rows are refused") {
  const auto mapped = [](const auto& of_row) {
    const Mesh mesh({{"batch", 2}}, devices("cpu:0"));
    const auto of_shard = [&](const Array& x) { return sum(vmap(of_row)(x)); };
    return pmap([&](const Array& x) { return psum(of_shard(x), {"batch"}); },
                {.mesh = mesh, .in = {sharded("batch")}, .out = {replicated}})(random::normal(random::key(2), {8, 3}));
  };
  expect_error<MeshError>(
      [&] {
        static_cast<void>(mapped(
            [](const Array& row) { return r2_score(regression_sums(expand_dims(row, 0), expand_dims(row, 0))); }));
      },
      "[r2_score] " + in_vmap);
  expect_error<MeshError>(
      [&] {
        static_cast<void>(
            mapped([](const Array& row) { return local_value(ntxent(expand_dims(row, 0), zeros({1}, int32))); }));
      },
      "[ntxent] " + in_vmap);
}

TEST_CASE("a loss that gathers the rows of all shards is refused with microbatches") {
  const StepLoss loss = [](const Tree& w, const Tree& state, const Batch& b) {
    const Array all = all_gather(prediction(w, b.x), "batch");
    return WithAux{mean_squared_error(prediction(w, b.x) - mean(all), b.y, b.weight), state, {}};
  };
  const auto step_once = [&](std::int64_t microbatches) {
    const TrainStep step = data_parallel(loss, optim::sgd(0.1), {.shards = 2, .microbatches = microbatches});
    const Tree w = Tree::dict({{"w", Tree(ones({3, 1}))}});
    return step(step.init(w, Tree()), tests::regression_batch(8, 3, float32)).second.at("loss").item<double>();
  };
  CHECK(std::isfinite(step_once(1)));
  expect_error<MeshError>([&] { static_cast<void>(step_once(2)); }, "all_gather along \"batch\"", "microbatches = 1");
}

TEST_CASE("value in a vmap over models, or over an axis that is reduced, is what it was") {
  const Array models = random::normal(random::key(3), {4, 3, 1});
  const Batch batch = tests::regression_batch(8, 3, float32);
  const Mesh mesh({{"batch", 2}}, devices("cpu:0"));
  const auto of_models = [](const Array& all, const Array& x, const Array& y) {
    return vmap([&](const Array& w) { return value(mean_squared_error(matmul(x, w), y)); })(all);
  };
  const std::vector<float> losses =
      pmap(of_models, {.mesh = mesh, .in = {replicated, sharded("batch"), sharded("batch")}, .out = {replicated}})(
          models, batch.x, batch.y)
          .to_vector<float>();
  const std::vector<float> expected = of_models(models, batch.x, batch.y).to_vector<float>();
  for (std::size_t i = 0; i < 4; ++i) CHECK(losses[i] == doctest::Approx(expected[i]).epsilon(1e-6));
  const auto named = [](const Array& x) {
    return vmap([](const Array& v) { return value(weighted(v)); }, {.axis_name = "rows"})(x);
  };
  CHECK(named(reshape(arange(6, float32), {3, 2})).to_vector<float>() == std::vector<float>(3, 2.5F));
}
