#include <doctest/doctest.h>

#include "tests/acceptance/cases.h"
#include "tests/acceptance/weight_steps.h"
#include "tests/support/expect_error.h"

// Gradients are what one device with the whole batch would compute, reduced once; regularizers and decay count once.
namespace lockstep::tests {
namespace {

Tree gradient_of_the_whole_batch(const Replicas& replicas) {
  std::vector<Tree> results;
  for (const Aggregation aggregation : {Aggregation::none, Aggregation::mean}) {
    const WeightStep after = one_step(weight_model({1}, aggregation), squared_rows, column({1, 2, 3, 4}),
                                      optim::sgd(0.01), parallel(replicas));
    CHECK(after.grad_norm == 15);
    CHECK(after.weight[0] == doctest::Approx(0.85).epsilon(1e-7));
    results.push_back(to_tree(after.state));
  }
  return Tree::list(results);
}

Tree every_replica_gives_the_same(const Replicas& replicas) {
  std::vector<float> rows;
  for (std::int64_t r = 0; r < replicas.shards; ++r) rows.insert(rows.end(), {1, 6, 7, 2});
  const Batch batch = batch_of(array(rows, {replicas.shards, 4}));
  const auto with = [&](Aggregation aggregation) {
    return one_step(weight_model({1, 2, 3, 4}, aggregation), summed_rows, batch, optim::sgd(0.5, 0.06),
                    parallel(replicas));
  };
  const WeightStep summed = with(Aggregation::sum), averaged = with(Aggregation::mean);
  const auto n = static_cast<float>(replicas.shards);
  CHECK(summed.weight == std::vector<float>{1 - n / 2, 2 - 3 * n, 3 - 3.5F * n, 4 - n});  // [0,-4,-4,2] of two
  CHECK(averaged.weight == std::vector<float>{0.5F, -1, -0.5F, 3});
  return Tree::list({to_tree(summed.state), to_tree(averaged.state)});
}

Tree decay_counts_once(const Replicas& replicas) {
  const Model<Array, Array> model([](const Scope& scope, const Array& x) {
    const Array decayed = scope.trainable("decayed", {.shape = {}, .initializer = initializers::constant(2)});
    return x * 0 * decayed * scope.trainable("kept", {.shape = {}, .initializer = initializers::constant(3)});
  });
  const auto optimizer = optim::chain(optim::masked(optim::add_decayed_weights(0.004), optim::below("decayed")),
                                      optim::scale_by_learning_rate(1.0));
  const TrainStep step =
      data_parallel(loss_of_rows(model, [](const Array& y) { return y; }), optimizer, parallel(replicas));
  const auto [trainable, state] = model.init(random::key(0), ones({8}));
  TrainState after = step.init(trainable, state);
  for (int i = 0; i < 3; ++i) after = step(std::move(after), batch_of(ones({8}))).first;
  CHECK(after.trainable.at("decayed").array().item<float>() == doctest::Approx(1.9760959).epsilon(1e-7));
  CHECK(after.trainable.at("kept").array().item<float>() == 3);
  return to_tree(after);
}

Tree regularizer_counts_once(const Replicas& replicas) {
  const Model<Array, Array> model([](const Scope& scope, const Array& x) {
    return dense(scope["dense"], x, {.units = 1, .use_bias = false, .kernel_initializer = initializers::ones()});
  });
  const LossFunction loss = [model](const Tree& w, const Tree& state, const Batch& b) {
    auto [y, next] = model.stateless_call(w, state, b.x, true, {.rows = b.weight});
    return WithAux{
        mean_squared_error(y, zeros_like(y), b.weight) + l1_penalty(w, 0.01) + l2_penalty(w, 0.01), next, {}};
  };
  const TrainStep step = data_parallel(loss, optim::sgd(0.01), parallel(replicas));
  const auto [trainable, state] = model.init(random::key(0), ones({12, 1}));
  const auto [after, logs] = step(step.init(trainable, state), batch_of(ones({12, 1})));
  CHECK(logs.at("loss").item<float>() == doctest::Approx(1.02).epsilon(1e-7));
  CHECK(after.trainable.at("dense/kernel").array().item<float>() == doctest::Approx(0.9797).epsilon(1e-7));
  return to_tree(after);
}

Tree without_a_word_the_whole_loss(const Replicas& replicas) {
  const auto model = weight_model({1}, Aggregation::none);
  const TrainStep step = data_parallel(loss_of_rows(model, squared_rows), optim::sgd(0.01), parallel(replicas));
  const Batch batch = column({1, 2, 3, 4, 5, 6, 7, 8});
  const auto [trainable, state] = model.init(random::key(0), batch.x);
  const TrainState start = step.init(trainable, state);
  const Plan plan = step.program(start, batch).plan();
  CHECK(plan.collectives.at("psum") == 3);  // the loss's sum, its weight, and the gradient
  const std::int64_t before = collectives_executed();
  const auto [after, logs] = step(start, batch);
  CHECK(collectives_executed() - before == 3);
  CHECK(logs.at("grad_norm").item<float>() == 51);
  return to_tree(after);
}

/// One shard of three rows and one of a single row, or as many as there are.
Batch three_rows_and_one(const std::vector<float>& x) {
  Batch batch = column(x);
  batch.weight = array({1.0F, 1.0F, 1.0F, 0.0F, 1.0F, 0.0F, 0.0F, 0.0F});
  return batch;
}

Tree uneven_shards(const Replicas& replicas) {
  const WeightStep after = one_step(weight_model({1}, Aggregation::none), squared_rows,
                                    three_rows_and_one({1, 2, 3, 3, 4, 4, 4, 4}), optim::sgd(0.01), parallel(replicas));
  CHECK(after.grad_norm == 15);
  CHECK(after.weight[0] == doctest::Approx(0.85).epsilon(1e-7));
  return to_tree(after.state);
}

Tree mean_over_tokens(const Replicas& replicas) {
  std::vector<Tree> results;
  for (const std::int64_t microbatches : {1, 2, 4}) {
    if (microbatches * replicas.shards > 8) continue;
    DataParallelOptions options = parallel(replicas);
    options.microbatches = microbatches;
    const WeightStep after = one_step(weight_model({0}, Aggregation::none), summed_rows,
                                      three_rows_and_one({4, 4, 4, 4, 8, 8, 8, 8}), optim::sgd(1), options);
    CHECK(after.weight[0] == -5);
    results.push_back(to_tree(after.state));
  }
  return Tree::list(results);
}

Tree momenta_are_seen_once(const Replicas& replicas) {
  const auto model = weight_model({1}, Aggregation::none);
  const Batch batch = column({1, 2, 3, 4, 1, 2, 3, 4});
  const auto with = [&](const optim::GradientTransformation& optimizer) {
    return one_step(model, squared_rows, batch, optimizer, parallel(replicas)).state;
  };
  const TrainState trace = with(optim::sgd(0.01, 0.9)), adam = with(optim::adam(0.01, 0.9, 0.75));
  const auto only = [](const Tree& slots, const char* path) { return slots.items()[0].at(path).array(); };
  CHECK(only(trace.optimizer, "w").item<float>() == 15);
  CHECK(only(adam.optimizer, "mu/w").item<float>() == doctest::Approx(1.5).epsilon(1e-6));
  CHECK(only(adam.optimizer, "nu/w").item<float>() == 56.25F);
  CHECK(only(adam.optimizer, "count").item<std::int32_t>() == 1);
  return Tree::list({to_tree(trace), to_tree(adam)});
}

}  // namespace

std::vector<AcceptanceCase> gradient_cases() {
  return {{"T10: the gradient of the whole batch is 15, neither 30 nor 7.5", gradient_of_the_whole_batch},
          {"T11: each replica gives [1,6,7,2]: their sum, and their mean", every_replica_gives_the_same},
          {"T12: weight decay is applied once a step", decay_counts_once},
          {"T13: a regularizer counts once", regularizer_counts_once},
          {"T17: what declares nothing is differentiated with the loss of the whole batch, by one reduction",
           without_a_word_the_whole_loss},
          {"T20: uneven shards give the whole batch's gradient, not the mean of means", uneven_shards},
          {"T21: the mean over tokens, as shards and as microbatches", mean_over_tokens},
          {"an optimizer's momenta see each gradient once", momenta_are_seen_once}};
}

}  // namespace lockstep::tests
