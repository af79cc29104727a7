#include <cstdio>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>
#include <lockstep/processes.h>

#include "tests/support/bits_of_one.h"
#include "tests/support/launcher.h"
#include "tests/support/training.h"

// Steps of model_parallel in microbatches, with a loss scale and every stage of zero, and evaluations of what they leave.
namespace lockstep::tests {
namespace {

Array partitioned_network(const Scope& s, const Array& x) {
  const Array h = relu(dense(s["in"], x, {.units = 16}));
  return dense(s["out"], dropout(s["drop"], h, 0.25), {.units = 1});
}

/// A hash of states and sums.
std::string run_partitioned() {
  const Model<Array, Array> model(partitioned_network);
  const Mesh mesh({{"data", 4}, {"model", 2}}, {Device{}});
  const Batch batch = regression_batch(24, 6, float32);
  std::vector<Tree> all;
  for (const int zero : {0, 1, 2, 3}) {
    for (const std::int64_t microbatches : {1, 2}) {
      const ModelParallelOptions options{
          .mesh = mesh,
          .layouts = {{"in/kernel", sharded("model", 1)}, {"out/kernel", sharded("model")}},
          .zero = zero,
          .microbatches = microbatches,
          .loss_scale = LossScale{.initial = 64, .growth_steps = 2}};
      const TrainStep step = model_parallel(loss_of(model), optim::adam(0.01), options);
      TrainState state = fresh_state(step, model, batch);
      for (int i = 0; i < 3; ++i) state = step(std::move(state), batch).first;
      const auto evaluate = model_parallel_evaluation(loss_of(model), options);
      const auto sums = evaluate(state.trainable, state.non_trainable, batch);
      check_replicas("the sums", to_tree(sums));
      CHECK(sums.at("loss").weight.item<float>() == 24);
      all.push_back(Tree::list({gather(to_tree(state)), to_tree(sums)}));
    }
  }
  return fingerprint(Tree::list(all));
}

/// A batch of which one row makes a NaN is skipped by all processes, whose states lie cut.
std::string run_with_guard() {
  const Mesh mesh({{"data", 4}, {"model", 2}}, {Device{}});
  const auto loss = [](const Tree& w, const Tree& state, const Batch& b) {
    return WithAux{weighted(squeeze(log(matmul(b.x, w.at("w").array())), {1}), b.weight), state, {}};
  };
  ModelParallelOptions options{.mesh = mesh, .layouts = {{"w", sharded("model")}}, .zero = 3};
  options.debug.nans = true;
  const TrainStep step = model_parallel(loss, optim::sgd(0.125), options);
  TrainState state = step.init(Tree::dict({{"w", Tree(ones({8, 1}))}}), Tree());
  int skipped = 0;
  for (int i = 0; i < 6; ++i) {
    Batch batch{ones({8, 8}), zeros({8}), ones({8})};
    if (i % 3 == 1) batch.x = where(reshape(arange(8, int32) == 5, {8, 1}), -1.0F, batch.x);
    try {
      state = step(state, batch).first;
    } catch (const NonFiniteError& error) {
      CHECK(std::string(error.what()).find("log (forward") != std::string::npos);
      ++skipped;
    }
  }
  CHECK(skipped == 2);
  return fingerprint(gather(state.trainable));
}

}  // namespace

TEST_CASE("what each launched process trains in cut microbatches" * doctest::skip()) {
  const std::string print = run_partitioned() + run_with_guard();
  say_bits(print);
}

TEST_CASE("microbatches, loss scales and evaluations of cut states have one set of bits in 1, 2 and 4 processes") {
  if (!can_launch()) return skip(no_launcher());
  const std::string expected = run_partitioned() + run_with_guard();
  check_bits_of_one("what each launched process trains in cut microbatches", expected);
}

}  // namespace lockstep::tests
