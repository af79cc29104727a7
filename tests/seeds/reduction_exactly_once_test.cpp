#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/replicas.h"

// Gradients are reduced once, to what one device with the whole batch would compute; another aggregation takes the place
// of that reduction, it never comes on top.

using namespace lockstep;
using tests::replica_counts;
using tests::Replicas;

namespace {

/// One weight vector "w" with a declared aggregation and initial value.
Model<Array, Array> weight_model(const std::vector<float>& initial, Aggregation aggregation) {
  return Model([=](Scope& scope, const Array& x) {
    const Array w =
        scope.trainable("w", {.shape = {static_cast<std::int64_t>(initial.size())},
                              .initializer = [initial](const Array&, const Shape&, DType) { return array(initial); },
                              .aggregation = aggregation});
    return x * w;
  });
}

using RowLoss = std::function<Array(const Array& y)>;

/// w after one step, and the gradient's norm.
std::pair<std::vector<float>, float> one_step(const Model<Array, Array>& model, const RowLoss& rows, const Batch& batch,
                                              const optim::GradientTransformation& optimizer,
                                              const DataParallelOptions& options) {
  const auto loss = [&](const Tree& w, const Tree& state, const Batch& b) {
    auto [y, next] = model.stateless_call(w, state, b.x, true, {.rows = b.weight});
    return WithAux{weighted(rows(y), b.weight), next, {}};
  };
  const TrainStep step = data_parallel(model, loss, optimizer, options);
  auto [trainable, state] = model.init(random::key(0), batch.x);
  auto [after, logs] = step(step.init(trainable, state), batch);
  return {after.trainable.at("w").array().to_vector<float>(), logs.at("grad_norm").item<float>()};
}

Array squared(const Array& y) { return squeeze(square(y), {1}); }
Array summed(const Array& y) { return sum(y, Axes{1}); }

Batch column(const std::vector<float>& x) {
  return tests::batch_of(array(x, {static_cast<std::int64_t>(x.size()), 1}));
}

}  // namespace

TEST_CASE("mean((w x)^2) has gradient 15, whatever the replicas; none and mean agree on even shards") {
  for (const Aggregation aggregation : {Aggregation::none, Aggregation::mean}) {
    for (const auto& replicas : replica_counts) {
      CAPTURE(replicas.shards);
      const auto [w, norm] = one_step(weight_model({1}, aggregation), squared, column({1, 2, 3, 4}), optim::sgd(0.01),
                                      tests::parallel(replicas));
      CHECK(norm == doctest::Approx(15));
      CHECK(w[0] == doctest::Approx(0.85));
    }
  }
}

TEST_CASE("each replica gives [1,6,7,2]: sum and mean in place of the default") {
  struct Case {
    Aggregation aggregation;
    std::vector<float> two_replicas;
  };
  for (const Case& c : {Case{Aggregation::sum, {0, -4, -4, 2}}, Case{Aggregation::mean, {0.5F, -1, -0.5F, 3}},
                        Case{Aggregation::only_first_replica, {0.5F, -1, -0.5F, 3}}}) {
    for (const int devices : {1, 2}) {
      const Batch batch = tests::batch_of(array(std::vector<float>{1, 6, 7, 2, 1, 6, 7, 2}, {2, 4}));
      const auto [w, norm] = one_step(weight_model({1, 2, 3, 4}, c.aggregation), summed, batch, optim::sgd(0.5, 0.06),
                                      tests::parallel({2, devices}));
      CHECK(w == c.two_replicas);
    }
  }
}

TEST_CASE("only_first_replica takes replica 0's gradient, sum counts every replica") {
  const Batch batch = column({1, 1, 2, 2});
  for (const int devices : {1, 2}) {
    const auto with = [&](Aggregation a) {
      return one_step(weight_model({0}, a), summed, batch, optim::sgd(1.0), tests::parallel({2, devices})).first[0];
    };
    CHECK(with(Aggregation::only_first_replica) == -1);
    CHECK(with(Aggregation::sum) == -3);
    CHECK(with(Aggregation::mean) == -1.5F);
    CHECK(with(Aggregation::none) == -1.5F);
  }
}

TEST_CASE("weight decay is applied once a step, not once a replica") {
  const Model model([](Scope& scope, const Array& x) {
    const Array decayed = scope.trainable("decayed", {.shape = {}, .initializer = initializers::constant(2)});
    const Array kept = scope.trainable("kept", {.shape = {}, .initializer = initializers::constant(3)});
    return x * 0 * decayed * kept;
  });
  const auto loss = [&](const Tree& w, const Tree& state, const Batch& b) {
    auto [y, next] = model.stateless_call(w, state, b.x, true, {.rows = b.weight});
    return WithAux{weighted(y, b.weight), next, {}};
  };
  const auto optimizer = optim::chain(optim::masked(optim::add_decayed_weights(0.004), optim::below("decayed")),
                                      optim::scale_by_learning_rate(1.0));
  for (const auto& replicas : replica_counts) {
    const TrainStep step = data_parallel(model, loss, optimizer, tests::parallel(replicas));
    auto [trainable, non_trainable] = model.init(random::key(0), ones({4}));
    TrainState state = step.init(trainable, non_trainable);
    for (int i = 0; i < 3; ++i) state = step(std::move(state), tests::batch_of(ones({4}))).first;
    CHECK(state.trainable.at("decayed").array().item<float>() == doctest::Approx(1.9760959));
    CHECK(state.trainable.at("kept").array().item<float>() == 3);
  }
}

TEST_CASE("a penalty counts once") {
  const Model model([](Scope& scope, const Array& x) {
    return dense(scope["dense"], x, {.units = 1, .use_bias = false, .kernel_initializer = initializers::ones()});
  });
  const auto loss = [&](const Tree& w, const Tree& state, const Batch& b) {
    auto [y, next] = model.stateless_call(w, state, b.x, true, {.rows = b.weight});
    return WithAux{
        mean_squared_error(y, zeros_like(y), b.weight) + l1_penalty(w, 0.01) + l2_penalty(w, 0.01), next, {}};
  };
  for (const auto& replicas : replica_counts) {
    const TrainStep step = data_parallel(model, loss, optim::sgd(0.01), tests::parallel(replicas));
    auto [trainable, state] = model.init(random::key(0), ones({12, 1}));
    auto [after, logs] = step(step.init(trainable, state), tests::batch_of(ones({12, 1})));
    CHECK(logs.at("loss").item<float>() == doctest::Approx(1.02));
    CHECK(after.trainable.at("dense/kernel").array().item<float>() == doctest::Approx(0.9797));
  }
}

TEST_CASE("only_first_replica state holds replica 0's value everywhere") {
  const Model model([](Scope& scope, const Array& x) {
    scope.non_trainable("last", {.shape = {}, .aggregation = Aggregation::only_first_replica});
    scope.assign("last", max(x));
    return x;
  });
  auto [trainable, state] = model.init(random::key(0), zeros({4}));
  const Batch batch = tests::batch_of(array({5.0F, 5.0F, 6.0F, 7.0F}));
  for (const Replicas replicas : {Replicas{2, 1}, Replicas{2, 2}, Replicas{4, 2}}) {
    const Tree next = tests::call_on(replicas, model, trainable, state, batch, true).second;
    CHECK(next.at("last").array().item<float>() == 5);
  }
}

TEST_CASE("replicas that write different values to a variable of aggregation none are an error naming it") {
  const Model model([](Scope& scope, const Array& x) {
    scope["layer"].non_trainable("last", {.shape = {}});
    scope["layer"].assign("last", max(x));
    return x;
  });
  auto [trainable, state] = model.init(random::key(0), zeros({4}));
  for (const Replicas replicas : {Replicas{2, 1}, Replicas{4, 2}}) {
    const auto call = [&] {
      return tests::call_on(replicas, model, trainable, state, tests::batch_of(zeros({4})), true);
    };
    tests::expect_error<AggregationError>([&] { static_cast<void>(call()); }, "layer/last");
    tests::expect_error<AggregationError>([&] { static_cast<void>(call()); }, "declare mean, sum");
  }
}

TEST_CASE("uneven shards give the whole batch's gradient, not the mean of means") {
  Batch batch = column({1, 2, 3, 4, 4, 4});
  batch.weight = array({1.0F, 1.0F, 1.0F, 1.0F, 0.0F, 0.0F});
  for (const int devices : {1, 2}) {
    const auto [w, norm] =
        one_step(weight_model({1}, Aggregation::none), squared, batch, optim::sgd(0.01), tests::parallel({2, devices}));
    CHECK(norm == doctest::Approx(15));
  }
}

TEST_CASE("the mean over valid tokens, as shards and as microbatches") {
  Batch batch = column({8, 8, 8, 4, 4, 4});
  batch.weight = array({1.0F, 0.0F, 0.0F, 1.0F, 1.0F, 1.0F});
  const auto gradient = [&](const DataParallelOptions& options) {
    return -one_step(weight_model({0}, Aggregation::none), summed, batch, optim::sgd(1.0), options).first[0];
  };
  CHECK(gradient(tests::parallel({2, 1})) == doctest::Approx(5));
  CHECK(gradient(tests::parallel({2, 2})) == doctest::Approx(5));
  DataParallelOptions micro = tests::parallel({1, 1});
  micro.microbatches = 2;
  CHECK(gradient(micro) == doctest::Approx(5));
}

TEST_CASE("a shard without a real row adds exact zeros") {
  Batch batch = column({1, 2, 1e15F, -1e15F});
  batch.weight = array({1.0F, 1.0F, 0.0F, 0.0F});
  const auto [w, norm] =
      one_step(weight_model({1}, Aggregation::none), squared, batch, optim::sgd(0.01), tests::parallel({2, 2}));
  CHECK(norm == 5);
  for (const Aggregation a : {Aggregation::mean, Aggregation::sum}) {
    CHECK(one_step(weight_model({1}, a), squared, batch, optim::sgd(0.01), tests::parallel({2, 2})).second == 5);
  }
}

TEST_CASE("a weight used three times, and one captured by a loop of microbatches, cost one reduction") {
  const Model thrice([](Scope& scope, const Array& x) {
    const Array w = scope.trainable("w", {.shape = {1}, .initializer = initializers::ones()});
    return x * w + tanh(x * w) * w;
  });
  const auto loss = [&](const Tree& w, const Tree& state, const Batch& b) {
    auto [y, next] = thrice.stateless_call(w, state, b.x, true, {.rows = b.weight});
    return WithAux{weighted(squeeze(y, {1}), b.weight), next, {}};
  };
  for (const std::int64_t microbatches : {1, 2, 4}) {
    DataParallelOptions options = tests::parallel({2, 2});
    options.microbatches = microbatches;
    const TrainStep step = data_parallel(thrice, loss, optim::sgd(0.1), options);
    auto [trainable, state] = thrice.init(random::key(0), ones({8, 1}));
    const std::int64_t before = collectives_executed();
    auto [after, logs] = step(step.init(trainable, state), tests::batch_of(ones({8, 1})));
    // The loss's sum, its weight, and the one weight's gradient.
    CHECK(collectives_executed() - before == 3);
  }
}

TEST_CASE("a declared aggregation and several weighted terms do not go together") {
  const auto model = weight_model({1}, Aggregation::mean);
  const auto loss = [&](const Tree& w, const Tree& state, const Batch& b) {
    auto [y, next] = model.stateless_call(w, state, b.x, true, {.rows = b.weight});
    return WithAux{Loss(weighted(squared(y), b.weight)) + weighted(summed(y), b.weight), next, {}};
  };
  const TrainStep step = data_parallel(model, loss, optim::sgd(0.1), tests::parallel({2, 1}));
  auto [trainable, state] = model.init(random::key(0), ones({4, 1}));
  tests::expect_error<AggregationError>(
      [&] {
        static_cast<void>(step(step.init(trainable, state), column({1, 2, 3, 4})));
      },
      "2 weighted terms");
}
