#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/replicas.h"
#include "tests/support/small_models.h"
#include "tests/support/training.h"

// The check runs a step with 1 shard and with all of them. It lets every model of the library pass, and finds what the
// types of its operands cannot show.

using namespace lockstep;
using tests::loss_of;

namespace {

/// What check_one_meaning says of a model and its loss on 8 rows over 4 shards; nothing where it is content.
std::string verdict(const Model<Array, Array>& model, const LossFunction& loss, const Batch& batch) {
  const TrainStep step = data_parallel(model, loss, optim::sgd(0.1, 0.9), tests::parallel({4, 2}));
  const TrainState state = tests::fresh_state(step, model, batch);
  const std::string before = fingerprint(to_tree(state));
  std::string text;
  try {
    check_one_meaning(step, state, batch);
  } catch (const AggregationError& error) {
    text = error.what();
  }
  CHECK(fingerprint(to_tree(state)) == before);
  return text;
}

Model<Array, Array> with_layer(std::function<Array(const Scope&, const Array&)> layer) {
  return Model([layer](Scope& scope, const Array& x) {
    return dense(scope["head"], layer(scope["layer"], dense(scope["first"], x, {.units = 4})), {.units = 1});
  });
}

const Batch& eight_rows() {
  static const Batch batch = tests::regression_batch(8, 3, float32);
  return batch;
}

void check_found(const std::string& text, const std::string& leaf) {
  INFO(text);
  CHECK(tests::contains(text, "[check_one_meaning] '" + leaf + "' is "));
  CHECK(tests::contains(text, "with 1 shard and "));
  CHECK(tests::contains(text, "with 4 "));
}

}  // namespace

TEST_CASE("the library's models and layers pass") {
  for (const std::string_view name : tests::small_models()) {
    CAPTURE(name);
    const Array key = random::key(1);
    const Batch images{random::uniform(key, {8, 12, 12, 1}), arange(8), {}};
    const auto model = tests::narrow_model(name);
    CHECK(verdict(model, loss_of(model), images).empty());
  }
  const auto layers = with_layer([](const Scope& s, const Array& h) {
    return layer_norm(s["rows"], dropout(s["drop"], batch_norm(s["norm"], h), 0.5));
  });
  CHECK(verdict(layers, loss_of(layers), eight_rows()).empty());
}

TEST_CASE("padding, penalties and several terms pass") {
  const auto model = with_layer([](const Scope& s, const Array& h) { return batch_norm(s, h); });
  const LossFunction loss = [&](const Tree& w, const Tree& state, const Batch& b) {
    auto [y, next] = model.stateless_call(w, state, b.x, true, {.rows = b.weight});
    return WithAux{mean_squared_error(y, b.y, b.weight) +
                       0.5 * Loss(mean_absolute_error(y, b.y, b.weight * square(b.weight))) + l2_penalty(w, 0.1),
                   next,
                   {}};
  };
  CHECK(verdict(model, loss, eight_rows()).empty());
  CHECK(verdict(model, loss, tests::regression_batch(7, 3, float32)).empty());
  Batch weighted_rows = eight_rows();
  weighted_rows.weight = array({1.0F, 1.0F, 1.0F, 0.0F, 0.5F, 1.0F, 0.0F, 0.0F});
  CHECK(verdict(model, loss, weighted_rows).empty());
}

TEST_CASE("found: a batch mean in a custom layer") {
  const auto model = with_layer([](const Scope&, const Array& h) { return h - mean(h, Axes{0}, true); });
  check_found(verdict(model, loss_of(model), eight_rows()), "gradient/first/kernel");
}

TEST_CASE("found: a penalty inside a Weighted, once a shard") {
  const auto model = with_layer([](const Scope&, const Array& h) { return tanh(h); });
  const LossFunction loss = [&](const Tree& w, const Tree& state, const Batch& b) {
    auto [y, next] = model.stateless_call(w, state, b.x, true, {.rows = b.weight});
    Weighted error = mean_squared_error(y, b.y, b.weight);
    error.sum = error.sum + l2_penalty(w, 0.1);
    return WithAux{error, next, {}};
  };
  check_found(verdict(model, loss, eight_rows()), "gradient/first/kernel");
}

TEST_CASE("found: BatchNorm by each shard's own statistics") {
  const auto model =
      with_layer([](const Scope& s, const Array& h) { return batch_norm(s, h, {.synchronized = false}); });
  check_found(verdict(model, loss_of(model), eight_rows()), "gradient/first/kernel");
}

TEST_CASE("found: a loss that divides by the shard's rows, and state that only a shard's rows move") {
  const auto plain = with_layer([](const Scope&, const Array& h) { return tanh(h); });
  const LossFunction summed = [&](const Tree& w, const Tree& state, const Batch& b) {
    auto [y, next] = plain.stateless_call(w, state, b.x, true, {.rows = b.weight});
    Weighted error = mean_squared_error(y, b.y, b.weight);
    return WithAux{Weighted{error.sum, pvary(ones_like(error.sum), {"batch"})}, next, {}};
  };
  check_found(verdict(plain, summed, eight_rows()), "gradient/first/bias");

  const auto stateful = with_layer([](const Scope& s, const Array& h) {
    s.non_trainable("largest", {.shape = {}, .aggregation = Aggregation::only_first_replica});
    s.assign("largest", stop_gradient(max(h * h)));
    return h;
  });
  check_found(verdict(stateful, loss_of(stateful), eight_rows()), "state/layer/largest");
}

TEST_CASE("what is not finite passes where it is so however the batch is cut, and is found where it is not") {
  const Model<Array, Array> model = with_layer([](const Scope&, const Array& x) { return x; });
  const Batch good = eight_rows();
  const Array zero = zeros({1}), one = ones({1});
  for (const Array& bad : {zero / zero, one / zero}) {
    const Batch batch{where(reshape(arange(8), {8, 1}) == 5, bad, good.x), good.y, good.weight};
    CHECK(verdict(model, loss_of(model), batch) == "");
  }
  const Model<Array, Array> mixing = with_layer([](const Scope&, const Array& x) {
    return x + sqrt(0 * x + (static_cast<double>(x.dim(0)) - 7));  // NaN for a shard's rows, not for all
  });
  check_found(verdict(mixing, loss_of(mixing), good), "gradient/first/bias");
}

TEST_CASE("one shard means one thing; a tolerance may be given") {
  const auto model = with_layer([](const Scope&, const Array& h) { return h - mean(h, Axes{0}, true); });
  const TrainStep one = data_parallel(model, loss_of(model), optim::sgd(0.1), tests::parallel({1, 1}));
  check_one_meaning(one, tests::fresh_state(one, model, eight_rows()), eight_rows());
  const TrainStep four = data_parallel(model, loss_of(model), optim::sgd(0.1), tests::parallel({4, 2}));
  check_one_meaning(four, tests::fresh_state(four, model, eight_rows()), eight_rows(), 1e9);
}
