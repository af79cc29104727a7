#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>
#include <lockstep/processes.h>

#include "tests/support/bits_of_one.h"
#include "tests/support/launcher.h"
#include "tests/support/replicas.h"
#include "tests/support/training.h"

// Models of 16 bits over processes: one decision of the loss scale, draws of rounding that know no process, one set of bits.
namespace lockstep::tests {
namespace {

Model<Array, Array> policy_model(const char* policy) {
  return with_precision(Model<Array, Array>([](Scope& s, const Array& x) {
                          const Array h = relu(batch_norm(s["norm"], dense(s["in"], x, {.units = 16})));
                          return dense(s["out"], dropout(s["drop"], h, 0.25), {.units = 1});
                        }),
                        policy);
}

/// A hash of states; float16's begin with a scale that is too large, so some steps are skipped.
std::string run_policies() {
  std::vector<Tree> all;
  for (const char* policy : {"mixed_bfloat16", "mixed_float16", "bfloat16"}) {
    const auto model = policy_model(policy);
    const Batch batch = regression_batch(32, 6, float32);
    DataParallelOptions options{.devices = {Device{}}, .shards = 4};
    options.loss_scale = LossScale{.initial = 0x1p24, .growth_steps = 3};
    const auto optimizer = optim::stochastic_rounding(optim::moments_dtype(optim::adamw(0.01), bfloat16, 5), 3);
    const TrainStep step = data_parallel(loss_of(model), optimizer, options);
    TrainState state = fresh_state(step, model, batch);
    int skipped = 0;
    for (int i = 0; i < 24; ++i) {
      auto [next, logs] = step(std::move(state), batch);
      state = std::move(next);
      skipped += logs.at("gradients_finite").item<float>() == 0 ? 1 : 0;
    }
    check_replicas("the state", to_tree(state));
    if (PrecisionPolicy(policy).dtypes().compute == float16) CHECK(skipped > 0);
    if (PrecisionPolicy(policy).dtypes().compute == bfloat16) CHECK(skipped == 0);
    CHECK(skipped < 24);
    all.push_back(to_tree(state));
  }
  return fingerprint(Tree::list(all));
}

}  // namespace

TEST_CASE("what each launched process trains in 16 bits" * doctest::skip()) { say_bits(run_policies()); }

TEST_CASE("training in 16 bits has one set of bits in 1, 2 and 4 processes") {
  if (!can_launch()) return skip(no_launcher());
  const std::string expected = run_policies();
  check_bits_of_one("what each launched process trains in 16 bits", expected);
}

}  // namespace lockstep::tests
