#include <doctest/doctest.h>

#include "tests/acceptance/cases.h"
#include "tests/support/expect_error.h"

// State that layers keep: counters, statistics, random counts; and who may make it.
namespace lockstep::tests {
namespace {

using Numbers = std::vector<float>;

void check_near(const Array& a, const Numbers& expected) {
  const Numbers values = a.to_vector<float>();
  REQUIRE(values.size() == expected.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    CHECK(values[i] == doctest::Approx(expected[i]).epsilon(1e-6).scale(1));
}

TrainStep identity_step(const Model<Array, Array>& model, const Replicas& replicas) {
  const LossFunction loss = [model](const Tree& w, const Tree& state, const Batch& b) {
    auto [y, next] = model.stateless_call(w, state, b.x, true, {.rows = b.weight});
    return WithAux{mean_squared_error(y, zeros_like(y), b.weight), next, {}};
  };
  return data_parallel(loss, optim::sgd(0.1), parallel(replicas));
}

TrainState started(const TrainStep& step, const Model<Array, Array>& model, const Batch& batch,
                   std::uint64_t seed = 0) {
  auto [trainable, state] = model.init(random::key(seed), batch.x);
  return step.init(std::move(trainable), std::move(state));
}

Tree counters_grow_by_contributions(const Replicas& replicas) {
  const Model<Array, Array> model([](const Scope& scope, const Array& x) {
    for (const auto& [name, dtype] : {std::pair("whole", int64), std::pair("float", float32)}) {
      static_cast<void>(scope.non_trainable(name, {.shape = {}, .dtype = dtype, .aggregation = Aggregation::sum}));
      scope.accumulate(name, ones({}, dtype));
    }
    return x;
  });
  const Batch batch = batch_of(ones({8, 1}));
  const TrainStep step = identity_step(model, replicas);
  TrainState state = started(step, model, batch);
  for (const int steps : {10, 190}) {
    for (int i = 0; i < steps; ++i) state = step(std::move(state), batch).first;
    const std::int64_t expected = (steps == 10 ? 10 : 200) * replicas.shards;  // 20 and 400 of two
    CHECK(state.non_trainable.at("whole").array().item<std::int64_t>() == expected);
    CHECK(state.non_trainable.at("float").array().item<float>() == static_cast<float>(expected));
  }
  return to_tree(state);
}

Tree losses_stay_finite(const Replicas& replicas) {
  const Model<Array, Array> model([](const Scope&, const Array& x) { return x; });
  const Batch batch = batch_of(array(Numbers{1, 2, 3, 4, 4, 3, 2, 1}, {8, 1}));
  const TrainStep step = identity_step(model, replicas);
  TrainState state = started(step, model, batch);
  for (int i = 0; i < 500; ++i) {
    auto [next, logs] = step(std::move(state), batch);
    state = std::move(next);
    REQUIRE(logs.at("loss").item<float>() == 7.5F);
  }
  return to_tree(state);
}

Tree accuracy_is_a_share(const Replicas& replicas) {
  Numbers logits(200, 0.0F);
  for (std::size_t row = 0; row < 100; ++row) logits[2 * row + (row < 89 ? 1 : 0)] = 1.0F;
  const Batch batch{array(logits, {100, 2}), array(std::vector<std::int32_t>(100, 1)), {}};
  const EvaluateStep evaluate(
      [](const Tree&, const Tree& state, const Batch& b) {
        return WithAux{softmax_cross_entropy(b.x, b.y, b.weight), state, {{"accuracy", accuracy(b.x, b.y, b.weight)}}};
      },
      parallel(replicas));
  const Weighted sums = evaluate(Tree(), Tree(), batch).at("accuracy");
  CHECK(value(sums).item<float>() == 0.89F);
  return to_tree(sums);
}

Tree only_the_first_replica(const Replicas& replicas) {
  const Model<Array, Array> model([](const Scope& scope, const Array& x) {
    static_cast<void>(scope.non_trainable("last", {.shape = {}, .aggregation = Aggregation::only_first_replica}));
    scope.assign("last", max(x));
    return x;
  });
  Numbers x(8, 6.0F);
  for (std::int64_t i = 0; i < 8 / replicas.shards; ++i) x[static_cast<std::size_t>(i)] = 5;
  const auto [trainable, state] = model.init(random::key(0), zeros({8}));
  const Tree next = call_on(replicas, model, trainable, state, batch_of(array(x)), true).second;
  CHECK(next.at("last").array().item<float>() == 5);
  return next;
}

Tree steps_are_counted_once(const Replicas& replicas) {
  const Model<Array, Array> model([](const Scope& scope, const Array& x) {
    const Array made = scope.non_trainable("steps", {.shape = {}, .dtype = int64});
    scope.assign("steps", made + 1);
    return x;
  });
  const Batch batch = batch_of(ones({8, 1}));
  const TrainStep step = identity_step(model, replicas);
  TrainState state = started(step, model, batch);
  for (int i = 0; i < 10; ++i) state = step(std::move(state), batch).first;
  CHECK(state.step.item<std::int64_t>() == 10);
  CHECK(state.non_trainable.at("steps").array().item<std::int64_t>() == 10);
  return to_tree(state);
}

Tree different_values_of_none(const Replicas& replicas) {
  const Model<Array, Array> model([](const Scope& scope, const Array& x) {
    static_cast<void>(scope["layer"].non_trainable("last", {.shape = {}}));
    scope["layer"].assign("last", max(x));
    return x;
  });
  const auto [trainable, state] = model.init(random::key(0), zeros({8}));
  expect_error<AggregationError>(
      [&, w = trainable, s = state] { static_cast<void>(call_on(replicas, model, w, s, batch_of(zeros({8})), true)); },
      "layer/last", "declare mean, sum");
  return {};
}

Model<Array, Array> dropping() {
  return Model<Array, Array>([](const Scope& scope, const Array& x) {
    return dense(scope["head"], dropout(scope["drop"], x, 0.5), {.units = 1});
  });
}

Tree one_random_state(const Replicas& replicas) {
  const auto model = dropping();
  const Batch batch = batch_of(ones({8, 3}));
  const TrainStep step = identity_step(model, replicas);
  const TrainState start = started(step, model, batch, 42);
  const auto rng = [](const TrainState& s) {
    return s.non_trainable.at("drop/rng").array().to_vector<std::uint32_t>();
  };
  const std::vector<std::uint32_t> first = rng(start);
  CHECK(first[2] == 0);
  TrainState state = start;
  for (std::uint32_t i = 1; i <= 2; ++i) {
    state = step(std::move(state), batch).first;
    CHECK(rng(state) == std::vector<std::uint32_t>{first[0], first[1], i});
  }
  return to_tree(state);
}

Model<Array, Array> normalizing(bool synchronized) {
  return Model<Array, Array>([synchronized](const Scope& scope, const Array& x) {
    return batch_norm(scope["norm"], x, {.momentum = 0.9, .synchronized = synchronized});
  });
}

/// 0, 2, 4 and 10, behind each a row that does not count.
Tree batch_norm_of_the_whole_batch(const Replicas& replicas) {
  Batch batch = batch_of(array(Numbers{0, 7, 2, 7, 4, 7, 10, 7}, {8, 1}));
  batch.weight = array(Numbers{1, 0, 1, 0, 1, 0, 1, 0});
  const auto model = normalizing(true);
  const auto [trainable, state] = model.init(random::key(0), batch.x);
  const auto [y, next] = call_on(replicas, model, trainable, state, batch, true);
  check_near(next.at("norm/moving_mean").array(), {0.4F});
  check_near(next.at("norm/moving_variance").array(), {2.3F});
  const Numbers all = y.to_vector<float>();
  check_near(array(Numbers{all[0], all[2], all[4], all[6]}), {-1.069007F, -0.534503F, 0, 1.60351F});
  return Tree::list({Tree(y), next});
}

Tree batch_norm_of_each_shard(const Replicas& replicas) {
  const Batch batch = batch_of(array(Numbers{0, 2, 4, 10}, {4, 1}));
  const auto model = normalizing(false);
  const auto [trainable, state] = model.init(random::key(0), batch.x);
  const auto [y, next] = call_on(replicas, model, trainable, state, batch, true);
  check_near(next.at("norm/moving_mean").array(), {0.4F});
  check_near(next.at("norm/moving_variance").array(), {1.4F});
  check_near(y, {-0.9995F, 0.9995F, -0.999944F, 0.999944F});
  return Tree::list({Tree(y), next});
}

Tree callbacks_make_no_variables(const Replicas& replicas) {
  struct Grower final : Callback {
    std::shared_ptr<Scope> kept;
    void on_step(const StepReport& report, const Tree&, Requests&) override {
      if (report.step == 2) static_cast<void>(kept->non_trainable("ema", {.shape = {1}}));
    }
  };
  const auto grower = std::make_shared<Grower>();
  const Model<Array, Array> model([grower](const Scope& scope, const Array& x) {
    grower->kept = std::make_shared<Scope>(scope);
    return dropout(scope["drop"], x, 0.5);
  });
  auto rows = std::make_shared<data::Dataset>();
  rows->x = {{float32, {16, 3}, {}}, std::vector<std::byte>(16 * 3 * 4)};
  rows->y = {{int32, {16}, {}}, std::vector<std::byte>(16 * 4)};
  rows->classes = 1;
  const TrainStep step = identity_step(model, replicas);
  const TrainState start = started(step, model, batch_of(ones({8, 3})));
  data::Loader loader(rows, {.batch = 8});
  // All processes fail alike, and go on.
  expect_error<StateError>([&] { static_cast<void>(fit(step, start, loader, {.steps = 3}, {grower})); }, "'ema'");
  grower->kept.reset();
  data::Loader again(rows, {.batch = 8});
  return to_tree(fit(step, start, again, {.steps = 3}, {}));
}

}  // namespace

std::vector<AcceptanceCase> state_cases() {
  return {{"T07: a sum counts one for each replica and step: 20 after 10 steps of two", counters_grow_by_contributions},
          {"T08: the loss of an identity is the same for 500 steps", losses_stay_finite},
          {"T09: an accuracy of 0.89 is reported as 0.89", accuracy_is_a_share},
          {"T14: only_first_replica holds replica 0's value", only_the_first_replica, {2, 4, 8}},
          {"T15: ten steps count ten", steps_are_counted_once},
          {"T16: replicas that write different values to what declares none are an error", different_values_of_none},
          {"T06: dropout has one random state, whose count goes up by one a step", one_random_state},
          {"T37: BatchNorm is that of the whole batch", batch_norm_of_the_whole_batch},
          {"T38: BatchNorm of each shard is another model, its statistics averaged", batch_norm_of_each_shard, {2}},
          {"a callback makes no variables", callbacks_make_no_variables}};
}

}  // namespace lockstep::tests
