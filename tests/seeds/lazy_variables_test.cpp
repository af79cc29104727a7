#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/replicas.h"

// No ambient scope decides where a variable lives: models are built without a mesh and run on any, and nothing that runs
// in the middle of training can make new state.

using namespace lockstep;

namespace {

Array dense_and_dropout(Scope& scope, const Array& x) {
  return dense(scope["head"], dropout(scope["drop"], x, 0.5), {.units = 1});
}

LossFunction loss_of(const Model<Array, Array>& model) {
  return [model](const Tree& w, const Tree& state, const Batch& b) {
    auto [y, next] = model.stateless_call(w, state, b.x, true, {.rows = b.weight});
    return WithAux{mean_squared_error(y, zeros_like(y), b.weight), next, {}};
  };
}

std::shared_ptr<const data::Dataset> sixteen_rows() {
  auto set = std::make_shared<data::Dataset>();
  set->x = {{float32, {16, 3}, {}}, std::vector<std::byte>(16 * 3 * 4)};
  set->y = {{int32, {16}, {}}, std::vector<std::byte>(16 * 4)};
  set->classes = 1;
  return set;
}

}  // namespace

TEST_CASE("a model with dropout has one random state, whatever the replicas") {
  const Model model(dense_and_dropout);
  const Batch batch = tests::batch_of(ones({8, 3}));
  auto [trainable, state] = model.init(random::key(42), batch.x);
  const auto rng = [](const Tree& t) { return t.at("drop/rng").array().to_vector<std::uint32_t>(); };
  CHECK(rng(state)[2] == 0);
  for (const auto& replicas : tests::replica_counts) {
    const TrainStep step = data_parallel(model, loss_of(model), optim::sgd(0.1), tests::parallel(replicas));
    const TrainState after = step(step.init(trainable, state), batch).first;
    CHECK(rng(after.non_trainable) == std::vector<std::uint32_t>{rng(state)[0], rng(state)[1], 1});
  }
}

TEST_CASE("ten steps count ten, whatever the replicas") {
  const Model model(dense_and_dropout);
  const Batch batch = tests::batch_of(ones({8, 3}));
  auto [trainable, non_trainable] = model.init(random::key(0), batch.x);
  for (const auto& replicas : tests::replica_counts) {
    const TrainStep step = data_parallel(model, loss_of(model), optim::adam(0.1), tests::parallel(replicas));
    TrainState state = step.init(trainable, non_trainable);
    for (int i = 0; i < 10; ++i) state = step(std::move(state), batch).first;
    CHECK(state.step.dtype() == int64);
    CHECK(state.step.item<std::int64_t>() == 10);
    CHECK(state.optimizer.items()[0].at("count").array().item<std::int32_t>() == 10);
  }
}

TEST_CASE("a model built before any mesh trains on every mesh, with the same bits for the same shards") {
  const Model model(dense_and_dropout);
  const Batch batch = tests::batch_of(random::normal(random::key(1), {8, 3}));
  auto [trainable, non_trainable] = model.init(random::key(0), batch.x);
  const auto trained = [&](const tests::Replicas& replicas) {
    const TrainStep step = data_parallel(model, loss_of(model), optim::adam(0.1), tests::parallel(replicas));
    TrainState state = step.init(trainable, non_trainable);
    for (int i = 0; i < 5; ++i) state = step(std::move(state), batch).first;
    return fingerprint(to_tree(std::move(state)));
  };
  CHECK(trained({2, 1}) == trained({2, 2}));
  CHECK(trained({4, 1}) == trained({4, 2}));
  CHECK(trained({4, 1}) == trained({4, 4}));
}

TEST_CASE("a scope kept beyond its call makes nothing") {
  std::shared_ptr<Scope> kept;
  const Model model([&](Scope& scope, const Array& x) {
    kept = std::make_shared<Scope>(scope);
    return dense_and_dropout(scope, x);
  });
  auto [trainable, state] = model.init(random::key(0), ones({2, 3}));
  tests::expect_error<StateError>([&] { static_cast<void>(kept->trainable("late", {.shape = {1}})); },
                                  "after the model function had returned");
}

TEST_CASE("a callback that wants new state in the middle of a run gets an error, and the state it sees is constant") {
  class Grower final : public Callback {
   public:
    explicit Grower(std::shared_ptr<Scope>& scope) : scope_(scope) {}
    void on_step(const StepReport& report, const Tree& state, Requests&) override {
      static_assert(std::is_const_v<std::remove_reference_t<decltype(state)>>);
      if (report.step == 2) (*scope_).non_trainable("ema", {.shape = {1}});
    }

   private:
    std::shared_ptr<Scope>& scope_;
  };
  std::shared_ptr<Scope> kept;
  const Model model([&](Scope& scope, const Array& x) {
    kept = std::make_shared<Scope>(scope);
    return dense_and_dropout(scope, x);
  });
  for (const auto& replicas : tests::replica_counts) {
    const TrainStep step = data_parallel(model, loss_of(model), optim::sgd(0.1), tests::parallel(replicas));
    auto [trainable, non_trainable] = model.init(random::key(0), ones({2, 3}));
    data::Loader loader(sixteen_rows(), {.batch = 8});
    const auto run = [&] {
      return fit(step, step.init(trainable, non_trainable), loader, {.steps = 3}, {std::make_shared<Grower>(kept)});
    };
    tests::expect_error<StateError>([&] { static_cast<void>(run()); }, "'ema'");
  }
}

TEST_CASE("an optimizer or schedule that grows its state is refused before the first step") {
  const auto growing =
      optim::GradientTransformation{[](const Tree&) { return Tree::dict({}); },
                                    [](const Tree& g, const Tree& state, const Tree&) {
                                      return std::pair(g, state.with("late_schedule_count", Tree(ones({}))));
                                    }};
  const Model model(dense_and_dropout);
  for (const auto& replicas : tests::replica_counts) {
    const TrainStep step = data_parallel(model, loss_of(model), growing, tests::parallel(replicas));
    auto [trainable, non_trainable] = model.init(random::key(0), ones({4, 3}));
    tests::expect_error<StateError>(
        [&] {
          static_cast<void>(step(step.init(trainable, non_trainable), tests::batch_of(ones({4, 3}))));
        },
        "late_schedule_count");
  }
}

TEST_CASE("a loss that returns another state than it was given is refused by path") {
  const Model model(dense_and_dropout);
  const auto loss = [&](const Tree& w, const Tree& state, const Batch& b) {
    WithAux result = loss_of(model)(w, state, b);
    result.state = result.state.with("extra", Tree(ones({})));
    return result;
  };
  const TrainStep step = data_parallel(model, loss, optim::sgd(0.1), tests::parallel({2, 2}));
  auto [trainable, non_trainable] = model.init(random::key(0), ones({4, 3}));
  tests::expect_error<StateError>(
      [&] {
        static_cast<void>(step(step.init(trainable, non_trainable), tests::batch_of(ones({4, 3}))));
      },
      "extra");
}
