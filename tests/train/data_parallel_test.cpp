#include <cmath>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "engine/trace/array_state.h"
#include "tests/support/expect_error.h"
#include "tests/support/replicas.h"
#include "tests/support/training.h"
#include "tests/train/close_trees.h"

using namespace lockstep;
using tests::loss_of;
using tests::Replicas;

namespace {

/// Dense layers with what mixes rows or draws, if asked for. A bias before BatchNorm has no gradient but noise.
Model<Array, Array> mixing_net(bool mixing, std::int64_t units = 1) {
  return Model([=](Scope& scope, const Array& x) {
    Array h = dense(scope["first"], x, {.units = 8, .use_bias = !mixing});
    if (mixing) h = dropout(scope["drop"], batch_norm(scope["norm"], h, {.per_microbatch = true}), 0.25);
    return dense(scope["head"], tanh(h), {.units = units});
  });
}

tests::Trained train_net(const Replicas& replicas, const Batch& batch, int steps, bool mixing,
                         std::int64_t microbatches = 1) {
  const auto model = mixing_net(mixing);
  DataParallelOptions options = tests::parallel(replicas);
  options.microbatches = microbatches;
  const TrainStep step = data_parallel(model, loss_of(model), optim::adamw(1e-2), options);
  return tests::train(step, tests::fresh_state(step, model, batch), steps, [&](int) { return batch; });
}

std::string print_of(const TrainState& state) { return fingerprint(to_tree(state)); }

/// A batch none of whose arrays has the size of a leaf: results may be written over any argument that is given away.
Batch unlike_the_state() {
  Batch batch = tests::regression_batch(16, 5, float32);
  batch.y = zeros({16, 3});
  return batch;
}

const void* memory_of(const Array& x) { return x.state()->buffer->data(); }

/// Where the leaves of a state's parameters and slots lie.
std::set<const void*> memory_of(const TrainState& state) {
  std::set<const void*> places;
  for (const Tree& tree : {state.trainable, state.optimizer}) {
    for (const Array& leaf : tree.leaves()) places.insert(memory_of(leaf));
  }
  return places;
}

}  // namespace

TEST_CASE("33 rows over any shards equal 33 rows on one device; bits are equal over devices") {
  const Batch batch = tests::regression_batch(33, 5, float32);
  const tests::Trained one = train_net({1, 1}, batch, 5, true);
  for (const std::int64_t shards : {2, 4, 8}) {
    CAPTURE(shards);
    std::string expected;
    for (int devices = 1; devices <= shards; devices *= 2) {
      CAPTURE(devices);
      const tests::Trained many = train_net({shards, devices}, batch, 5, true);
      for (std::size_t i = 0; i < one.losses.size(); ++i) {
        CHECK(many.losses[i] == doctest::Approx(one.losses[i]).epsilon(1e-6));
      }
      tests::check_close(many.state.non_trainable, one.state.non_trainable, 1e-6);
      if (expected.empty()) expected = print_of(many.state);
      CHECK(print_of(many.state) == expected);
    }
  }
  const Batch wide{convert(batch.x, float64), convert(batch.y, float64), batch.weight};
  tests::check_close(to_tree(train_net({2, 2}, wide, 5, true).state), to_tree(train_net({1, 1}, wide, 5, true).state),
                     1e-10);
}

TEST_CASE("a batch of fewer rows than shards leaves shards empty, and means the same") {
  const Batch batch = tests::regression_batch(3, 5, float64);
  const tests::Trained one = train_net({1, 1}, batch, 3, true);
  for (const Replicas replicas : {Replicas{8, 1}, {8, 8}}) {
    tests::check_close(to_tree(train_net(replicas, batch, 3, true).state), to_tree(one.state), 1e-10);
  }
}

TEST_CASE("a step's dropout mask is one for 1, 2, 4 and 8 shards, and another in the next step") {
  const Model model([](Scope& scope, const Array& x) {
    return dropout(scope["drop"], x * scope.trainable("w", {.shape = {}, .initializer = initializers::ones()}), 0.5);
  });
  // Element (r, c) is 2^(2r + c): the sum of what is kept, doubled, names the mask.
  std::vector<float> powers;
  for (int i = 0; i < 16; ++i) powers.push_back(std::ldexp(1.0F, i));
  const Batch batch = tests::batch_of(array(powers, {8, 2}));
  const LossFunction loss = [&](const Tree& w, const Tree& state, const Batch& b) {
    auto [y, next] = model.stateless_call(w, state, b.x, true, {.rows = b.weight});
    return WithAux{mean_squared_error(y, b.x, b.weight), next, {{"kept", weighted(sum(y, Axes{1}), b.weight)}}};
  };
  const auto kept = [](const Array& y) { return sum(y).item<float>() / 8; };
  auto [trainable, state] = model.init(random::key(9), batch.x);
  const auto [first, next] = model.stateless_call(trainable, state, batch.x, true);
  const auto second = model.stateless_call(trainable, next, batch.x, true).first;
  REQUIRE(kept(first) != kept(second));
  for (const Replicas replicas : {Replicas{1, 1}, {2, 1}, {2, 2}, {4, 2}, {8, 8}}) {
    CAPTURE(replicas.shards);
    const TrainStep step = data_parallel(model, loss, optim::sgd(0.0), tests::parallel(replicas));
    auto [after, logs] = step(step.init(trainable, state), batch);
    CHECK(logs.at("kept").item<float>() == kept(first));
    CHECK(step(after, batch).second.at("kept").item<float>() == kept(second));
  }
}

TEST_CASE("microbatches add up to the whole batch's gradient, uneven ones too") {
  for (const std::int64_t rows : {32, 33, 5}) {
    CAPTURE(rows);
    const Batch batch = tests::regression_batch(rows, 5, float64);
    const tests::Trained whole = train_net({1, 1}, batch, 4, false);
    for (const Replicas replicas : {Replicas{1, 1}, {2, 2}, {4, 2}}) {
      for (const std::int64_t parts : {2, 4}) {
        CAPTURE(replicas.shards);
        CAPTURE(parts);
        tests::check_close(to_tree(train_net(replicas, batch, 4, false, parts).state), to_tree(whole.state), 1e-10);
      }
    }
  }
}

TEST_CASE("a moved-in state is updated in place; a kept copy is unharmed") {
  const auto model = mixing_net(true, 3);
  const Batch batch = unlike_the_state();
  const TrainStep step = data_parallel(model, loss_of(model), optim::adam(1e-2), tests::parallel({4, 2}));
  TrainState state = tests::fresh_state(step, model, batch);
  state = step(std::move(state), batch).first;

  const std::set<const void*> places = memory_of(state);
  const void* kernel = memory_of(state.trainable.at("first/kernel").array());
  state = step(std::move(state), batch).first;
  CHECK(memory_of(state) == places);
  CHECK(memory_of(state.trainable.at("first/kernel").array()) == kernel);

  const TrainState kept = state;
  const std::string before = print_of(kept);
  const TrainState next = step(std::move(state), batch).first;
  CHECK(print_of(kept) == before);
  CHECK(memory_of(kept) == places);
  for (const void* place : memory_of(next)) CHECK_FALSE(places.contains(place));
  CHECK(print_of(next) == print_of(step(kept, batch).first));
  CHECK(print_of(kept) == before);
}

TEST_CASE("a leaf that somebody keeps is copied, the others are updated in place") {
  const auto model = mixing_net(true, 3);
  const Batch batch = unlike_the_state();
  const TrainStep step = data_parallel(model, loss_of(model), optim::sgd(1e-2), tests::parallel({4, 2}));
  TrainState state = tests::fresh_state(step, model, batch);
  const Array kept = state.trainable.at("head/kernel").array();
  const std::vector<std::byte> before = kept.to_bytes();
  const void* kernel = memory_of(state.trainable.at("first/kernel").array());
  state = step(std::move(state), batch).first;
  CHECK(memory_of(state.trainable.at("first/kernel").array()) == kernel);
  CHECK(memory_of(state.trainable.at("head/kernel").array()) != memory_of(kept));
  CHECK(kept.to_bytes() == before);
  CHECK(state.trainable.at("head/kernel").array().to_bytes() != before);
}

TEST_CASE("twenty steps under a schedule trace once; other rows trace anew, once") {
  const auto model = mixing_net(true);
  const TrainStep step = data_parallel(model, loss_of(model), optim::adamw(schedules::warmup_cosine(0, 1e-2, 5, 20)),
                                       tests::parallel({2, 2}));
  const Batch batch = tests::regression_batch(8, 5, float32);
  tests::Trained run = tests::train(step, tests::fresh_state(step, model, batch), 20, [&](int i) {
    return tests::regression_batch(8, 5, float32, static_cast<std::uint64_t>(i));
  });
  CHECK(step.traces() == 1);
  CHECK(run.state.step.item<std::int64_t>() == 20);
  const Batch fewer = tests::regression_batch(6, 5, float32);
  run = tests::train(step, std::move(run.state), 2, [&](int) { return fewer; });
  CHECK(step.traces() == 2);
  run = tests::train(step, std::move(run.state), 1, [&](int) { return batch; });
  CHECK(step.traces() == 2);
}

TEST_CASE("logs hold the loss, the gradient's norm and every metric") {
  const Model model([](Scope& scope, const Array& x) {
    return x * scope.trainable("w", {.shape = {2}, .initializer = initializers::ones()});
  });
  const Batch batch = tests::batch_of(array(std::vector<float>{3, 0, 3, 0, 0, 4, 0, 4}, {4, 2}));
  const LossFunction loss = [&](const Tree& w, const Tree& state, const Batch& b) {
    auto [y, next] = model.stateless_call(w, state, b.x, true, {.rows = b.weight});
    return WithAux{weighted(sum(y, Axes{1}), b.weight), next, {{"largest", weighted(max(y, Axes{1}), b.weight)}}};
  };
  for (const Replicas& replicas : tests::replica_counts) {
    const TrainStep step = data_parallel(model, loss, optim::sgd(0.1), tests::parallel(replicas));
    const auto logs = step(tests::fresh_state(step, model, batch), batch).second;
    REQUIRE(logs.size() == 3);
    CHECK(logs.at("loss").item<float>() == 3.5F);
    CHECK(logs.at("grad_norm").item<float>() == 2.5F);  // of (1.5, 2)
    CHECK(logs.at("largest").item<float>() == 3.5F);
    std::vector<std::string> names;
    for (const auto& [name, value] : logs) names.push_back(name + " " + to_string(value.type()));
    CHECK(names == std::vector<std::string>{"grad_norm f32[]", "largest f32[]", "loss f32[]"});
    CHECK(from_tree<Logs>(to_tree(logs)).contains("loss"));
    tests::expect_error<StateError>([&] { (void)logs.at("smallest"); }, "there is no 'smallest'",
                                    "this step has: grad_norm, largest, loss");
  }
  CHECK(Logs().empty());
  CHECK(!Logs().contains("loss"));
  tests::expect_error<StateError>(
      [] {
        Logs(Tree::dict({{"loss", Tree::list({})}}));
      },
      "[logs] given {\"loss\": []}", "expected a dict of arrays");
}

TEST_CASE("a frozen sub-tree keeps its bits; the rest trains") {
  const auto model = mixing_net(true);
  const Batch batch = tests::regression_batch(8, 5, float32);
  const auto optimizer = optim::chain(optim::adamw(1e-2), optim::freeze(optim::below("first")));
  std::string expected;
  for (const Replicas replicas : {Replicas{4, 1}, {4, 4}}) {
    const TrainStep step = data_parallel(model, loss_of(model), optimizer, tests::parallel(replicas));
    const TrainState before = tests::fresh_state(step, model, batch);
    const TrainState after = tests::train(step, before, 5, [&](int) { return batch; }).state;
    for (const std::string& path : before.trainable.paths()) {
      CAPTURE(path);
      const bool same = before.trainable.at(path).array().to_bytes() == after.trainable.at(path).array().to_bytes();
      CHECK(same == path.starts_with("first/"));
    }
    if (expected.empty()) expected = print_of(after);
    CHECK(print_of(after) == expected);
  }
}

TEST_CASE("a loss of several terms: each divided by its own weight, a penalty counted once, a term without weight 0") {
  const Model model([](Scope& scope, const Array& x) {
    return x * scope.trainable("w", {.shape = {}, .initializer = initializers::constant(2)});
  });
  const Batch batch{array(std::vector<float>{1, 2, 3, 4}, {4, 1}), array({1.0F, 0.0F, 0.0F, 0.0F}),
                    array({1.0F, 1.0F, 1.0F, 0.0F})};
  const LossFunction loss = [&](const Tree& w, const Tree& state, const Batch& b) {
    auto [y, next] = model.stateless_call(w, state, b.x, true, {.rows = b.weight});
    const Array rows = squeeze(y, {1});
    const Loss terms = weighted(rows, b.weight) + 10.0 * Loss(weighted(square(rows), b.y)) +
                       Loss(weighted(rows, b.weight * 0)) + l2_penalty(w, 0.5);
    return WithAux{terms, next, {}};
  };
  for (const Replicas& replicas : tests::replica_counts) {
    const TrainStep step = data_parallel(model, loss, optim::sgd(1.0), tests::parallel(replicas));
    auto [after, logs] = step(tests::fresh_state(step, model, batch), batch);
    // mean(2 x) over 3 rows + 10 (2 * 1)^2 + 0 + 0.5 * 2^2; derivative by w: 2 + 10 * 2 * 2 + 0.5 * 2 * 2.
    CHECK(logs.at("loss").item<float>() == doctest::Approx(4 + 40 + 2));
    CHECK(logs.at("grad_norm").item<float>() == doctest::Approx(2 + 40 + 2));
    CHECK(after.trainable.at("w").array().item<float>() == doctest::Approx(2 - 44));
  }
}

TEST_CASE("an evaluation's sums are those of the whole batch, padding left out") {
  const auto model = mixing_net(true);
  const Batch batch = tests::regression_batch(13, 5, float64);
  auto [trainable, state] = model.init(random::key(1), batch.x);
  const Array y = model.stateless_call(trainable, state, batch.x, false).first;
  const double squares = sum(square(y - batch.y)).item<double>();
  const double largest = sum(abs(y)).item<double>();
  const LossFunction loss = [&](const Tree& w, const Tree& s, const Batch& b) {
    auto [out, next] = model.stateless_call(w, s, b.x, false, {.rows = b.weight});
    return WithAux{mean_squared_error(out, b.y, b.weight), next, {{"size", weighted(abs(out), b.weight)}}};
  };
  for (const Replicas& replicas : tests::replica_counts) {
    CAPTURE(replicas.shards);
    const EvaluateStep evaluate(loss, tests::parallel(replicas));
    const auto sums = evaluate(trainable, state, batch);
    REQUIRE(sums.size() == 2);
    CHECK(sums.at("loss").sum.item<double>() == doctest::Approx(squares).epsilon(1e-12));
    CHECK(sums.at("loss").weight.item<double>() == 13);
    CHECK(sums.at("size").sum.item<double>() == doctest::Approx(largest).epsilon(1e-12));
    CHECK(sums.at("size").weight.item<double>() == 13);
    Batch some = batch;
    some.weight = convert(arange(13) < 2, float32);
    CHECK(evaluate(trainable, state, some).at("loss").weight.item<double>() == 2);
  }
}
