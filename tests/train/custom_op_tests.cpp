// An op of one's own in a training step: the right values are those of the same function in ops of the library.
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/custom_op.h>
#include <lockstep/lockstep.h>

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
Model<Array, Array> model_of(bool own) {
  return Model<Array, Array>([own](Scope& s, const Array& x) {
    const auto layer = remat([&](const Array& v) {
      const Array h = dense(s["in"], v, {.units = 8});
      return own ? own_softsign()(h) : h / (1 + abs(h));
    });
    return dense(s["out"], dropout(s["drop"], layer(x), 0.25), {.units = 1});
  });
}

Tree after_steps(bool own, std::int64_t shards, int devices_used, std::int64_t microbatches) {
  const auto model = model_of(own);
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
