#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/replicas.h"
#include "tests/support/training.h"

// A Weighted of which one half is reduced already would be off by the number of replicas: the types tell. Both halves
// reduced are the ratio of the whole batch, and counted once.

using namespace lockstep;

namespace {

using Form = std::function<Weighted(const Weighted&)>;

Array reduced(const Array& x) { return psum(x, {"batch"}); }

const Model<Array, Array>& one_head() {
  static const Model<Array, Array> linear(
      [](Scope& scope, const Array& x) { return dense(scope["head"], x, {.units = 1}); });
  return linear;
}

LossFunction loss_in(const Form& of_loss, const Form& of_metric) {
  return [=](const Tree& w, const Tree& state, const Batch& b) {
    auto [y, next] = one_head().stateless_call(w, state, b.x, true, {.rows = b.weight});
    const Weighted error = mean_squared_error(y, b.y, b.weight);
    return WithAux{of_loss(error), next, {{"error", of_metric(error)}}};
  };
}

Weighted as_it_is(const Weighted& w) { return w; }
Weighted sum_reduced(const Weighted& w) { return {reduced(w.sum), w.weight}; }
Weighted weight_reduced(const Weighted& w) { return {w.sum, reduced(w.weight)}; }
Weighted constant_weight(const Weighted& w) { return {w.sum, ones_like(w.weight)}; }
Weighted both_reduced(const Weighted& w) { return {reduced(w.sum), reduced(w.weight)}; }

std::pair<TrainState, Logs> step_of_forms(const Form& of_loss, const Form& of_metric, const tests::Replicas& replicas) {
  const Batch batch = tests::regression_batch(8, 3, float64);
  const TrainStep step =
      data_parallel(one_head(), loss_in(of_loss, of_metric), optim::sgd(0.1), tests::parallel(replicas));
  return step(tests::fresh_state(step, one_head(), batch), batch);
}

}  // namespace

TEST_CASE("one half reduced is refused, in losses, metrics and evaluations, with the remedy") {
  const Batch batch = tests::regression_batch(8, 3, float32);
  const auto [trainable, state] = one_head().init(random::key(1), batch.x);
  for (const tests::Replicas& replicas : tests::replica_counts) {
    CAPTURE(replicas.shards);
    struct Half {
      Form form;
      std::string text;
    };
    for (const Half& half : {Half{sum_reduced, "the sum is the same on all replicas"},
                             {weight_reduced, "the weight is the same on all replicas"},
                             {constant_weight, "the weight is the same on all replicas"}}) {
      tests::expect_error<MeshError>([&] { static_cast<void>(step_of_forms(half.form, as_it_is, replicas)); },
                                     "[loss] the sum is f");
      tests::expect_error<MeshError>([&] { static_cast<void>(step_of_forms(half.form, as_it_is, replicas)); },
                                     half.text);
      tests::expect_error<MeshError>([&] { static_cast<void>(step_of_forms(half.form, as_it_is, replicas)); },
                                     "Weighted{psum(s, axes), psum(w, axes)}");
      tests::expect_error<MeshError>([&] { static_cast<void>(step_of_forms(as_it_is, half.form, replicas)); },
                                     "[metric 'error'] the sum is f");
      const EvaluateStep evaluate(loss_in(as_it_is, half.form), tests::parallel(replicas));
      tests::expect_error<MeshError>([&] { static_cast<void>(evaluate(trainable, state, batch)); },
                                     "[metric 'error'] the sum is f");
    }
  }
}

TEST_CASE("both halves reduced mean what both not reduced mean, at any number of shards") {
  const auto [expected, expected_logs] = step_of_forms(as_it_is, as_it_is, {1, 1});
  const Array kernel = expected.trainable.at("head/kernel").array();
  for (const tests::Replicas& replicas : tests::replica_counts) {
    CAPTURE(replicas.shards);
    const auto [after, logs] = step_of_forms(both_reduced, both_reduced, replicas);
    for (const std::string name : {"loss", "error", "grad_norm"}) {
      CHECK(logs.at(name).item<double>() == doctest::Approx(expected_logs.at(name).item<double>()).epsilon(1e-12));
    }
    CHECK(max(abs(after.trainable.at("head/kernel").array() - kernel)).item<double>() < 1e-12);
  }
}

TEST_CASE("an evaluation counts what is reduced already once") {
  const Batch batch = tests::regression_batch(8, 3, float64);
  const auto [trainable, state] = one_head().init(random::key(1), batch.x);
  for (const tests::Replicas& replicas : tests::replica_counts) {
    CAPTURE(replicas.shards);
    const EvaluateStep evaluate(loss_in(both_reduced, both_reduced), tests::parallel(replicas));
    const auto sums = evaluate(trainable, state, batch);
    CHECK(sums.at("loss").weight.item<double>() == 8);
    CHECK(sums.at("error").weight.item<double>() == 8);
    CHECK(sums.at("error").sum.item<double>() == doctest::Approx(sums.at("loss").sum.item<double>()));
  }
}

TEST_CASE("a replica's own gradient needs its own weight") {
  const Model declared([](Scope& scope, const Array& x) {
    return dense(scope["head"], x, {.units = 1, .aggregation = Aggregation::mean});
  });
  const LossFunction loss = [&](const Tree& w, const Tree& state, const Batch& b) {
    auto [y, next] = declared.stateless_call(w, state, b.x, true, {.rows = b.weight});
    return WithAux{both_reduced(mean_squared_error(y, b.y, b.weight)), next, {}};
  };
  const Batch batch = tests::regression_batch(8, 3, float32);
  const TrainStep step = data_parallel(declared, loss, optim::sgd(0.1), tests::parallel({2, 1}));
  tests::expect_error<AggregationError>(
      [&] { static_cast<void>(step(tests::fresh_state(step, declared, batch), batch)); },
      "'head/bias' declares aggregation=mean, but the loss's weight is f32[], the same on all replicas");
}

TEST_CASE("rows without weights are counted once each") {
  const Batch batch = tests::regression_batch(8, 3, float64);
  const LossFunction loss = [](const Tree& w, const Tree& state, const Batch& b) {
    auto [y, next] = one_head().stateless_call(w, state, b.x, true);
    return WithAux{mean_squared_error(y, b.y), next, {{"error", mean_squared_error(y, b.y)}}};
  };
  const double expected = step_of_forms(as_it_is, as_it_is, {1, 1}).second.at("loss").item<double>();
  for (const tests::Replicas& replicas : tests::replica_counts) {
    const TrainStep step = data_parallel(one_head(), loss, optim::sgd(0.1), tests::parallel(replicas));
    const auto logs = step(tests::fresh_state(step, one_head(), batch), batch).second;
    CHECK(logs.at("loss").item<double>() == doctest::Approx(expected).epsilon(1e-12));
    CHECK(logs.at("error").item<double>() == doctest::Approx(expected).epsilon(1e-12));
  }
}
