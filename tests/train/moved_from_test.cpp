#include <memory>
#include <utility>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"

// Models, steps and losses that std::move took away, or that were never given, are errors where they are used or made.
using namespace lockstep;

namespace {

Array line(Scope& scope, const Array& x) { return dense(scope["line"], x, {.units = 1}); }

WithAux squared_error_of(const Tree& w, const Tree& state, const Batch& b) {
  return WithAux{mean_squared_error(matmul(b.x, w.array()), b.y, b.weight), state, {}};
}

const Batch four_ones{ones({4, 2}), ones({4, 1}), ones({4})};

}  // namespace

TEST_CASE("a step that was moved away says so in every use") {
  TrainStep step = data_parallel(squared_error_of, optim::sgd(0.1), {.shards = 1});
  const TrainStep moved = std::move(step);
  const TrainState state = moved.init(Tree(ones({2, 1})), Tree());
  CHECK(moved.traces() == 0);
  const TrainStep& left = step;
  const auto text = "training step: it holds nothing";
  tests::expect_error<ValueError>([&] { static_cast<void>(left(state, four_ones)); }, text);
  tests::expect_error<ValueError>([&] { static_cast<void>(left(state, to_tree(four_ones))); }, text);
  tests::expect_error<ValueError>([&] { static_cast<void>(left.init(Tree(ones({2, 1})), Tree())); }, text);
  tests::expect_error<ValueError>([&] { static_cast<void>(left.program(state, four_ones)); }, text);
  tests::expect_error<ValueError>([&] { static_cast<void>(left.parts()); }, text);
  tests::expect_error<ValueError>([&] { static_cast<void>(left.traces()); }, text);
  tests::expect_error<ValueError>([&] { static_cast<void>(left.mesh(4)); }, text);
  tests::expect_error<ValueError>([&] { static_cast<void>(lint(left, state, four_ones)); }, text);
  tests::expect_error<ValueError>([&] { static_cast<void>(check_one_meaning(left, state, four_ones)); }, text);

  EvaluateStep evaluate(squared_error_of, {.shards = 1});
  const EvaluateStep moved_evaluation = std::move(evaluate);
  CHECK(moved_evaluation(state.trainable, state.non_trainable, four_ones).count("loss") == 1);
  tests::expect_error<ValueError>([&] { static_cast<void>(evaluate(state.trainable, state.non_trainable, four_ones)); },
                                  "evaluation step: it holds nothing");
  tests::expect_error<ValueError>(
      [&] { static_cast<void>(evaluate(state.trainable, state.non_trainable, to_tree(four_ones))); },
      "evaluation step: it holds nothing");
}

TEST_CASE("a state that was moved away is refused") {
  const TrainStep step = data_parallel(squared_error_of, optim::sgd(0.1), {.shards = 1});
  TrainState state = step.init(Tree(ones({2, 1})), Tree());
  const TrainState next = step(std::move(state), four_ones).first;
  CHECK_THROWS_AS(static_cast<void>(step(std::move(state), four_ones)), Error);
  CHECK_THROWS_AS(fingerprint(to_tree(state)), Error);
}

TEST_CASE("a step without a loss or an optimizer is refused when it is made") {
  tests::expect_error<ValueError>([&] { static_cast<void>(data_parallel(LossFunction(), optim::sgd(0.1))); },
                                  "[step] the loss: it holds nothing");
  tests::expect_error<ValueError>([&] { static_cast<void>(EvaluateStep(LossFunction(), {})); },
                                  "[evaluate] the loss: it holds nothing");
  StepLoss loss(squared_error_of);
  const StepLoss moved = std::move(loss);
  tests::expect_error<ValueError>([&] { static_cast<void>(data_parallel(loss, optim::sgd(0.1))); },
                                  "[step] the loss: it holds nothing");
  optim::GradientTransformation optimizer = optim::sgd(0.1);
  const optim::GradientTransformation taken = std::move(optimizer);
  tests::expect_error<ValueError>([&] { static_cast<void>(data_parallel(moved, optimizer)); }, "[step] the optimizer");
}

TEST_CASE("a model and a scope that were moved away say so") {
  Model model(line);
  const Model moved = std::move(model);
  const auto [trainable, state] = moved.init(random::key(0), four_ones.x);
  tests::expect_error<ValueError>([&] { static_cast<void>(model.init(random::key(0), four_ones.x)); },
                                  "model: it holds nothing");
  tests::expect_error<ValueError>([&] { static_cast<void>(model.variables(four_ones.x)); }, "model: it holds nothing");
  tests::expect_error<ValueError>([&] { static_cast<void>(model.stateless_call(trainable, state, four_ones.x, true)); },
                                  "model: it holds nothing");
  const Model leaves_scope([](Scope& scope, const Array& x) {
    const Scope other = std::move(scope);
    return dense(scope["line"], dense(other["line"], x, {.units = 2}), {.units = 2});
  });
  tests::expect_error<ValueError>([&] { static_cast<void>(leaves_scope.init(random::key(0), four_ones.x)); },
                                  "scope: it holds nothing");
}

TEST_CASE("fit refuses counts and callbacks that make no sense") {
  const TrainStep step = data_parallel(squared_error_of, optim::sgd(0.1), {.shards = 1});
  data::TreeLoader loader(four_ones, {.batch = 2});
  const TrainState state = step.init(Tree(ones({2, 1})), Tree());
  const auto train = [&](TrainerOptions options, std::vector<std::shared_ptr<Callback>> callbacks) {
    return fit(step, state, loader, options, callbacks);
  };
  tests::expect_error<ValueError>([&] { static_cast<void>(train({.steps = -1}, {})); }, "steps is -1");
  tests::expect_error<ValueError>([&] { static_cast<void>(train({.steps = 1}, {nullptr})); }, "callback 0 is null");
}
