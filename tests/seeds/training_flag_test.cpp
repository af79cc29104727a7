#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/replicas.h"

// stateless_call: `training` must be said, the new state must be taken, and the same arguments give the same bits.

using namespace lockstep;
using tests::Replicas;

namespace {

using Values = std::vector<float>;

template <class M>
concept callable_without_training = requires(const M& model, const Tree& tree, const Array& x) {
  model.stateless_call(tree, tree, x);
};
template <class M, class Flag>
concept callable_with = requires(const M& model, const Tree& tree, const Array& x, Flag flag) {
  model.stateless_call(tree, tree, x, flag);
};

using PlainModel = Model<Array, Array>;
// Leaving `training` out does not compile, nor does anything that is no bool.
static_assert(!callable_without_training<PlainModel>);
static_assert(callable_with<PlainModel, bool>);
static_assert(!callable_with<PlainModel, int>);
static_assert(!callable_with<PlainModel, double>);
static_assert(!callable_with<PlainModel, const char*>);
static_assert(!callable_with<PlainModel, std::nullptr_t>);

Array only_dropout(Scope& scope, const Array& x) { return dropout(scope["drop"], x, 0.5); }

Array two_layers(Scope& scope, const Array& x) {
  return dense(scope["second"], relu(dense(scope["first"], x, {.units = 3})), {.units = 2});
}

Batch rows_of(const Values& x, std::int64_t width) {
  return tests::batch_of(array(x, {static_cast<std::int64_t>(x.size()) / width, width}));
}

void check_near(const Array& a, const Values& expected, double tolerance = 1e-5) {
  const Values values = a.to_vector<float>();
  REQUIRE(values.size() == expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    CHECK(values[i] == doctest::Approx(expected[i]).epsilon(tolerance).scale(1));
  }
}

PlainModel normalizing(BatchNormOptions options) {
  return Model([options](Scope& scope, const Array& x) { return batch_norm(scope["norm"], x, options); });
}

}  // namespace

TEST_CASE("dropout in evaluation is the identity and leaves its state") {
  const Model model(only_dropout);
  auto [trainable, state] = model.init(random::key(1), ones({4, 8}));
  for (const auto& replicas : tests::replica_counts) {
    auto [y, next] = tests::call_on(replicas, model, trainable, state, tests::batch_of(ones({4, 8})), false);
    CHECK(y.to_vector<float>() == Values(32, 1.0F));
    CHECK(fingerprint(next) == fingerprint(state));
  }
}

TEST_CASE("the same state gives the same mask, the returned state another one; the count goes 0, 1, 2") {
  const Model model(only_dropout);
  const Batch batch = tests::batch_of(ones({8, 16}));
  auto [trainable, state] = model.init(random::key(1), batch.x);
  CHECK(state.at("drop/rng").array().to_vector<std::uint32_t>()[2] == 0);
  for (const auto& replicas : tests::replica_counts) {
    auto [y1, s1] = tests::call_on(replicas, model, trainable, state, batch, true);
    auto [again, s1_again] = tests::call_on(replicas, model, trainable, state, batch, true);
    auto [y2, s2] = tests::call_on(replicas, model, trainable, s1, batch, true);
    CHECK(y1.to_vector<float>() == again.to_vector<float>());
    CHECK(y1.to_vector<float>() != y2.to_vector<float>());
    CHECK(s1.at("drop/rng").array().to_vector<std::uint32_t>()[2] == 1);
    CHECK(s2.at("drop/rng").array().to_vector<std::uint32_t>()[2] == 2);
    CHECK(fingerprint(s1) == fingerprint(s1_again));
  }
}

TEST_CASE("a call changes none of its inputs, and repeats its outputs bit for bit") {
  const Model model([](Scope& scope, const Array& x) {
    return dropout(scope["drop"], batch_norm(scope["norm"], dense(scope["dense"], x, {.units = 4})), 0.3);
  });
  const Array x = random::normal(random::key(3), {8, 5});
  auto [trainable, state] = model.init(random::key(1), x);
  const std::string before = fingerprint(Tree::list({trainable, state, Tree(x)}));
  auto [y1, s1] = model.stateless_call(trainable, state, x, true);
  auto [y2, s2] = model.stateless_call(trainable, state, x, true);
  CHECK(fingerprint(Tree::list({trainable, state, Tree(x)})) == before);
  CHECK(fingerprint(Tree(y1)) == fingerprint(Tree(y2)));
  CHECK(fingerprint(s1) == fingerprint(s2));
}

TEST_CASE("one leaf too few names the path and both counts") {
  const Model model([](Scope& scope, const Array& x) { return batch_norm(scope["norm"], two_layers(scope, x)); });
  const Array x = ones({2, 4});
  auto [trainable, state] = model.init(random::key(0), x);
  Tree fewer = Tree::dict({{"first", trainable.at("first")}, {"norm", trainable.at("norm")}});
  fewer = fewer.with("second/kernel", trainable.at("second/kernel"));
  tests::expect_error<StateError>([&] { static_cast<void>(model.stateless_call(fewer, state, x, true)); },
                                  "second/bias");
  tests::expect_error<StateError>([&] { static_cast<void>(model.stateless_call(fewer, state, x, true)); },
                                  "5 leaves were given, 6 expected");
  const Tree no_variance = Tree::dict({{"norm", Tree::dict({{"moving_mean", state.at("norm/moving_mean")}})}});
  tests::expect_error<StateError>([&] { static_cast<void>(model.stateless_call(trainable, no_variance, x, true)); },
                                  "norm/moving_variance");
  tests::expect_error<StateError>([&] { static_cast<void>(model.stateless_call(trainable, no_variance, x, true)); },
                                  "1 leaves were given, 2 expected");
}

TEST_CASE("surplus and misshapen leaves are named") {
  const Model model(two_layers);
  const Array x = ones({2, 4});
  auto [trainable, state] = model.init(random::key(0), x);
  tests::expect_error<StateError>(
      [&] { static_cast<void>(model.stateless_call(trainable.with("third/kernel", Tree(x)), state, x, true)); },
      "surplus trainable leaf 'third/kernel'");
  tests::expect_error<StateError>(
      [&] {
        static_cast<void>(model.stateless_call(trainable.with("first/kernel", Tree(ones({4, 4}))), state, x, true));
      },
      "'first/kernel' has shape [4,4], its declaration says [4,3]");
  tests::expect_error<StateError>(
      [&] {
        static_cast<void>(model.stateless_call(trainable.with("first/bias", Tree(ones({3}, int32))), state, x, true));
      },
      "dtype int32");
}

TEST_CASE("a call before init says that the model must be built") {
  const Model model(two_layers);
  tests::expect_error<StateError>(
      [&] {
        static_cast<void>(model.stateless_call(Tree(), Tree(), ones({2, 4}), true));
      },
      "must be built: call init");
}

TEST_CASE("no variable comes to be inside a call") {
  const Model model([](Scope& scope, const Array& x) {
    if (!scope.is_init()) scope.trainable("late", {.shape = {2}});
    return x;
  });
  auto [trainable, state] = model.init(random::key(0), ones({2}));
  const Tree some = trainable.with("other", Tree(ones({1})));
  tests::expect_error<StateError>([&] { static_cast<void>(model.stateless_call(some, state, ones({2}), true)); },
                                  "'late' is missing");
  tests::expect_error<StateError>([&] { static_cast<void>(model.stateless_call(some, state, ones({2}), true)); },
                                  "variables come to be in init only");
}

TEST_CASE("outputs, state and penalties come back from one call") {
  const Model model([](Scope& scope, const Array& x) {
    const Array w = scope.trainable("w", {.shape = {2}, .initializer = initializers::constant(-3)});
    scope.non_trainable("seen", {.shape = {}, .aggregation = Aggregation::sum});
    scope.accumulate("seen", sum(x));
    return dropout(scope["drop"], x * w, 0.5);
  });
  const Batch batch = rows_of({1, 2, 3, 4, 5, 6, 7, 8}, 2);
  auto [trainable, state] = model.init(random::key(0), batch.x);
  CHECK(l1_penalty(trainable, 0.5).item<float>() == 3);
  const auto [expected, unused] = model.stateless_call(trainable, state, batch.x, true);
  for (const auto& replicas : tests::replica_counts) {
    auto [y, next] = tests::call_on(replicas, model, trainable, state, batch, true);
    CHECK(y.to_vector<float>() == expected.to_vector<float>());
    CHECK(next.at("seen").array().item<float>() == 36);
    CHECK(next.at("drop/rng").array().to_vector<std::uint32_t>()[2] == 1);
  }
}

TEST_CASE("padded rows touch no statistic, whatever they hold") {
  const auto model = normalizing({.momentum = 0});
  for (const float padding : {0.0F, 0.1F, 1.0F, NAN}) {
    Batch batch = rows_of({1, 5, 2, 5, padding, padding, padding, padding}, 2);
    batch.weight = array({1.0F, 1.0F, 0.0F, 0.0F});
    auto [trainable, state] = model.init(random::key(0), batch.x);
    for (const auto& replicas : tests::replica_counts) {
      const Tree next = tests::call_on(replicas, model, trainable, state, batch, true).second;
      check_near(next.at("norm/moving_mean").array(), {1.5, 5});
      check_near(next.at("norm/moving_variance").array(), {0.25, 0});
    }
  }
}

TEST_CASE("a batch without a real row gives 0, no NaN, and keeps the state") {
  const auto model = normalizing({.center = false, .scale = false});
  Batch batch = tests::batch_of(zeros({4, 5}));
  batch.weight = zeros({4});
  auto [trainable, state] = model.init(random::key(0), batch.x);
  for (const auto& replicas : tests::replica_counts) {
    auto [y, next] = tests::call_on(replicas, model, trainable, state, batch, true);
    CHECK(y.to_vector<float>() == Values(20, 0.0F));
    CHECK(fingerprint(next) == fingerprint(state));
  }
}

TEST_CASE("frozen statistics normalise in training too") {
  const auto model = normalizing({.epsilon = 1e-7, .trainable = false});
  const Array x = random::normal(random::key(0), {8, 3});
  auto [trainable, state] = model.init(random::key(0), x);
  auto [y, next] = model.stateless_call(trainable, state, x, true);
  check_near(y, x.to_vector<float>());
  CHECK(fingerprint(next) == fingerprint(state));
}

TEST_CASE("statistics of a float16 model are float32 and do not overflow") {
  const auto model = normalizing({});
  const Array x = zeros({4, 2}, float16);
  auto [trainable, state] = model.init(random::key(0), x);
  CHECK(state.at("norm/moving_variance").array().dtype() == float32);
  state = state.with("norm/moving_variance", Tree(full({2}, 70000.0)));
  auto [y, next] = model.stateless_call(trainable, state, x, false);
  CHECK(y.dtype() == float16);
  CHECK(next.at("norm/moving_variance").array().to_vector<float>() == Values{70000, 70000});
}

TEST_CASE("synchronised BatchNorm over shards is BatchNorm over the batch") {
  const auto model = normalizing({.momentum = 0.9});
  const Batch batch = rows_of({0, 2, 4, 10}, 1);
  auto [trainable, state] = model.init(random::key(0), batch.x);
  for (const auto& replicas : tests::replica_counts) {
    auto [y, next] = tests::call_on(replicas, model, trainable, state, batch, true);
    check_near(next.at("norm/moving_mean").array(), {0.4F});
    check_near(next.at("norm/moving_variance").array(), {2.3F});
    check_near(y, {-1.069007F, -0.534503F, 0, 1.60351F});
  }
}

TEST_CASE("BatchNorm per shard is another model, its statistics averaged") {
  const auto model = normalizing({.momentum = 0.9, .synchronized = false});
  const Batch batch = rows_of({0, 2, 4, 10}, 1);
  auto [trainable, state] = model.init(random::key(0), batch.x);
  for (const Replicas replicas : {Replicas{2, 1}, Replicas{2, 2}}) {
    auto [y, next] = tests::call_on(replicas, model, trainable, state, batch, true);
    check_near(next.at("norm/moving_mean").array(), {0.4F});
    check_near(next.at("norm/moving_variance").array(), {1.4F});
    check_near(y, {-0.9995F, 0.9995F, -0.999944F, 0.999944F});
  }
  Batch padded = rows_of({0, 2, 7, 7}, 1);
  padded.weight = array({1.0F, 1.0F, 0.0F, 0.0F});
  const Tree next = tests::call_on({2, 2}, model, trainable, state, padded, true).second;
  check_near(next.at("norm/moving_mean").array(), {0.1F});
}

TEST_CASE("with momentum 0, evaluation after a training call repeats its output") {
  const auto model = normalizing({.momentum = 0});
  const Batch batch = tests::batch_of(random::normal(random::key(5), {16, 4}));
  auto [trainable, state] = model.init(random::key(0), batch.x);
  for (const auto& replicas : tests::replica_counts) {
    auto [trained, next] = tests::call_on(replicas, model, trainable, state, batch, true);
    auto [evaluated, same] = tests::call_on(replicas, model, trainable, next, batch, false);
    check_near(evaluated, trained.to_vector<float>(), 1e-5);
    CHECK(fingerprint(same) == fingerprint(next));
  }
}
