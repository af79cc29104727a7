#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/replicas.h"
#include "tests/support/training.h"

// A loss is any function of the trainable tree, the state and the batch. What variables declare is found in the calls it
// makes; a model is not called but there.

using namespace lockstep;
using tests::Replicas;

namespace {

struct Views {
  Array left, right;
};
LOCKSTEP_TREE(Views, left, right);

struct SlopeAndOffset {
  Array slope, offset;
};
LOCKSTEP_TREE(SlopeAndOffset, slope, offset);

Model<Array, Array> tower(Aggregation aggregation = Aggregation::none) {
  return Model([aggregation](Scope& scope, const Array& x) {
    return dense(scope["head"], tanh(dense(scope["first"], x, {.units = 3, .aggregation = aggregation})), {.units = 1});
  });
}

/// The trainable tree after a step of rate 1.
Tree after_unit_step(const StepLoss& loss, const Tree& w, const Tree& state, const Batch& batch,
                     const Replicas& replicas, DataParallelOptions options = {}) {
  options.devices = tests::cpu_devices(replicas.devices);
  options.shards = replicas.shards;
  const TrainStep step = data_parallel(loss, optim::sgd(1.0), options);
  return step(step.init(w, state), batch).first.trainable;
}

void check_equal_over_shards(const StepLoss& loss, const Tree& w, const Tree& state, const Batch& batch) {
  const Tree one = after_unit_step(loss, w, state, batch, {1, 1});
  CHECK(fingerprint(one) != fingerprint(w));
  for (const Replicas replicas : {Replicas{2, 2}, {4, 1}}) {
    const Tree cut = after_unit_step(loss, w, state, batch, replicas);
    for (const std::string& path : w.paths()) {
      CAPTURE(path);
      CHECK(allclose(cut.at(path).array(), one.at(path).array(), 1e-10, 1e-12).item<bool>());
    }
  }
}

std::string tree_print(const Tree& tree) { return fingerprint(tree); }

}  // namespace

TEST_CASE("a model of a struct, whose parts the loss makes of one batch") {
  const Model model([](Scope& scope, const Views& views) {
    return dense(scope["left"], views.left, {.units = 1}) * dense(scope["right"], views.right, {.units = 1});
  });
  const Batch batch = tests::regression_batch(8, 4, float64);
  const auto [w, state] = model.init(random::key(1), Views{batch.x, batch.x});
  const auto loss = [&](const Tree& weights, const Tree& s, const Batch& b) {
    auto [y, next] = model.stateless_call(weights, s, Views{b.x, -b.x}, true, {.rows = b.weight});
    return WithAux{mean_squared_error(y, b.y, b.weight), next, {}};
  };
  check_equal_over_shards(loss, w, state, batch);
}

TEST_CASE("images of uint8 that the loss scales") {
  const auto model = tower();
  const Array pixels = random::randint(random::key(2), {8, 6}, 0, 255, uint8);
  const Batch batch{pixels, ones({8, 1}, float64), {}};
  const auto [w, state] = model.init(random::key(1), zeros({1, 6}, float64));
  const auto loss = [&](const Tree& weights, const Tree& s, const Batch& b) {
    auto [y, next] = model.stateless_call(weights, s, convert(b.x, float64) / 255.0, true, {.rows = b.weight});
    return WithAux{mean_squared_error(y, b.y, b.weight), next, {}};
  };
  check_equal_over_shards(loss, w, state, batch);
}

TEST_CASE("two views through one model, and two models in one loss") {
  const auto model = tower();
  const auto other = tower();
  const Batch batch = tests::regression_batch(8, 4, float64);
  const auto [w, state] = model.init(random::key(1), batch.x);
  const auto [v, other_state] = other.init(random::key(2), batch.x);
  const auto two_views = [&](const Tree& weights, const Tree& s, const Batch& b) {
    const auto [y, next] = model.stateless_call(weights, s, b.x, true, {.rows = b.weight});
    const auto [z, last] = model.stateless_call(weights, next, b.x * 2.0, true, {.rows = b.weight});
    return WithAux{mean_squared_error(y, z, b.weight), last, {}};
  };
  check_equal_over_shards(two_views, w, state, batch);
  const auto two_models = [&](const Tree& weights, const Tree& s, const Batch& b) {
    const auto [y, next] = model.stateless_call(weights.at("a"), s, b.x, true, {.rows = b.weight});
    const auto [z, last] = other.stateless_call(weights.at("b"), s, b.x, true, {.rows = b.weight});
    return WithAux{mean_squared_error(y + z, b.y, b.weight), s, {}};
  };
  check_equal_over_shards(two_models, Tree::dict({{"a", w}, {"b", v}}), Tree(), batch);
}

TEST_CASE("what a model declares is found wherever the loss calls it") {
  const auto model = tower(Aggregation::sum);
  const auto plain = tower();
  const Batch batch = tests::regression_batch(8, 4, float64);
  const auto [w, state] = model.init(random::key(1), batch.x);
  const Replicas four{4, 1};
  const auto direct = [&](const Tree& weights, const Tree& s, const Batch& b) {
    return WithAux{mean_squared_error(model.stateless_call(weights, s, b.x, true).first, b.y, b.weight), s, {}};
  };
  const auto undeclared = [&](const Tree& weights, const Tree& s, const Batch& b) {
    return WithAux{mean_squared_error(plain.stateless_call(weights, s, b.x, true).first, b.y, b.weight), s, {}};
  };
  const Tree expected = after_unit_step(direct, w, state, batch, four);
  REQUIRE(tree_print(expected) != tree_print(after_unit_step(undeclared, w, state, batch, four)));

  // Under a key, rematerialised, in another dtype and back, and with the same given by path.
  const auto under_key = [&](const Tree& weights, const Tree& s, const Batch& b) {
    return WithAux{
        mean_squared_error(model.stateless_call(weights.at("net"), s, b.x, true).first, b.y, b.weight), s, {}};
  };
  const Tree net = Tree::dict({{"net", w}});
  CHECK(tree_print(after_unit_step(under_key, net, state, batch, four).at("net")) == tree_print(expected));
  const auto remade = [&](const Tree& weights, const Tree& s, const Batch& b) {
    const auto call = [&](const Tree& u, const Array& x) { return model.stateless_call(u, s, x, true).first; };
    return WithAux{mean_squared_error(remat(call)(weights.at("net"), b.x), b.y, b.weight), s, {}};
  };
  CHECK(tree_print(after_unit_step(remade, net, state, batch, four).at("net")) == tree_print(expected));
  const auto converted = [&](const Tree& weights, const Tree& s, const Batch& b) {
    const Tree same = map([](const Array& x) { return x * 1.0; }, weights.at("net"));
    return WithAux{mean_squared_error(model.stateless_call(same, s, b.x, true).first, b.y, b.weight), s, {}};
  };
  CHECK(tree_print(after_unit_step(converted, net, state, batch, four).at("net")) == tree_print(expected));
  CHECK(
      tree_print(after_unit_step(undeclared, w, state, batch, four, {.aggregations = {{"first", Aggregation::sum}}})) ==
      tree_print(after_unit_step(direct, w, state, batch, four, {.aggregations = {{"first/bias", Aggregation::sum}}})));
}

TEST_CASE("declarations that contradict each other or cannot be placed are errors") {
  const auto model = tower(Aggregation::sum);
  const Batch batch = tests::regression_batch(8, 4, float64);
  const auto [w, state] = model.init(random::key(1), batch.x);
  const auto twice = [&](const Tree& weights, const Tree& s, const Batch& b) {
    const Tree same = map([](const Array& x) { return x * 1.0; }, weights.at("a"));
    return WithAux{mean_squared_error(model.stateless_call(same, s, b.x, true).first, b.y, b.weight), s, {}};
  };
  const Tree both = Tree::dict({{"a", w}, {"b", w}});
  tests::expect_error<AggregationError>(
      [&] {
        static_cast<void>(after_unit_step(twice, both, state, batch, {2, 1}));
      },
      "for 'first/kernel', and 2 leaves of the trainable tree may be it");
  const auto direct = [&](const Tree& weights, const Tree& s, const Batch& b) {
    return WithAux{mean_squared_error(model.stateless_call(weights, s, b.x, true).first, b.y, b.weight), s, {}};
  };
  tests::expect_error<AggregationError>(
      [&] {
        static_cast<void>(
            after_unit_step(direct, w, state, batch, {2, 1}, {.aggregations = {{"first", Aggregation::mean}}}));
      },
      "is declared aggregation=mean and aggregation=sum");
  tests::expect_error<AggregationError>(
      [&] {
        static_cast<void>(
            after_unit_step(direct, w, state, batch, {2, 1}, {.aggregations = {{"frist", Aggregation::mean}}}));
      },
      "aggregations names 'frist'");
}

TEST_CASE("plain trees without a model: a struct of parameters, aggregations by path") {
  const auto loss = [](const SlopeAndOffset& line, const Tree& state, const Batch& b) {
    return WithAux{mean_squared_error(b.x * line.slope + line.offset, b.y, b.weight), state, {}};
  };
  const Array x = array(std::vector<double>{1, 2, 3, 4}, {4, 1});
  const Batch batch{x, 3.0 * x, {}};
  const Tree line = to_tree(SlopeAndOffset{zeros({}, float64), zeros({}, float64)});
  check_equal_over_shards(loss, line, Tree(), batch);
  // d/d slope of mean (0 - 3x)^2 = -6 mean x^2 = -45; summed over two replicas' means, -6 (2.5 + 12.5).
  CHECK(after_unit_step(loss, line, Tree(), batch, {2, 1}).at("slope").array().item<double>() == doctest::Approx(45));
  const DataParallelOptions summed{.aggregations = {{"slope", Aggregation::sum}}};
  CHECK(after_unit_step(loss, line, Tree(), batch, {2, 1}, summed).at("slope").array().item<double>() ==
        doctest::Approx(90));
}
