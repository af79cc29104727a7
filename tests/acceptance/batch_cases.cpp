#include <numeric>

#include <doctest/doctest.h>

#include "tests/acceptance/cases.h"
#include "tests/acceptance/weight_steps.h"

// Batches that no number of shards divides.
namespace lockstep::tests {
namespace {

Tree thirty_three_rows(const Replicas& replicas) {
  std::vector<float> x(33);
  std::iota(x.begin(), x.end(), 1.0F);
  Batch batch = column(x);
  std::vector<Tree> results;
  for (const std::int64_t microbatches : {1, 2}) {
    DataParallelOptions options = parallel(replicas);
    options.microbatches = microbatches;
    const WeightStep after =
        one_step(weight_model({1}, Aggregation::none), squared_rows, batch, optim::sgd(0.001), options);
    CHECK(after.grad_norm == doctest::Approx(2 * 12529.0 / 33).epsilon(1e-6));
    results.push_back(to_tree(after.state));
  }
  return Tree::list(results);
}

Tree fewer_rows_than_shards(const Replicas& replicas) {
  const WeightStep after =
      one_step(weight_model({1}, Aggregation::none), squared_rows, column({3}), optim::sgd(0.5), parallel(replicas));
  CHECK(after.grad_norm == 18);
  CHECK(after.weight[0] == -8);
  return to_tree(after.state);
}

}  // namespace

std::vector<AcceptanceCase> batch_cases() {
  return {{"33 rows are padded by rows of weight 0", thirty_three_rows},
          {"one row is enough for every number of shards", fewer_rows_than_shards}};
}

}  // namespace lockstep::tests
