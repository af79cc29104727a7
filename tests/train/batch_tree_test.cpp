#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/replicas.h"
#include "tests/support/training.h"

// A batch is any tree whose leaves have one number of rows; weights of rows are found by name, by a member, or there are
// none.

using namespace lockstep;
using tests::Replicas;

namespace {

struct Pairs {
  Array question, answer, label, weight;
};
LOCKSTEP_TREE(Pairs, question, answer, label, weight);

struct Masked {
  Array image, mask, target;
};
LOCKSTEP_TREE(Masked, image, mask, target);

struct Unweighted {
  Array image, target;
};
LOCKSTEP_TREE(Unweighted, image, target);

Model<Array, Array> linear() {
  return Model([](Scope& scope, const Array& x) { return dense(scope["head"], x, {.units = 1}); });
}

Tree weights_of(const Model<Array, Array>& model) { return model.init(random::key(1), zeros({1, 3}, float64)).first; }

Array numbers(std::uint64_t seed, std::int64_t rows, std::int64_t columns) {
  return random::normal(random::key(seed), {rows, columns}, float64);
}

/// Bits of the parameters, and the loss, after two steps.
template <class B>
std::pair<Tree, double> two_steps(const StepLoss& loss, const Tree& w, const B& batch, const Replicas& replicas,
                                  std::int64_t microbatches, DataParallelOptions options = {}) {
  options.devices = tests::cpu_devices(replicas.devices);
  options.shards = replicas.shards;
  options.microbatches = microbatches;
  const TrainStep step = data_parallel(loss, optim::sgd(0.1), options);
  auto [first, logs] = step(step.init(w, Tree()), batch);
  auto [second, again] = step(std::move(first), batch);
  CHECK(step.traces() == 1);
  return {second.trainable, again.at("loss").template item<double>()};
}

template <class B>
void check_one_loss(const StepLoss& loss, const Tree& w, const B& batch, const DataParallelOptions& options = {}) {
  const double plain = two_steps(loss, w, batch, {1, 1}, 1, options).second;
  for (const Replicas replicas : {Replicas{2, 2}, {4, 1}, {8, 2}}) {
    for (const std::int64_t microbatches : {1, 2}) {
      CHECK(two_steps(loss, w, batch, replicas, microbatches, options).second == doctest::Approx(plain).epsilon(1e-12));
    }
  }
}

}  // namespace

TEST_CASE("a struct with weights by name; rows are padded where shards do not divide them") {
  const auto model = linear();
  const auto loss = [model](const Tree& w, const Tree& state, const Pairs& b) {
    const Array y = model.stateless_call(w, state, b.question, true, {.rows = b.weight}).first *
                    model.stateless_call(w, state, b.answer, true, {.rows = b.weight}).first;
    return WithAux{mean_squared_error(y, b.label, b.weight), state, {{"rows", weighted(b.weight, b.weight)}}};
  };
  for (const std::int64_t rows : {16, 13, 3}) {
    const Pairs batch{numbers(1, rows, 3), numbers(2, rows, 3), numbers(3, rows, 1), {}};
    check_one_loss(loss, weights_of(model), batch);
    Pairs some = batch;
    some.weight = convert(arange(rows) != 1, float32);
    check_one_loss(loss, weights_of(model), some);
    CHECK(two_steps(loss, weights_of(model), some, {2, 1}, 1).second !=
          two_steps(loss, weights_of(model), batch, {2, 1}, 1).second);
  }
}

TEST_CASE("a dict of arrays, nested") {
  const auto model = linear();
  const auto loss = [model](const Tree& w, const Tree& state, const Tree& b) {
    const Array& rows = b.at("meta/weight").array();
    const Array y = model.stateless_call(w, state, b.at("x").array(), true, {.rows = rows}).first;
    return WithAux{mean_squared_error(y, b.at("y").array(), rows), state, {}};
  };
  const Tree batch =
      Tree::dict({{"x", numbers(1, 7, 3)}, {"y", numbers(2, 7, 1)}, {"meta", Tree::dict({{"weight", ones({7})}})}});
  check_one_loss(loss, weights_of(model), batch, {.weight = "meta/weight"});
}

TEST_CASE("weights that a member of the batch holds, under whatever name") {
  const auto model = linear();
  const auto loss = [model](const Tree& w, const Tree& state, const Masked& b) {
    const Array y = model.stateless_call(w, state, b.image, true, {.rows = b.mask}).first;
    return WithAux{mean_squared_error(y, b.target, b.mask), state, {}};
  };
  const Masked batch{numbers(1, 7, 3), array({1.0F, 0.0F, 1.0F, 1.0F, 0.5F, 1.0F, 1.0F}), numbers(2, 7, 1)};
  check_one_loss(loss, weights_of(model), batch, {.weight = &Masked::mask});
  CHECK(RowWeights(&Masked::mask).path() == "mask");
}

TEST_CASE("a batch without weights: all rows count, none can be padded") {
  const auto model = linear();
  const auto loss = [model](const Tree& w, const Tree& state, const Unweighted& b) {
    const Array y = model.stateless_call(w, state, b.image, true).first;
    return WithAux{mean_squared_error(y, b.target), state, {}};
  };
  check_one_loss(loss, weights_of(model), Unweighted{numbers(1, 16, 3), numbers(2, 16, 1)});
  const Unweighted odd{numbers(1, 7, 3), numbers(2, 7, 1)};
  tests::expect_error<DataError>(
      [&] {
        static_cast<void>(two_steps(loss, weights_of(model), odd, {2, 1}, 1));
      },
      "7 rows cannot be cut into 2 equal parts (shards times microbatches), and the batch has no weights");
  const auto usual = [model](const Tree& w, const Tree& state, const Batch& b) {
    CHECK_FALSE(b.weight.has_value());
    return WithAux{mean_squared_error(model.stateless_call(w, state, b.x, true).first, b.y), state, {}};
  };
  check_one_loss(usual, weights_of(model), Batch{numbers(1, 16, 3), numbers(2, 16, 1), {}}, {.weight = no_row_weights});
}

TEST_CASE("leaves of one number of rows, at least one, weights of rank 1") {
  const auto model = linear();
  const auto loss = [](const Tree&, const Tree& state, const Tree&) { return WithAux{Loss(zeros({})), state, {}}; };
  const auto step_on = [&](const Tree& batch) { two_steps(loss, weights_of(model), batch, {2, 1}, 1); };
  tests::expect_error<DataError>(
      [&] {
        static_cast<void>(step_on(Tree::dict({{"a", zeros({4, 2})}, {"b", zeros({3})}})));
      },
      "a is f32[4,2], b f32[3]; give all leaves the same number of rows");
  tests::expect_error<DataError>(
      [&] {
        static_cast<void>(step_on(Tree::dict({{"b", zeros({})}})));
      },
      "b is f32[]; give all leaves");
  tests::expect_error<DataError>(
      [&] {
        static_cast<void>(step_on(Tree::dict({{"a", zeros({4, 2})}, {"weight", ones({4, 1})}})));
      },
      "weights are of rank 1");
  tests::expect_error<DataError>(
      [&] {
        static_cast<void>(step_on(Tree::dict({{"a", zeros({0, 2})}})));
      },
      "at least one");
  tests::expect_error<DataError>(
      [&] {
        static_cast<void>(step_on(Tree::dict({{"a", zeros({4, 2})}, {"b", Array()}})));
      },
      "'b' is empty");
  tests::expect_error<DataError>([&] { static_cast<void>(step_on(Tree())); }, "the batch has no leaf");
}

TEST_CASE("evaluation, check_one_meaning and lint take such batches") {
  const auto model = linear();
  const auto loss = [model](const Tree& w, const Tree& state, const Masked& b) {
    const Array y = model.stateless_call(w, state, b.image, true, {.rows = b.mask}).first;
    return WithAux{mean_squared_error(y, b.target, b.mask), state, {}};
  };
  const DataParallelOptions options{.devices = tests::cpu_devices(2), .shards = 4, .weight = &Masked::mask};
  const Masked batch{numbers(1, 7, 3), {}, numbers(2, 7, 1)};
  const auto sums = EvaluateStep(loss, options)(weights_of(model), Tree(), batch);
  CHECK(sums.at("loss").weight.item<double>() == 7);
  const TrainStep step = data_parallel(loss, optim::sgd(0.1), options);
  const TrainState state = step.init(weights_of(model), Tree());
  check_one_meaning(step, state, batch);
  CHECK(lint(step, state, batch).empty());
  const auto mixing = [model](const Tree& w, const Tree& s, const Masked& b) {
    const Array y = model.stateless_call(w, s, b.image - mean(b.image), true).first;
    return WithAux{mean_squared_error(where(y > 0, log(y), 0), b.target, b.mask), s, {}};
  };
  const TrainStep other = data_parallel(mixing, optim::sgd(0.1), options);
  tests::expect_error<AggregationError>([&] { static_cast<void>(check_one_meaning(other, state, batch)); },
                                        "with 1 shard and ");
  CHECK(lint(other, state, batch).size() == 1);
}

TEST_CASE("a loader of any tree: the order of a Loader, padding by weights, fit") {
  const std::int64_t rows = 10;
  const Array number = reshape(convert(arange(rows), float32), {rows, 1});
  const Masked all{number, {}, number * 2.0};
  data::TreeLoader loader(all, {.batch = 4, .seed = 5, .drop_last = false}, "mask");
  CHECK(loader.batches_per_epoch() == 3);
  const data::Permutation order(5, 0, rows);
  for (std::int64_t i = 0; i < 3; ++i) {
    const auto batch = loader.next<Masked>();
    const std::vector<float> images = batch.image.to_vector<float>();
    const std::vector<float> weights = batch.mask.to_vector<float>();
    for (std::int64_t k = 0; k < 4; ++k) {
      const std::int64_t at = 4 * i + k;
      CHECK(weights[static_cast<std::size_t>(k)] == (at < rows ? 1 : 0));
      CHECK(images[static_cast<std::size_t>(k)] == static_cast<float>(order(std::min(at, rows - 1))));
    }
    CHECK(array_equal(batch.target, batch.image * 2.0).item<bool>());
  }
  CHECK(loader.position() == data::Position{.epoch = 1, .row = 0});
  loader.seek({.epoch = 0, .row = 8});
  CHECK(loader.next<Masked>().mask.to_vector<float>() == std::vector<float>{1, 1, 0, 0});

  const auto model = linear();
  const auto loss = [model](const Tree& w, const Tree& state, const Masked& b) {
    const Array y = model.stateless_call(w, state, b.image, true, {.rows = b.mask}).first;
    return WithAux{mean_squared_error(y, b.target, b.mask), state, {}};
  };
  const TrainStep step = data_parallel(loss, optim::sgd(0.001), {.shards = 2, .weight = &Masked::mask});
  const auto [w, none] = model.init(random::key(1), number);
  const TrainState end = fit(step, step.init(w, none), loader, {.steps = 5, .check_one_meaning = true}, {});
  CHECK(end.step.item<std::int64_t>() == 5);
}

TEST_CASE("what a loader of trees refuses") {
  const Unweighted ten{zeros({10, 1}), zeros({10})};
  tests::expect_error<DataError>([&] { static_cast<void>(data::TreeLoader(ten, {.batch = 4, .drop_last = false})); },
                                 "the last batch of 10 rows has 2 of 4");
  tests::expect_error<DataError>([&] { static_cast<void>(data::TreeLoader(ten, {.batch = 11})); },
                                 "a batch of 11 from 10 rows");
  tests::expect_error<ValueError>([&] { static_cast<void>(data::TreeLoader(ten, {.batch = 0})); }, "the batch is 0");
  tests::expect_error<DataError>(
      [&] {
        static_cast<void>(data::TreeLoader(Unweighted{zeros({10, 1}), zeros({3})}, {.batch = 2}));
      },
      "'target' is f32[3]");
  tests::expect_error<DataError>(
      [&] {
        static_cast<void>(data::TreeLoader(Unweighted{zeros({10, 1}), {}}, {.batch = 2}));
      },
      "'target' is empty");
  tests::expect_error<DataError>([&] { static_cast<void>(data::TreeLoader(Tree(), {.batch = 2})); }, "has no leaf");
  data::TreeLoader loader(ten, {.batch = 5});
  tests::expect_error<DataError>([&] { static_cast<void>(loader.seek({.epoch = 0, .row = 10})); },
                                 "position epoch 0 row 10");
}
