#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"

// Steps outlive the functions that made them: they hold the models, losses and optimizers that they need.
using namespace lockstep;

namespace {

Array dropping_layers(Scope& s, const Array& x) {
  return dense(s["head"], dropout(s["drop"], tanh(dense(s["hidden"], x, {.units = 8})), 0.2), {.units = 3});
}

const DataParallelOptions lifetime_options{.devices = devices("cpu:0-1"), .shards = 4};

Batch lifetime_batch() {
  const Array x = random::normal(random::key(1), {16, 5});
  return {x, argmax(slice_in_dim(x, 0, 3, 1), 1), {}};
}

/// What two steps make of a model with this one's variables.
std::string print_after_two_steps(const TrainStep& step, const Model<Array, Array>& model) {
  auto [trainable, non_trainable] = model.init(random::key(7), lifetime_batch().x);
  TrainState state = step.init(trainable, non_trainable);
  for (int i = 0; i < 2; ++i) state = step(std::move(state), lifetime_batch()).first;
  return fingerprint(to_tree(std::move(state)));
}

TrainStep step_with_captured_model() {
  const Model model(dropping_layers);
  const auto loss = [model](const Tree& weights, const Tree& state, const Batch& b) {
    auto [logits, next] = model.stateless_call(weights, state, b.x, true, {.rows = b.weight});
    return WithAux{softmax_cross_entropy(logits, b.y, b.weight), next, {}};
  };
  return data_parallel(model, loss, optim::adam(0.05), lifetime_options);
}

TrainStep step_with_loss_of_outputs() {
  const Model model(dropping_layers);
  return data_parallel(
      model, [](const Array& logits, const Batch& b) { return softmax_cross_entropy(logits, b.y, b.weight); },
      optim::adam(0.05), lifetime_options);
}

/// Overwrites what returned functions left on the stack.
int overwrite_stack() {
  volatile char bytes[16384];
  for (volatile char& byte : bytes) byte = 'x';
  return bytes[100];
}

/// Counts how often it is copied.
struct Counted {
  std::shared_ptr<int> copies;

  explicit Counted(std::shared_ptr<int> count) : copies(std::move(count)) {}
  Counted(const Counted& other) : copies(other.copies) { ++*copies; }
  Counted(Counted&& other) noexcept = default;
  Counted& operator=(const Counted&) = delete;
  Counted& operator=(Counted&&) = delete;
  ~Counted() = default;

  Array operator()(Scope& s, const Array& x) const { return dropping_layers(s, x); }
};

}  // namespace

TEST_CASE("a step that a function returns trains as one whose model is still there") {
  const Model model(dropping_layers);
  const auto loss = [&](const Tree& weights, const Tree& state, const Batch& b) {
    auto [logits, next] = model.stateless_call(weights, state, b.x, true, {.rows = b.weight});
    return WithAux{softmax_cross_entropy(logits, b.y, b.weight), next, {}};
  };
  const std::string expected = print_after_two_steps(data_parallel(loss, optim::adam(0.05), lifetime_options), model);
  for (TrainStep (*make)() : {step_with_captured_model, step_with_loss_of_outputs}) {
    const TrainStep step = make();
    CHECK(overwrite_stack() == 'x');
    CHECK(print_after_two_steps(step, model) == expected);
  }
}

TEST_CASE("a loss of outputs sees the batch's weights and may add penalties") {
  const Model model(dropping_layers);
  Batch masked = lifetime_batch();
  masked.weight = convert(arange(16) < 9, float32);
  const auto of_outputs = [](const Array& logits, const Batch& b) {
    return softmax_cross_entropy(logits, b.y, b.weight) + array(0.25f);
  };
  const auto written_out = [model](const Tree& weights, const Tree& state, const Batch& b) {
    auto [logits, next] = model.stateless_call(weights, state, b.x, true, {.rows = b.weight});
    return WithAux{softmax_cross_entropy(logits, b.y, b.weight) + array(0.25f), next, {}};
  };
  const auto logs_of = [&](const TrainStep& step) {
    auto [trainable, non_trainable] = model.init(random::key(7), masked.x);
    return step(step.init(trainable, non_trainable), masked).second.at("loss").item<double>();
  };
  CHECK(logs_of(data_parallel(model, of_outputs, optim::sgd(0.1), lifetime_options)) ==
        logs_of(data_parallel(model, written_out, optim::sgd(0.1), lifetime_options)));
}

TEST_CASE("copies of a model share its function, and a model that was moved away says so") {
  const auto copies = std::make_shared<int>(0);
  std::optional<Model<Array, Array>> first(std::in_place, Counted(copies));
  const int at_first = *copies;
  const Model<Array, Array> second = *first;
  const Model<Array, Array> third = second;
  CHECK(*copies == at_first);
  const auto [trainable, state] = first->init(random::key(7), lifetime_batch().x);
  const Array y = first->stateless_call(trainable, state, lifetime_batch().x, false).first;
  first.reset();
  CHECK(third.stateless_call(trainable, state, lifetime_batch().x, false).first.to_bytes() == y.to_bytes());

  Model<Array, Array> given = third;
  const Model<Array, Array> taken = std::move(given);
  CHECK(taken.variables(lifetime_batch().x).size() == third.variables(lifetime_batch().x).size());
  tests::expect_error<ValueError>([&] { static_cast<void>(given.variables(lifetime_batch().x)); },
                                  "model: it holds nothing");  // NOLINT: on purpose
}
