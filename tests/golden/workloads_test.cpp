#include "benches/workloads.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

// The first steps of the models that are timed, against JAX's in float64. The losses are what
//   bench_train_step WORKLOAD --folder F --seed 1 --draw
//   python benches/peers/jax_step.py F WORKLOAD float64
// print (JAX 0.10.2): the same drawn weights, which are those of seed 0, and the same drawn batches.

using namespace lockstep;
using benches::draw_batches;
using benches::find_workload;
using benches::Workload;

namespace {

struct WorkloadCase {
  const char* workload;
  double tolerance;  ///< Relative. Later steps of a resnet multiply rounding errors, so fewer are compared.
  std::vector<double> losses;
};

const std::vector<WorkloadCase> workload_cases = {
    {"tiny", 1e-6, {2.3705191450961243, 2.3581570488104964, 2.6225689396944896, 2.372058123411623, 2.45506524345849}},
    {"mlp", 1e-5, {3.636499402635086, 2.8236876683636325, 3.0000273668497073, 3.2184219997303636, 3.0079179959939264}},
    {"cnn", 1e-5, {4.277284654049518, 64.96376645971672, 4.6775471431071125, 2.359999223828842, 2.31269187163727}},
    {"resnet20", 2e-4, {2.6882862205238505, 2.508492999353449, 2.434078245550553}},
    {"resnet18", 2e-4, {3.1756784947139067, 3.8468742393773883}},
    {"vit", 1e-5, {2.506943188842457, 4.554297210646877, 5.053467150454445}},
    {"lstm", 1e-6, {2.302556890771915, 2.2989704263212856, 2.3056088976484865}},
    {"gpt", 1e-6, {6.791269592679561, 6.789624398322282, 6.651899006927541}},
};

/// A workload with its first weights and batches, which are drawn once for all ways to train on them.
struct DrawnWorkload {
  Workload workload;
  Tree weights;
  Tree state;
  Tree batches;
};

DrawnWorkload drawn(const WorkloadCase& c) {
  Workload workload = find_workload(c.workload);
  auto [weights, state] = workload.model.init(random::key(0), workload.x);
  Tree batches = draw_batches(workload, 1, 8);
  return {std::move(workload), std::move(weights), std::move(state), std::move(batches)};
}

std::vector<double> workload_losses(const DrawnWorkload& drawn, std::size_t steps, const DataParallelOptions& options) {
  const Workload& workload = drawn.workload;
  const auto loss = [&](const Tree& w, const Tree& state, const Batch& b) {
    auto [logits, next] = workload.model.stateless_call(w, state, b.x, true, {.rows = b.weight});
    return WithAux{softmax_cross_entropy(logits, b.y, b.weight), next, {}};
  };
  const TrainStep step = data_parallel(workload.model, loss, workload.optimizer(), options);
  TrainState state = step.init(drawn.weights, drawn.state);
  std::vector<double> all;
  for (std::size_t i = 0; i < steps; ++i) {
    const auto k = static_cast<std::int64_t>(i);
    auto [next, logs] = step(std::move(state), {drawn.batches.at("x").array()[k], drawn.batches.at("y").array()[k],
                                                ones({workload.rows()})});
    state = std::move(next);
    all.push_back(logs.at("loss").item<float>());
  }
  return all;
}

}  // namespace

TEST_CASE("the first steps of the timed models have the losses that JAX computes in float64") {
  for (const WorkloadCase& c : workload_cases) {
    CAPTURE(c.workload);
    const DrawnWorkload workload = drawn(c);
    for (const auto& [shards, precision, tolerance] :
         {std::tuple{2, Precision::float32, c.tolerance}, std::tuple{8, Precision::float32, c.tolerance},
          std::tuple{2, Precision::bfloat16, 2e-2}}) {
      CAPTURE(shards);
      CAPTURE(lockstep::name(precision));
      const std::vector<double> found = workload_losses(
          workload, c.losses.size(), {.devices = devices("cpu:0-1"), .shards = shards, .precision = precision});
      REQUIRE(found.size() == c.losses.size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        CAPTURE(i);
        CHECK(std::abs(found[i] - c.losses[i]) <= tolerance * c.losses[i]);
      }
    }
  }
}
