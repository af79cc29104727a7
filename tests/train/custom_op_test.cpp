// An op of one's own in a training step: the right values are those of the same function in ops of the library.
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/custom_op.h>
#include <lockstep/lockstep.h>

#include "tests/support/launcher.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/training.h"

using namespace lockstep;

namespace {

void softsign_kernel(const KernelCall& call) {
  const auto x = call.operand<float>(0);
  const auto y = call.result<float>(0);
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] / (1 + std::abs(x[i]));
}

const CustomOp& own_softsign() {
  static const CustomOp op(
      {.name = "own_softsign",
       .infer = [](std::span<const ArrayType> x) { return std::vector<ArrayType>{x[0]}; },
       .kernel = softsign_kernel,
       .vmap_method = VmapMethod::broadcast_all,
       .vjp = [](std::span<const Array> x, std::span<const Array>,
                 std::span<const Array> dy) { return std::vector<Array>{dy[0] / square(1 + abs(x[0]))}; }});
  return op;
}

/// Remat around it, dropout behind it.
Model<Array, Array> softsign_model(bool own) {
  return Model<Array, Array>([own](Scope& s, const Array& x) {
    const auto layer = remat([&](const Array& v) {
      const Array h = dense(s["in"], v, {.units = 8});
      return own ? own_softsign()(h) : h / (1 + abs(h));
    });
    return dense(s["out"], dropout(s["drop"], layer(x), 0.25), {.units = 1});
  });
}

Tree after_steps(bool own, std::int64_t shards, int devices_used, std::int64_t microbatches) {
  const auto model = softsign_model(own);
  const Batch batch = tests::regression_batch(16, 5, float32);
  const TrainStep step = data_parallel(tests::loss_of(model), optim::sgd(0.1, 0.9),
                                       {.devices = devices("cpu:0-" + std::to_string(devices_used - 1)),
                                        .shards = shards,
                                        .microbatches = microbatches});
  return tests::train(step, tests::fresh_state(step, model, batch), 3, [&](int) { return batch; }).state.trainable;
}

}  // namespace

TEST_CASE("an op of one's own in a step: values of the library's ops, bits on any number of devices") {
  const Tree expected = after_steps(false, 1, 1, 1);
  for (const std::int64_t shards : {2, 4, 8}) {
    for (const std::int64_t microbatches : {1, 2}) {
      CAPTURE(shards);
      CAPTURE(microbatches);
      const Tree one = after_steps(true, shards, 1, microbatches);
      CHECK(fingerprint(after_steps(true, shards, 2, microbatches)) == fingerprint(one));
      for (const std::string& path : expected.paths()) {
        CAPTURE(path);
        CHECK(max(abs(one.at(path).array() - expected.at(path).array())).item<float>() < 1e-5F);
      }
    }
  }
}

namespace {

/// Of the whole state after four steps of the model with the op of one's own, on `devices_used` devices of each process.
std::string fingerprint_of_steps(int devices_used, int resumed_on = 0) {
  const auto model = softsign_model(true);
  const Batch batch = tests::regression_batch(16, 5, float32);
  const auto step_on = [&](int count) {
    return data_parallel(tests::loss_of(model), optim::adam(0.05),
                         {.devices = devices("cpu:0-" + std::to_string(count - 1)), .shards = 8});
  };
  const auto next = [&](int) { return batch; };
  const TrainStep step = step_on(devices_used);
  TrainState state = tests::fresh_state(step, model, batch);
  if (resumed_on == 0) return fingerprint(to_tree(tests::train(step, std::move(state), 4, next).state));
  const tests::TemporaryFolder folder;
  const Tree half = to_tree(tests::train(step, std::move(state), 2, next).state);
  checkpoint::save(folder.path() / "half", half, {});
  auto restored = from_tree<TrainState>(checkpoint::restore(folder.path() / "half", half));
  return fingerprint(to_tree(tests::train(step_on(resumed_on), std::move(restored), 2, next).state));
}

}  // namespace

TEST_CASE("steps with an op of one's own that are saved and resumed on other devices equal those that run through") {
  const std::string whole = fingerprint_of_steps(1);
  CHECK(fingerprint_of_steps(1, 2) == whole);
  CHECK(fingerprint_of_steps(2, 1) == whole);
}

TEST_CASE("what each launched process trains with an op of one's own" * doctest::skip()) {
  std::printf("trained %s.\n", fingerprint_of_steps(1).c_str());
}

TEST_CASE("two processes with an op of one's own train the bits of one") {
  if (!tests::can_launch()) return tests::skip(tests::no_launcher());
  const std::string expected = "trained " + fingerprint_of_steps(1) + ".";
  const std::string output = tests::launched(2, "what each launched process trains with an op of one's own");
  CAPTURE(output);
  CHECK(tests::count(output, expected) >= 2);
}
