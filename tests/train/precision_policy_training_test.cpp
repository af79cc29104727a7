#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/replicas.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/training.h"

// Models of 16 bits trained: over shards, devices, microbatches, layouts, with rows that do not count, a loss scale, and
// without masters.

using namespace lockstep;
using tests::fresh_state;
using tests::loss_of;
using tests::Replicas;

namespace {

Model<Array, Array> policy_model(const PrecisionPolicy& policy) {
  return with_precision(Model<Array, Array>([](Scope& s, const Array& x) {
                          const Array h = relu(dense(s["in"], x, {.units = 16}));
                          return dense(s["head"], dropout(s["drop"], layer_norm(s["norm"], h), 0.25), {.units = 1});
                        }),
                        policy);
}

Batch policy_batch() { return tests::regression_batch(16, 6, float32); }

struct Result {
  std::vector<double> losses;
  std::string print;
  TrainState state;
};

Result trained_result(const TrainStep& step, const Model<Array, Array>& model, int steps = 6) {
  auto run = tests::train(step, fresh_state(step, model, policy_batch()), steps, [](int) { return policy_batch(); });
  return {run.losses, fingerprint(gather(to_tree(run.state))), run.state};
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]) / (1 + std::abs(b[i])));
  return largest;
}

}  // namespace

TEST_CASE("16 bits over shards, devices and microbatches: float32 masters, the losses of one device") {
  for (const char* policy : {"mixed_bfloat16", "mixed_float16"}) {
    const auto model = policy_model(policy), wide = policy_model("float32");
    const Result expected =
        trained_result(data_parallel(loss_of(wide), optim::adam(0.01), tests::parallel({1, 1})), wide);
    for (const std::int64_t shards : {1, 2, 4, 8}) {
      for (const std::int64_t microbatches : {1, 2}) {
        CAPTURE(shards);
        CAPTURE(microbatches);
        std::string print;
        for (const int devices : {1, 2}) {
          if (devices > shards) continue;
          DataParallelOptions options = tests::parallel({shards, devices});
          options.microbatches = microbatches;
          options.loss_scale = LossScale{.initial = 64};  // None of these steps is skipped.
          const Result run = trained_result(data_parallel(loss_of(model), optim::adam(0.01), options), model);
          CHECK(largest_difference(run.losses, expected.losses) < 0.05);
          CHECK(run.state.trainable.at("in/kernel").array().dtype() == float32);
          if (!print.empty()) CHECK(run.print == print);
          print = run.print;
        }
      }
    }
  }
}

TEST_CASE("rows that do not count may hold NaN") {
  const auto model = policy_model("mixed_bfloat16");
  const TrainStep step = data_parallel(loss_of(model), optim::adam(0.01), tests::parallel({4, 2}));
  const TrainState state = fresh_state(step, model, policy_batch());
  const auto after = [&](float filler) {
    Batch b = policy_batch();
    b.weight = convert(arange(16) < 10, float32);
    b.x = where(expand_dims(b.weight == 0, 1), filler, b.x);
    return fingerprint(to_tree(step(state, b).first));
  };
  CHECK(after(0.0F) == after(std::nanf("")));
}

TEST_CASE("check_one_meaning runs a model of 16 bits in float64") {
  const auto model = policy_model("mixed_bfloat16");
  const TrainStep step = data_parallel(loss_of(model), optim::adam(0.01), tests::parallel({4, 1}));
  check_one_meaning(step, fresh_state(step, model, policy_batch()), policy_batch());
}

TEST_CASE("a run of 16 bits resumed goes on with the bits it would have had") {
  const auto model = policy_model("mixed_float16");
  DataParallelOptions options = tests::parallel({2, 2});
  options.loss_scale = LossScale{.initial = 256, .growth_steps = 2};
  const auto optimizer = optim::moments_dtype(optim::adamw(0.01), bfloat16, 11);
  const TrainStep step = data_parallel(loss_of(model), optimizer, options);
  TrainState whole = fresh_state(step, model, policy_batch()), parted = whole;
  for (int i = 0; i < 6; ++i) {
    whole = step(std::move(whole), policy_batch()).first;
    parted = step(std::move(parted), policy_batch()).first;
    const tests::TemporaryFolder folder;
    checkpoint::save(folder.path() / "state", to_tree(parted), {});
    parted = from_tree<TrainState>(checkpoint::restore(folder.path() / "state", to_tree(parted)));
  }
  CHECK(fingerprint(to_tree(whole)) == fingerprint(to_tree(parted)));
}

TEST_CASE("gradients are unscaled before they are clipped") {
  const auto model = policy_model("mixed_float16");
  const auto optimizer = optim::chain(optim::clip_by_global_norm(0.1), optim::sgd(0.1));
  const auto moved = [&](std::optional<LossScale> scale) {
    DataParallelOptions options = tests::parallel({2, 1});
    options.loss_scale = scale;
    const TrainStep step = data_parallel(loss_of(model), optimizer, options);
    const TrainState state = fresh_state(step, model, policy_batch());
    const Tree after = step(state, policy_batch()).first.trainable;
    return optim::global_norm(map([](const Array& a, const Array& b) { return a - b; }, after, state.trainable))
        .item<double>();
  };
  CHECK(moved(LossScale{.initial = 1024}) == doctest::Approx(0.01).epsilon(1e-3));
  CHECK(moved({}) == doctest::Approx(0.01).epsilon(1e-3));
}

TEST_CASE("a gradient beyond float16 skips the step on all replicas, and the next scale fits") {
  const auto model = policy_model("mixed_float16");
  DataParallelOptions options = tests::parallel({4, 2});
  options.loss_scale = LossScale{.initial = 0x1p40};
  const TrainStep step = data_parallel(loss_of(model), optim::sgd(0.01), options);
  TrainState state = fresh_state(step, model, policy_batch());
  const std::string start = fingerprint(state.trainable);
  int skipped = 0;
  for (int i = 0; i < 40; ++i) {
    auto [next, logs] = step(std::move(state), policy_batch());
    state = std::move(next);
    if (logs.at("gradients_finite").item<float>() == 1) break;
    ++skipped;
    CHECK(fingerprint(state.trainable) == start);
  }
  CHECK(skipped > 10);
  CHECK(skipped < 40);
  CHECK(fingerprint(state.trainable) != start);
}

TEST_CASE("layouts: one fingerprint with blocks of contractions, close losses without") {
  const auto model = policy_model(PrecisionPolicy("mixed_bfloat16").with_rules({{"head/.*", "float32"}}));
  const Result expected =
      trained_result(data_parallel(loss_of(model), optim::adam(0.01), tests::parallel({1, 1})), model);
  std::string print;
  for (const auto& [data, parts] : {std::pair(1, 1), std::pair(2, 2), std::pair(4, 2)}) {
    for (const std::int64_t blocks : {0, 8}) {
      CAPTURE(data);
      CAPTURE(blocks);
      ModelParallelOptions options{
          .mesh = Mesh({{"data", data}, {"model", parts}}, devices(data > 1 ? "cpu:0-1" : "cpu:0")),
          .layouts = {{"in/kernel", sharded("model", 1)}, {"head/kernel", sharded("model", 0)}},
          .zero = data > 1 ? 2 : 0};
      options.contraction_blocks = blocks;
      const Result run = trained_result(model_parallel(loss_of(model), optim::adam(0.01), options), model);
      CHECK(largest_difference(run.losses, expected.losses) < 0.05);
      if (blocks == 0) continue;
      if (!print.empty()) CHECK(run.print == print);
      print = run.print;
    }
  }
}

TEST_CASE("bfloat16 without masters: rounding at random learns where rounding to the nearest stands still") {
  // Each update is a thousandth of a weight: nearest rounds it away.
  const auto loss = [](const Tree& w, const Tree& state, const Batch& b) {
    return WithAux{weighted(convert(sum(w.at("w").array()), float32) * b.x, b.weight), state, {}};
  };
  const Batch ones_of{ones({8}), zeros({8}), ones({8})};
  const auto mean_after = [&](const optim::GradientTransformation& optimizer, const Replicas& replicas) {
    const TrainStep step = data_parallel(loss, optimizer, tests::parallel(replicas));
    TrainState state = step.init(Tree::dict({{"w", Tree(full({4096}, 1.5, bfloat16))}}), Tree());
    for (int i = 0; i < 100; ++i) state = step(std::move(state), ones_of).first;
    return std::pair(mean(convert(state.trainable.at("w").array(), float64)).item<double>(),
                     fingerprint(to_tree(state)));
  };
  CHECK(mean_after(optim::sgd(1e-3), {1, 1}).first == 1.5);
  const auto rounded = optim::stochastic_rounding(optim::sgd(1e-3), 7);
  const auto [value, print] = mean_after(rounded, {1, 1});
  CHECK(value == doctest::Approx(1.4).epsilon(0.002));
  // The draws are of seed, step and element: the same on any number of shards and devices.
  for (const Replicas& replicas : {Replicas{2, 1}, {2, 2}, {4, 2}, {8, 2}}) {
    CHECK(mean_after(rounded, replicas).second == print);
  }
}

TEST_CASE("rounding at random over layouts: draws are those of the whole parameter") {
  const auto model = policy_model("bfloat16");
  const auto optimizer = optim::stochastic_rounding(optim::moments_dtype(optim::adam(0.01), bfloat16, 5), 3);
  std::string print;
  for (const auto& [data, parts] : {std::pair(1, 1), std::pair(2, 2), std::pair(4, 1)}) {
    CAPTURE(data);
    ModelParallelOptions options{
        .mesh = Mesh({{"data", data}, {"model", parts}}, devices(data > 1 ? "cpu:0-1" : "cpu:0")),
        .layouts = {{"in/kernel", sharded("model", 1)}},
        .zero = data > 1 ? 1 : 0,
        .contraction_blocks = 8};
    const TrainStep step = model_parallel(loss_of(model), optimizer, options);
    const Result run = trained_result(step, model, 4);
    CHECK(run.state.trainable.at("in/kernel").array().dtype() == bfloat16);
    if (!print.empty()) CHECK(run.print == print);
    print = run.print;
  }
}
