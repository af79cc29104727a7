#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/replicas.h"
#include "tests/support/training.h"

// What an optimizer freezes is not differentiated: it has no backward pass, no reduction, no slots and no part in grad_norm.

using namespace lockstep;

namespace {

constexpr int body_layers = 4;

Model<Array, Array> deep() {
  return Model([](Scope& scope, const Array& x) {
    Array h = x;
    for (int i = 0; i < body_layers; ++i) h = tanh(dense(scope["layer" + std::to_string(i)], h, {.units = 8}));
    return dense(scope["head"], h, {.units = 1});
  });
}

bool in_body(std::string_view path) { return path.starts_with("layer"); }

struct Counts {
  std::int64_t products, sums;
  bool operator==(const Counts&) const = default;
};

Counts counts_of(const optim::GradientTransformation& optimizer, std::int64_t microbatches = 1) {
  const auto model = deep();
  const Batch batch = tests::regression_batch(16, 8, float32);
  DataParallelOptions options = tests::parallel({4, 2});
  options.microbatches = microbatches;
  const TrainStep step = data_parallel(tests::loss_of(model), optimizer, options);
  const Function program = step.program(tests::fresh_state(step, model, batch), batch);
  return {program.count("dot_general"), program.count("psum")};
}

}  // namespace

TEST_CASE("a frozen body costs no backward pass and no reduction") {
  // 5 products forward; backward 5 for kernels and 4 for what the layers read. A psum a gradient, of the loss and of its
  // weight.
  CHECK(counts_of(optim::adamw(1e-2)) == Counts{14, 10 + 2});
  const auto frozen = optim::freeze(in_body);
  for (const std::int64_t microbatches : {1, 2}) {
    CAPTURE(microbatches);
    CHECK(counts_of(optim::chain(optim::adamw(1e-2), frozen), microbatches) == Counts{6, 2 + 2});
    CHECK(counts_of(optim::chain(frozen, optim::adamw(1e-2)), microbatches) == Counts{6, 2 + 2});
  }
  // A head alone: gradients pass through the head's product.
  const auto head = optim::freeze(optim::below("head"));
  CHECK(counts_of(optim::chain(optim::adamw(1e-2), head)) == Counts{13, 8 + 2});
  // Masked: only what both masks take.
  const auto masked = optim::masked(frozen, optim::below("layer0"));
  CHECK(counts_of(optim::chain(optim::sgd(0.1), masked)) == Counts{12, 8 + 2});
}

TEST_CASE("grad_norm and clipping leave frozen leaves out, slots too, and the others move as ever") {
  const auto model = deep();
  const Batch batch = tests::regression_batch(16, 8, float64);
  const auto run = [&](const optim::GradientTransformation& optimizer) {
    const TrainStep step = data_parallel(tests::loss_of(model), optimizer, tests::parallel({2, 2}));
    const TrainState start = tests::fresh_state(step, model, batch);
    auto [after, logs] = step(start, batch);
    return std::tuple(start, after, logs.at("grad_norm").item<double>());
  };
  const auto [start, after, norm] = run(optim::chain(optim::adam(1e-2), optim::freeze(in_body)));
  CHECK(start.optimizer.size() == 2 * 2 + 2);  // two moments of the kernel and the bias of the head, two counts
  const auto [whole, moved, whole_norm] = run(optim::adam(1e-2));
  CHECK(norm < whole_norm);
  CHECK(fingerprint(after.trainable.at("head")) == fingerprint(moved.trainable.at("head")));
  for (int i = 0; i < body_layers; ++i) {
    const std::string layer = "layer" + std::to_string(i);
    CHECK(fingerprint(after.trainable.at(layer)) == fingerprint(start.trainable.at(layer)));
  }
}

TEST_CASE("weights that decay do not decay where they are frozen, wherever the freeze stands in a chain") {
  const Tree params = Tree::dict({{"a", ones({2})}, {"b", ones({2})}});
  const Tree gradients = Tree::dict({{"a", ones({2})}, {"b", ones({2})}});
  for (const bool first : {false, true}) {
    const auto decaying = optim::chain(optim::add_decayed_weights(0.5), optim::scale_by_learning_rate(0.1));
    const auto frozen = optim::freeze(optim::below("a"));
    const auto optimizer = first ? optim::chain(frozen, decaying) : optim::chain(decaying, frozen);
    const auto [updates, state] = optimizer.update(gradients, optimizer.init(params), params);
    CHECK(updates.at("a").array().to_vector<float>() == std::vector<float>{0, 0});
    CHECK(updates.at("b").array().to_vector<float>() == std::vector<float>{-0.15F, -0.15F});
  }
}

TEST_CASE("a step whose every leaf is frozen computes its loss and stays") {
  const auto model = deep();
  const Batch batch = tests::regression_batch(16, 8, float64);
  for (const std::int64_t microbatches : {1, 2}) {
    DataParallelOptions options = tests::parallel({2, 2});
    options.microbatches = microbatches;
    const auto all = [](std::string_view) { return true; };
    const TrainStep step =
        data_parallel(tests::loss_of(model), optim::chain(optim::adamw(1e-2), optim::freeze(all)), options);
    const TrainState start = tests::fresh_state(step, model, batch);
    const auto [after, logs] = step(start, batch);
    CHECK(fingerprint(after.trainable) == fingerprint(start.trainable));
    CHECK(logs.at("grad_norm").item<double>() == 0);
    CHECK(logs.at("loss").item<double>() > 0);
  }
}
