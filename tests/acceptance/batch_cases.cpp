#include <numeric>
#include <tuple>

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

/// Logits that a temperature divides, which stands beside the rows.
Tree scalar_beside_the_rows(const Replicas& replicas) {
  const auto loss = [](const Tree& w, const Tree& state, const Tree& b) {
    const Array rows = b.at("weight").array();
    const Array y = squeeze(b.at("x").array() * w.at("v").array(), {1}) / b.at("temperature").array();
    return WithAux{weighted(square(y), rows), state, {{"y", weighted(y, rows)}}};
  };
  const auto batch_of_rows = [](std::int64_t rows, float temperature) {
    return Tree::dict({{"temperature", Tree(array(temperature))},
                       {"x", Tree(reshape(convert(arange(rows), float32), {rows, 1}))},
                       {"weight", Tree(ones({rows}))}});
  };
  std::vector<Tree> results;
  for (const std::int64_t microbatches : {1, 2}) {
    DataParallelOptions options = parallel(replicas);
    options.microbatches = microbatches;
    const TrainStep step = data_parallel(loss, optim::sgd(0.5), options);
    const TrainState start = step.init(Tree::dict({{"v", Tree(ones({1}))}}), Tree());
    for (const auto& [rows, temperature, norm] : {std::tuple(16, 4.0F, 9.6875F), {13, 2.0F, 25.0F}, {1, 1.0F, 0.0F}}) {
      const Tree batch = batch_of_rows(rows, temperature);
      const auto [after, logs] = step(start, batch);
      CHECK(logs.at("grad_norm").item<float>() == norm);  // 2 mean(x^2) / temperature^2
      const auto sums = EvaluateStep(loss, options)(start.trainable, Tree(), batch);
      CHECK(sums.at("y").sum.item<float>() == static_cast<float>(rows * (rows - 1) / 2) / temperature);
      CHECK(sums.at("y").weight.item<float>() == static_cast<float>(rows));
      results.push_back(Tree::list({to_tree(after), to_tree(sums)}));
    }
  }
  return Tree::list(results);
}

}  // namespace

std::vector<AcceptanceCase> batch_cases() {
  return {{"T78: 33 rows are padded by rows of weight 0", thirty_three_rows},
          {"one row is enough for every number of shards", fewer_rows_than_shards},
          {"T79: a scalar in a batch of rows is the same for all of them", scalar_beside_the_rows}};
}

}  // namespace lockstep::tests
