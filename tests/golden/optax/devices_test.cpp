#include <cmath>
#include <complex>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>
#include <lockstep/optim_contrib.h>

#include "tests/golden/optax/cases.h"
#include "tests/support/expect_error.h"
#include "tests/support/replicas.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/close_trees.h"

// Every transformation in a training step, where it has one meaning and one set of bits; and on complex leaves.
namespace lockstep::tests::optax {
namespace {

constexpr int device_steps = 4;

Tree parameters() {
  const auto drawn = [](std::uint64_t seed, const Shape& shape) {
    return Tree(random::normal(random::key(seed), shape));
  };
  return Tree::dict({{"bias", drawn(1, {2})},
                     {"conv", drawn(2, {2, 1, 1, 2})},
                     {"kernel", drawn(3, {2, 3})},
                     {"scale", drawn(4, {})}});
}

/// Each row's distance of all weights, times a number of its own, from another number.
WithAux squared_distance(const Tree& w, const Tree& state, const Batch& b) {
  Array total = b.y * 0;
  for (const Array& leaf : w.leaves())
    total = total + sum(square(reshape(leaf, {1, -1}) * b.x - expand_dims(b.y, {1})), {1});
  return {weighted(total, b.weight), state, {}};
}

Batch rows_at(int step) {
  const Array key = random::key(100 + static_cast<std::uint64_t>(step));
  return {random::normal(random::fold_in(key, 0), {16, 1}), random::normal(random::fold_in(key, 1), {16}), ones({16})};
}

/// Of the state after some steps, from the second on through a file where it is `saved`.
std::string trained(const Case& c, int devices, bool saved) {
  const TrainStep step = data_parallel(squared_distance, c.transformation, tests::parallel({8, devices}));
  TrainState state = step.init(parameters(), Tree());
  for (int i = 0; i < device_steps; ++i) {
    state = step(std::move(state), rows_at(i)).first;
    if (!saved || i != 1) continue;
    const TemporaryFolder folder;
    checkpoint::save(folder.path() / "state", to_tree(state), {});
    state = from_tree<TrainState>(checkpoint::restore(folder.path() / "state", to_tree(state)));
  }
  CHECK_MESSAGE(optim::all_finite(state.trainable).item<bool>(), c.name);
  CHECK(step.traces() == 1);
  return fingerprint(to_tree(state));
}

/// The whole state after some steps over 2 data and 2 model axes, weights cut along the second, at a ZeRO stage.
Tree trained_cut(const Case& c, int zero) {
  const ModelParallelOptions options{.mesh = Mesh({{"data", 2}, {"model", 2}}, devices("cpu:0-1")),
                                     .layouts = {{"conv", sharded("model", 3)}, {"kernel", sharded("model", 0)}},
                                     .zero = zero,
                                     .contraction_blocks = 8};
  const auto step = model_parallel(StepLoss(squared_distance), c.transformation, options);
  TrainState state = step.init(parameters(), Tree());
  for (int i = 0; i < device_steps; ++i) state = step(std::move(state), rows_at(i)).first;
  return gather(to_tree(state));
}

/// A search's interpolations divide differences of losses.
double device_room(const Case& c) { return c.transformation.needs_function ? 2e-4 : 2e-5; }

}  // namespace

TEST_CASE("every transformation means the same on weights that lie cut, with one fingerprint over ZeRO's stages") {
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    const TrainStep step = data_parallel(squared_distance, c.transformation, tests::parallel({1, 1}));
    TrainState whole = step.init(parameters(), Tree());
    for (int i = 0; i < device_steps; ++i) whole = step(std::move(whole), rows_at(i)).first;
    const Tree cut = trained_cut(c, 0);
    check_close(from_tree<TrainState>(cut).trainable, whole.trainable, device_room(c));
    CHECK_MESSAGE(fingerprint(trained_cut(c, 3)) == fingerprint(cut), c.name);
  }
}

TEST_CASE("every transformation's float32 state has one fingerprint on 1 and 2 devices, and where it is resumed") {
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    CHECK_MESSAGE(trained(c, 1, false) == trained(c, 2, true), c.name);
  }
}

TEST_CASE("a step gives the loss at other parameters over its microbatches") {
  for (const Case& c : cases()) {
    if (!c.transformation.needs_function) continue;
    CAPTURE(c.name);
    Tree trained;
    for (const std::int64_t microbatches : {1, 2}) {
      DataParallelOptions options = tests::parallel({4, 2});
      options.microbatches = microbatches;
      const TrainStep step = data_parallel(squared_distance, c.transformation, options);
      TrainState state = step.init(parameters(), Tree());
      for (int i = 0; i < device_steps; ++i) state = step(std::move(state), rows_at(i)).first;
      if (microbatches == 1) trained = state.trainable;
      check_close(state.trainable, trained, device_room(c));
    }
  }
}

TEST_CASE("a search in a step lowers the loss of its rows, masked ones left out") {
  const TrainStep step = data_parallel(squared_distance, optim::lbfgs(optim::LbfgsOptions{}), tests::parallel({4, 2}));
  Batch batch = rows_at(0);
  batch.weight = where(lockstep::arange(16) < 12, 1.0, full({16}, 0.0, float32));
  batch.x = where(expand_dims(batch.weight, {1}) == 0, std::nan(""), batch.x);
  TrainState state = step.init(parameters(), Tree());
  float first = 0, last = 0;
  for (int i = 0; i < 6; ++i) {
    auto [next, logs] = step(std::move(state), batch);
    state = std::move(next);
    last = logs.at("loss").item<float>();
    if (i == 0) first = last;
    CHECK(state.optimizer.at("2/steps").array().item<std::int32_t>() >= 1);
  }
  CHECK(std::isfinite(last));
  CHECK(last < first);
}

TEST_CASE("what declares how gradients combine is not searched") {
  DataParallelOptions options = tests::parallel({4, 2});
  options.aggregations = {{"kernel", Aggregation::mean}};
  const TrainStep step = data_parallel(squared_distance, optim::lbfgs(optim::LbfgsOptions{}), options);
  const TrainState state = step.init(parameters(), Tree());
  tests::expect_error<AggregationError>([&] { static_cast<void>(step(state, rows_at(0))); },
                                        "trainable leaf 'kernel' declares how replicas' gradients combine",
                                        "train it by another optimizer");
}

TEST_CASE("complex leaves have complex updates, by |g|^2") {
  const auto in_complex = [](const Tree& tree) {
    return map([](const Array& x) { return complex(x, 0.5 * x); }, tree);
  };
  const Tree params = in_complex(parameters());
  for (const Case& c : cases()) {
    if (!c.takes_complex) continue;
    CAPTURE(c.name);
    const auto run = jit([&](const Tree& p) {
      Tree moved = p, state = c.transformation.init(p);
      const Tree gradient = map([](const Array& x) { return 0.3 * x; }, p);
      for (int i = 0; i < 4; ++i) {
        auto [updates, next] = optim::update(c.transformation, gradient, state, moved, full({}, 1.0));
        moved = optim::apply_updates(moved, updates);
        check_same_types(state, next, c.name);
        state = next;
      }
      return moved;
    });
    const Tree moved = run(params);
    for (const Array& leaf : moved.leaves()) CHECK(leaf.dtype() == complex64);
    CHECK_MESSAGE(optim::all_finite(moved).item<bool>(), c.name);
    CHECK_MESSAGE(fingerprint(moved) != fingerprint(params), c.name);
  }
}

}  // namespace lockstep::tests::optax
