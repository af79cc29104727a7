#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/replicas.h"
#include "tests/support/training.h"

// Several losses, models and optimizers in one compiled step, each gradient reduced once.

using namespace lockstep;
using tests::Replicas;

namespace {

Model<Array, Array> gan_network(std::int64_t units) {
  return Model([units](Scope& scope, const Array& x) {
    const Array h = dropout(scope["drop"], tanh(dense(scope["first"], x, {.units = 6})), 0.25);
    return dense(scope["head"], h, {.units = units});
  });
}

/// A generator of 3 numbers from 2, and what tells them from a batch's.
struct Gan {
  Model<Array, Array> generator = gan_network(3);
  Model<Array, Array> critic = gan_network(1);

  std::pair<Array, Tree> fake(const Tree& w, const Tree& state, const Batch& b) const {
    auto [made, next] =
        generator.stateless_call(w.at("generator"), state.at("generator"), b.y, true, {.rows = b.weight});
    return {made, state.with("generator", next)};
  }
  std::pair<Array, Tree> judged(const Tree& w, const Tree& state, const Array& x, const Batch& b) const {
    auto [score, next] = critic.stateless_call(w.at("critic"), state.at("critic"), x, true, {.rows = b.weight});
    return {score, state.with("critic", next)};
  }
  WithAux generator_loss(const Tree& w, const Tree& state, const Batch& b) const {
    const auto [made, next] = fake(w, state, b);
    const auto [score, last] = judged(w, next, made, b);
    return {binary_cross_entropy(score, ones_like(score), b.weight), last, {}};
  }
  WithAux critic_loss(const Tree& w, const Tree& state, const Batch& b) const {
    const auto [made, next] = fake(w, state, b);
    const auto [score, middle] = judged(w, next, made, b);
    const auto [real, last] = judged(w, middle, b.x, b);
    return {Loss(binary_cross_entropy(score, zeros_like(score), b.weight)) +
                Loss(binary_cross_entropy(real, ones_like(real), b.weight)),
            last,
            {{"real", weighted(real, b.weight)}}};
  }
  std::vector<Objective> objectives(bool in_turn = false) const {
    return {{.name = "critic",
             .loss = [*this](const Tree& w, const Tree& s, const Batch& b) { return critic_loss(w, s, b); },
             .optimizers = {{"critic", optim::adam(1e-2)}}},
            {.name = "generator",
             .loss = [*this](const Tree& w, const Tree& s, const Batch& b) { return generator_loss(w, s, b); },
             .optimizers = {{"generator", optim::sgd(0.1)}},
             .sees_updates = in_turn}};
  }
  std::pair<Tree, Tree> init() const {
    auto [g, g_state] = generator.init(random::key(1), zeros({1, 2}, float64));
    auto [c, c_state] = critic.init(random::key(2), zeros({1, 3}, float64));
    return {Tree::dict({{"generator", g}, {"critic", c}}), Tree::dict({{"generator", g_state}, {"critic", c_state}})};
  }
};

Batch images_and_noise(std::int64_t rows) {
  return {random::normal(random::key(3), {rows, 3}, float64), random::normal(random::key(4), {rows, 2}, float64), {}};
}

Tree outcome(const std::vector<Objective>& objectives, const std::pair<Tree, Tree>& start, const Batch& batch,
             const Replicas& replicas, std::int64_t microbatches) {
  DataParallelOptions options = tests::parallel(replicas);
  options.microbatches = microbatches;
  const TrainStep step = data_parallel(objectives, options);
  auto [first, logs] = step(step.init(start.first, start.second), batch);
  auto [second, again] = step(std::move(first), batch);
  return Tree::list({to_tree(second), to_tree(again)});
}

void check_outcome(const Tree& a, const Tree& b) {
  REQUIRE(a.paths() == b.paths());
  for (const std::string& path : a.paths()) {
    CAPTURE(path);
    CHECK(
        allclose(convert(a.at(path).array(), float64), convert(b.at(path).array(), float64), 1e-9, 1e-11).item<bool>());
  }
}

}  // namespace

TEST_CASE("a generator and its critic: two losses, two optimizers, one step of one meaning") {
  const Gan gan;
  for (const bool in_turn : {false, true}) {
    const Tree plain = outcome(gan.objectives(in_turn), gan.init(), images_and_noise(13), {1, 1}, 1);
    for (const Replicas replicas : {Replicas{2, 2}, {4, 1}}) {
      for (const std::int64_t microbatches : {1, 2}) {
        const Tree cut = outcome(gan.objectives(in_turn), gan.init(), images_and_noise(13), replicas, microbatches);
        check_outcome(cut, plain);
      }
    }
    CHECK(fingerprint(outcome(gan.objectives(in_turn), gan.init(), images_and_noise(16), {4, 4}, 1)) ==
          fingerprint(outcome(gan.objectives(in_turn), gan.init(), images_and_noise(16), {4, 1}, 1)));
    for (const std::string log : {"critic.loss", "critic.grad_norm", "critic.real", "generator.loss"}) {
      CHECK(plain.items()[1].entries().contains(log));
    }
  }
}

TEST_CASE("each loss moves what its optimizers have, by the gradient that it has there") {
  const Gan gan;
  const auto [w, state] = gan.init();
  const Batch batch{images_and_noise(8).x, images_and_noise(8).y, ones({8})};
  const TrainStep step = data_parallel(gan.objectives(), tests::parallel({2, 1}));
  const TrainState after = step(step.init(w, state), batch).first;
  // The generator's by hand, at the parameters before the step and the state that the critic's loss returned.
  const Tree between = gan.critic_loss(w, state, batch).state;
  const auto by_hand = [&](const Tree& g) {
    const WithAux aux = gan.generator_loss(w.with("generator", g), between, batch);
    return aux.loss.terms[0].sum / aux.loss.terms[0].weight;
  };
  const Tree gradient = grad(by_hand)(w.at("generator"));
  check_outcome(after.trainable.at("generator"),
                map([](const Array& p, const Array& g) { return p - 0.1 * g; }, w.at("generator"), gradient));
}

TEST_CASE("each gradient is reduced once, whatever number of losses reads its variable") {
  const Gan gan;
  const auto [w, state] = gan.init();
  const TrainStep step = data_parallel(gan.objectives(), tests::parallel({4, 2}));
  const Function program = step.program(step.init(w, state), images_and_noise(16));
  // 4 gradients each; the generator's loss and weight, the critic's two terms of both, its metric of both.
  CHECK(program.count("psum") == 4 + 4 + 2 + 4 + 2);
  CHECK(program.count("pmap") == 1);
}

TEST_CASE("a teacher whom no optimizer has, and a student") {
  const auto teacher = gan_network(1);
  const auto student = gan_network(1);
  const Batch batch = tests::regression_batch(16, 3, float64);
  auto [t, t_state] = teacher.init(random::key(1), batch.x);
  auto [s, s_state] = student.init(random::key(2), batch.x);
  const auto loss = [&](const Tree& w, const Tree& state, const Batch& b) {
    const Array wanted = teacher.stateless_call(w.at("teacher"), t_state, b.x, false, {.rows = b.weight}).first;
    auto [y, next] = student.stateless_call(w.at("student"), state, b.x, true, {.rows = b.weight});
    return WithAux{mean_squared_error(y, wanted, b.weight), next, {}};
  };
  const std::vector<Objective> objectives = {
      {.name = "", .loss = loss, .optimizers = {{"student", optim::adam(0.01)}}}};
  const TrainStep step = data_parallel(objectives, tests::parallel({4, 2}));
  const Tree w = Tree::dict({{"teacher", t}, {"student", s}});
  const TrainState start = step.init(w, s_state);
  CHECK(start.optimizer.contains("student"));
  CHECK_FALSE(start.optimizer.contains("teacher"));
  const auto [after, logs] = step(start, batch);
  CHECK(fingerprint(after.trainable.at("teacher")) == fingerprint(t));
  CHECK(fingerprint(after.trainable.at("student")) != fingerprint(s));
  CHECK(logs.contains("loss"));
  CHECK(step.program(start, batch).count("psum") == 4 + 2);
}

TEST_CASE("other rates for parts of one model, in one backward pass") {
  const auto model = gan_network(1);
  const Batch batch = tests::regression_batch(16, 3, float64);
  const auto [w, state] = model.init(random::key(1), batch.x);
  const auto after = [&](std::map<std::string, optim::GradientTransformation> optimizers) {
    const std::vector<Objective> one = {
        {.name = "", .loss = tests::loss_of(model), .optimizers = std::move(optimizers)}};
    const TrainStep step = data_parallel(one, tests::parallel({2, 2}));
    return step(step.init(w, state), batch).first.trainable;
  };
  const Tree both = after({{"first", optim::sgd(0.5)}, {"head", optim::sgd(0.1, 0.9)}});
  CHECK(fingerprint(both.at("first")) == fingerprint(after({{"", optim::sgd(0.5)}}).at("first")));
  CHECK(fingerprint(both.at("head")) == fingerprint(after({{"", optim::sgd(0.1, 0.9)}}).at("head")));
}

TEST_CASE("objectives that are none, nameless, doubled, or have parts that overlap or are not there") {
  const auto loss = [](const Tree&, const Tree& state, const Batch&) { return WithAux{Loss(zeros({})), state, {}}; };
  const auto step_of = [](const std::vector<Objective>& objectives) {
    return data_parallel(objectives, {.shards = 2});
  };
  const Objective a{.name = "a", .loss = loss, .optimizers = {{"x", optim::sgd(0.1)}}};
  Objective other = a;
  tests::expect_error<ValueError>([&] { static_cast<void>(step_of({})); }, "there is no objective");
  tests::expect_error<ValueError>([&] { static_cast<void>(step_of({a, other})); }, "two objectives are called 'a'");
  other.name = "";
  tests::expect_error<ValueError>([&] { static_cast<void>(step_of({a, other})); }, "objective 1 is called ''");
  other.optimizers = {};
  tests::expect_error<ValueError>([&] { static_cast<void>(step_of({other})); }, "has no optimizer");
  other.optimizers = {{"x", optim::sgd(0.1)}, {"x/y", optim::sgd(0.2)}};
  tests::expect_error<ValueError>([&] { static_cast<void>(step_of({other})); },
                                  "optimizers for 'x' and for 'x/y' below it");
  tests::expect_error<StateError>(
      [&] {
        static_cast<void>(step_of({a}).init(Tree::dict({{"y", zeros({})}}), Tree()));
      },
      "there is an optimizer for 'x'");
}
