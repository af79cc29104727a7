#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/allocations/counted_allocations.h"
#include "tests/support/skip.h"

// What a steady call takes from the system's allocator: a call like those before it.
namespace lockstep::tests {
namespace {

constexpr int warm_calls = 4;
constexpr int counted_calls = 10;

/// Allocations of one call of `f`, once it is steady.
template <class F>
double steady_allocations(const F& f) {
  for (int i = 0; i < warm_calls; ++i) f();
  const std::int64_t count = allocations_during([&] {
    for (int i = 0; i < counted_calls; ++i) f();
  });
  return static_cast<double>(count) / counted_calls;
}

Array two_layers(Scope& scope, const Array& x) {
  return dense(scope["head"], tanh(dense(scope["hidden"], x, {.units = 32})), {.units = 10});
}

Array convolutions(Scope& scope, const Array& x) {
  const Array h = relu(batch_norm(scope["norm"], conv2d(scope["first"], x, {.filters = 16, .use_bias = false})));
  const Array y = max_pool2d(relu(conv2d(scope["second"], h, {.filters = 32, .strides = {2, 2}})), {2, 2});
  return dense(scope["head"], flatten(y), {.units = 10});
}

/// A step over two shards on two devices.
TrainStep step_of(const Model<Array, Array>& model, const optim::GradientTransformation& optimizer) {
  const auto loss = [model](const Tree& w, const Tree& state, const Batch& b) {
    auto [y, next] = model.stateless_call(w, state, b.x, true, {.rows = b.weight});
    return WithAux{softmax_cross_entropy(y, b.y, b.weight), next, {{"accuracy", accuracy(y, b.y, b.weight)}}};
  };
  return data_parallel(model, loss, optimizer, {.devices = devices("cpu:0-1"), .shards = 2});
}

Batch batch_of(const Shape& shape) {
  return {random::normal(random::key(1), shape), random::randint(random::key(2), {shape[0]}, 0, 10), ones({shape[0]})};
}

TrainState first_state(const TrainStep& step, const Model<Array, Array>& model, const Batch& batch) {
  auto [trainable, non_trainable] = model.init(random::key(3), batch.x);
  return step.init(std::move(trainable), std::move(non_trainable));
}

}  // namespace

TEST_CASE("allocations are counted") {
  if (!counts_allocations()) return skip(not_counted);
  std::vector<int> values;
  CHECK(allocations_during([&] { values.reserve(100); }) == 1);
  CHECK(allocations_during([&] { values.clear(); }) == 0);
}

TEST_CASE("a steady call of a compiled function allocates nothing") {
  if (!counts_allocations()) return skip(not_counted);
  const auto identity = jit([](const Array& x) { return x; });
  const Array x = ones({3});
  Array y = identity(x);
  CHECK(steady_allocations([&] { y = identity(x); }) == 0);
  CHECK(steady_allocations([&] { y = identity(std::move(y)); }) == 0);

  Tree tree = Tree::dict({{"a_name_too_long_to_be_kept_in_a_string", Tree(ones({2}))},
                          {"list", Tree::list({Tree(ones({})), Tree(StaticValue(0.5)), Tree()})}});
  const auto pass = jit([](const Tree& t) { return t; });
  tree = pass(std::move(tree));
  CHECK(steady_allocations([&] { tree = pass(std::move(tree)); }) == 0);
  CHECK(steady_allocations([&] { tree = pass(tree); }) == 0);
}

TEST_CASE("a steady call with kernels allocates nothing, whether its arguments are donated or kept") {
  if (!counts_allocations()) return skip(not_counted);
  const auto next = jit([](const Array& x, const Array& y) { return std::tuple(x * 2 - y, exp(y)); });
  Array x = ones({64});
  Array y = zeros({64});
  CHECK(steady_allocations([&] { std::tie(x, y) = next(std::move(x), std::move(y)); }) == 0);
  Array a, b;
  CHECK(steady_allocations([&] { std::tie(a, b) = next(x, y); }) == 0);
}

TEST_CASE("a steady training step of V = 2 on two devices allocates nothing, with weights of rows and without") {
  if (!counts_allocations()) return skip(not_counted);
  const Model model(two_layers);
  for (const auto& optimizer : {optim::sgd(0.1, 0.9), optim::adamw(1e-3)}) {
    const TrainStep step = step_of(model, optimizer);
    Batch batch = batch_of({16, 8});
    TrainState state = first_state(step, model, batch);
    Logs logs;
    CHECK(steady_allocations([&] { std::tie(state, logs) = step(std::move(state), batch); }) == 0);
    CHECK(logs.at("loss").item<float>() > 0);
    batch.weight = Array();
    CHECK(steady_allocations([&] { std::tie(state, logs) = step(std::move(state), batch); }) == 0);
  }
}

TEST_CASE("a steady training step of a convolutional, a recurrent or an attentive model allocates nothing of its own") {
  if (!counts_allocations()) return skip(not_counted);
  const auto allocations = [](const Model<Array, Array>& model, const Shape& images) {
    const TrainStep step = step_of(model, optim::adamw(1e-3));
    const Batch batch = batch_of(images);
    TrainState state = first_state(step, model, batch);
    Logs logs;
    return steady_allocations([&] { std::tie(state, logs) = step(std::move(state), batch); });
  };
  CHECK(
      allocations(Model([](Scope& scope, const Array& x) { return models::lstm_classifier(scope, x, {.units = 16}); }),
                  {16, 6, 8}) == 0);
  CHECK(allocations(Model(convolutions), {16, 16, 16, 3}) == 0);
  CHECK(allocations(Model([](Scope& scope, const Array& x) {
                      return models::vit(scope, x, {.blocks = {.width = 16, .depth = 2, .heads = 2}});
                    }),
                    {16, 8, 8, 3}) == 0);
}

TEST_CASE("a convolutional step moves no activation to another layout and runs no reference kernel") {
  const Model model(convolutions);
  const TrainStep step = step_of(model, optim::sgd(0.1, 0.9));
  const Batch batch = batch_of({16, 16, 16, 3});
  const TrainState state = first_state(step, model, batch);
  const Plan plan =
      trace_function([&](const TrainState& s, const Batch& b) { return step(s, b); }, state, batch).plan();
  std::map<std::string, std::set<std::string>> backends;
  // The loop that follows a kernel is computed by the same call, "conv + fused(add)".
  for (const OpCost& cost : plan.ops) backends[cost.op.substr(0, cost.op.find(" + "))].insert(cost.backend);
  for (const char* const move : {"copy", "transpose", "rev", "slice", "pad"}) {
    CAPTURE(move);
    CHECK_FALSE(backends.contains(move));
  }
  if (!backends.at("conv").contains("onednn")) return skip("oneDNN offers nothing without vector instructions");
  // oneDNN's kernels are refused where they are its reference ones; images enter them as they lie.
  for (const char* const op : {"conv", "conv_input_grad", "conv_kernel_grad", "dot_general"}) {
    CAPTURE(op);
    CHECK(backends.at(op) == std::set<std::string>{"onednn"});
  }
}

}  // namespace lockstep::tests
