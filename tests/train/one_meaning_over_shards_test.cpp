#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/replicas.h"
#include "tests/support/training.h"

// The CNN, BatchNorm and dropout on, trained on Fashion-MNIST with 1 shard and with 8: one step's meaning does not depend
// on how the batch is cut.

using namespace lockstep;

namespace {

tests::Trained train_cnn(const tests::Replicas& replicas, std::int64_t rows, int steps, DType dtype) {
  static const auto images =
      std::make_shared<const data::Dataset>(data::load_fashion_mnist(LOCKSTEP_FASHION_MNIST_DIR).train);
  const auto model = models::find("cnn");
  // Far above what rounding makes of gradients that are zero, whose signs would else decide whole steps of theirs.
  const double epsilon = 1e-6;
  const auto optimizer = optim::adamw(1e-3, 0.9, 0.999, epsilon);
  const TrainStep step = data_parallel(model, tests::loss_of(model), optimizer, tests::parallel(replicas));
  data::Loader loader(images, {.batch = rows, .seed = 5});
  const auto next = [&](int) {
    Batch batch = loader.next();
    batch.x = convert(batch.x, dtype);
    return batch;
  };
  const Batch like{zeros({1, 28, 28, 1}, dtype), {}, {}};
  tests::Trained run = tests::train(step, tests::fresh_state(step, model, like), steps, next);
  CHECK(step.traces() == 1);
  return run;
}

double worst_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]) / std::abs(a[i]));
  return worst;
}

}  // namespace

TEST_CASE("float32: the first 10 losses of 1 and 8 shards agree to 1e-4") {
  const tests::Trained one = train_cnn({1, 1}, 64, 10, float32);
  const tests::Trained eight = train_cnn({8, 2}, 64, 10, float32);
  CHECK(worst_difference(one.losses, eight.losses) <= 1e-4);
  CHECK(one.losses != eight.losses);  // other sums, so other bits: two runs, not one
  CHECK(eight.losses.back() < eight.losses.front());
}

TEST_CASE("float64: 200 losses of 1 and 8 shards agree to 1e-8") {
  const tests::Trained one = train_cnn({1, 1}, 16, 200, float64);
  const tests::Trained eight = train_cnn({8, 2}, 16, 200, float64);
  const double worst = worst_difference(one.losses, eight.losses);
  MESSAGE("worst relative difference " << worst);
  CHECK(worst <= 1e-8);
  CHECK(eight.losses.back() < 0.7 * eight.losses.front());
}
