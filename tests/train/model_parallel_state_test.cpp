#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/training.h"

// State, rows of weight 0, several optimizers and effects in a partitioned step: as on one device.

using namespace lockstep;

namespace {

Mesh square_grid_of_two() { return Mesh({{"data", 2}, {"model", 2}}, devices("cpu:0-1")); }

const LayoutMap hidden_layouts = {{"in/kernel", sharded("model", 1)}, {"out/kernel", sharded("model")}};

Array counting_network(Scope& s, const Array& x) {
  const Array rows = s.rows().has_value() ? s.rows() : ones({x.dim(0)});
  s.non_trainable("seen", {.shape = {}, .dtype = int32, .aggregation = Aggregation::sum});
  s.accumulate("seen", convert(sum(rows), int32));
  s.non_trainable("level", {.shape = {}, .aggregation = Aggregation::mean});
  s.assign("level", sum(where(rows != 0, sum(x, Axes{1}), 0)));
  const Array h = relu(batch_norm(s["norm"], dense(s["in"], x, {.units = 8, .use_bias = false})));
  return dense(s["out"], dropout(s["drop"], h, 0.5), {.units = 1});
}

const Model<Array, Array> stateful_model(counting_network);

void check_same(const TrainStep& cut, const TrainStep& one, const Batch& batch, int steps) {
  TrainState a = tests::fresh_state(one, stateful_model, batch);
  TrainState b = tests::fresh_state(cut, stateful_model, batch);
  for (int i = 0; i < steps; ++i) {
    Logs logs;
    std::tie(a, logs) = one(std::move(a), batch);
    std::tie(b, logs) = cut(std::move(b), batch);
  }
  const std::vector<std::string> paths = to_tree(a).paths();
  const std::vector<Array> x = to_tree(a).leaves();
  const std::vector<Array> y = gather(to_tree(b)).leaves();
  REQUIRE(x.size() == y.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    CAPTURE(paths[i]);
    CHECK(x[i].type() == y[i].type());
    if (is_inexact(x[i].dtype())) {
      CHECK(allclose(y[i], x[i], 1e-4, 1e-6).item<bool>());
    } else {
      CHECK(fingerprint(Tree(y[i])) == fingerprint(Tree(x[i])));
    }
  }
}

}  // namespace

TEST_CASE("counters, means, moving statistics and random state are those of one device") {
  const StepLoss loss = tests::loss_of(stateful_model);
  const TrainStep one = data_parallel(loss, optim::adam(0.01), {.devices = devices("cpu:0"), .shards = 1});
  for (const int zero : {0, 3}) {
    const TrainStep cut = model_parallel(loss, optim::adam(0.01),
                                         {.mesh = square_grid_of_two(), .layouts = hidden_layouts, .zero = zero});
    check_same(cut, one, tests::regression_batch(16, 6, float32), 3);
    check_same(cut, one, tests::regression_batch(13, 6, float32), 3);
  }
}

TEST_CASE("rows of weight 0 take part in nothing, whatever they hold") {
  Batch batch = tests::regression_batch(8, 6, float32);
  const Array bad = reshape(arange(8, int32) == 3, {8, 1});
  batch.x = where(bad, std::numeric_limits<float>::quiet_NaN(), batch.x);
  batch.weight = where(arange(8, int32) == 3, 0.0F, 1.0F);
  const StepLoss loss = tests::loss_of(stateful_model);
  const TrainStep one = data_parallel(loss, optim::adam(0.01), {.devices = devices("cpu:0"), .shards = 1});
  check_same(model_parallel(loss, optim::adam(0.01), {.mesh = square_grid_of_two(), .layouts = hidden_layouts}), one,
             batch, 3);
}

TEST_CASE("several optimizers, clipping and frozen parts") {
  const StepLoss loss = tests::loss_of(stateful_model);
  const auto objectives = [&] {
    return std::vector<Objective>{
        {.name = {},
         .loss = loss,
         .optimizers = {{"in", optim::chain(optim::clip_by_global_norm(0.1), optim::adam(0.01))},
                        {"out", optim::sgd(0.1)}}}};
  };
  const TrainStep one = data_parallel(objectives(), {.devices = devices("cpu:0"), .shards = 1});
  for (const int zero : {0, 2, 3}) {
    check_same(model_parallel(objectives(), {.mesh = square_grid_of_two(), .layouts = hidden_layouts, .zero = zero}),
               one, tests::regression_batch(8, 6, float32), 3);
  }
}

TEST_CASE("remat, branches and loops in a partitioned function") {
  const auto f = [](const Array& w, const Array& x) {
    const auto layer = remat([](const Array& v, const Array& h) { return tanh(matmul(h, v)); });
    Array h = layer(w, x);
    h = cond(
        sum(h) > 0, [](const Array& v) { return v * 2.0; }, [](const Array& v) { return v - 1.0; }, h);
    const auto [i, last] = while_loop([](const auto& c) { return c.first < 3; },
                                      [](const auto& c) { return std::pair(c.first + 1, sin(c.second)); },
                                      std::pair(array<std::int32_t>(0), h));
    return sum(square(h)) + sum(last) * 0.0;
  };
  const Array w = random::normal(random::key(1), {4, 4});
  const Array x = random::normal(random::key(2), {8, 4});
  const auto value = [&](const Array& v) { return f(v, x); };
  const PartitionOptions options{.mesh = square_grid_of_two(), .in = {sharded("model", 1), sharded("data")}};
  CHECK(partitioned(f, options)(w, x).item<float>() == doctest::Approx(value(w).item<float>()).epsilon(1e-5));
}
