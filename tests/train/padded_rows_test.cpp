#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/replicas.h"
#include "tests/support/training.h"

// State that is a mean over rows, on batches whose last rows pad them: one value on any number of shards, which the check
// and lint hold layers to.

using namespace lockstep;
using tests::contains;

namespace {

using Layer = std::function<Array(const Scope&, const Array&)>;

/// x over its moving root mean square, whose new value is `mean_of` of the squares.
Layer scaled(std::function<Array(const Scope&, const Array&)> mean_of) {
  return [mean_of](const Scope& s, const Array& x) {
    const Array square_of =
        s.non_trainable("square", {.shape = {}, .initializer = initializers::ones(), .aggregation = Aggregation::mean});
    if (s.training()) s.assign("square", 0.9 * square_of + 0.1 * mean_of(s, square(x)));
    return x / sqrt(square_of + 1e-6);
  };
}

Array mean_of_real_rows(const Scope& s, const Array& x) { return mean(s.mean_over_rows(x)); }
Array mean_of_all(const Scope&, const Array& x) { return mean(x); }

Model<Array, Array> with(const Layer& layer) {
  return Model([layer](Scope& s, const Array& x) { return dense(s["head"], layer(s["scaled"], x), {.units = 1}); });
}

TrainStep step_of(const Model<Array, Array>& model, std::int64_t shards, std::int64_t microbatches = 1) {
  return data_parallel(
      model, tests::loss_of(model), optim::sgd(0.0),
      {.devices = devices(shards == 1 ? "cpu:0" : "cpu:0-1"), .shards = shards, .microbatches = microbatches});
}

/// Seventy rows that grow, so that the last ones differ from the first.
Batch seventy_rows() {
  const Array x = reshape(arange(210.0F) / 30.0F, {70, 3});
  return {x, sum(x, 1, true), ones({70})};
}

double square_after_an_epoch(const Model<Array, Array>& model, std::int64_t shards, std::int64_t microbatches = 1) {
  const TrainStep step = step_of(model, shards, microbatches);
  data::TreeLoader loader(seventy_rows(), {.batch = 32, .shuffle = false, .drop_last = false});
  const TrainState last = fit(step, tests::fresh_state(step, model, seventy_rows()), loader, {.epochs = 1});
  return last.non_trainable.at("scaled/square").array().item<double>();
}

std::string found_meanings(const Model<Array, Array>& model, std::int64_t shards, std::int64_t microbatches = 1) {
  const TrainStep step = step_of(model, shards, microbatches);
  const Batch batch = tests::regression_batch(16, 3, float32);
  try {
    check_one_meaning(step, tests::fresh_state(step, model, batch), batch);
  } catch (const AggregationError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a mean over rows as state counts real rows, on any number of shards and microbatches") {
  const std::vector<float> x = seventy_rows().x.to_vector<float>();
  double expected = 1;
  for (const auto& [first, last] : {std::pair{0, 32}, {32, 64}, {64, 70}}) {
    double sum = 0;
    for (int i = 3 * first; i < 3 * last; ++i) sum += std::pow(static_cast<double>(x[static_cast<std::size_t>(i)]), 2);
    expected = 0.9 * expected + 0.1 * sum / (3 * (last - first));
  }
  const auto model = with(scaled(mean_of_real_rows));
  for (const std::int64_t shards : {1, 2, 4, 8}) {
    for (const std::int64_t microbatches : {1, 2}) {
      CAPTURE(shards);
      CAPTURE(microbatches);
      CHECK(square_after_an_epoch(model, shards, microbatches) == doctest::Approx(expected).epsilon(1e-6));
    }
  }
}

TEST_CASE("a mean over the rows of a vmap counts real rows") {
  // Three real rows of 1, 2 and 3, and one that pads.
  const auto layer = [](const Scope& s, const Array& x) {
    const auto row = [&](const Array& one) {
      const Array level = s.non_trainable("level", {.shape = {}, .aggregation = Aggregation::mean});
      s.assign("level", mean(s.mean_over_rows(one)));
      return one * 2 + level;
    };
    return vmap(row)(x);
  };
  const auto model = with(layer);
  const Array x = array(std::vector<float>{1, 2, 3, 9}, {4, 1});
  const auto [w, state] = model.init(random::key(0), x);
  const auto level = [&](const Array& weights) {
    return model.stateless_call(w, state, x, true, {.rows = weights}).second.at("scaled/level").array().item<float>();
  };
  CHECK(level(array(std::vector<float>{1, 1, 1, 0})) == 2);
  CHECK(level(array(std::vector<float>{0, 1, 1, 0})) == 2.5F);
  CHECK(level(array(std::vector<float>{0, 0, 0, 0})) == 0);  // as it was
  // Without weights a row is one all the same, and not a batch of its features.
  const Model rows(
      [](Scope& s, const Array& v) { return vmap([&](const Array& one) { return s.mean_over_rows(one); })(v); });
  CHECK(rows.stateless_call(Tree(), Tree(), ones({3, 2}), true).first.shape() == Shape{3, 2});
}

TEST_CASE("mean_over_rows: narrow dtypes, rows of integers, and what it refuses") {
  const auto value = [](const Array& x, const Array& rows) {
    Array found;
    const Model model([&](Scope& s, const Array& v) {
      found = s.mean_over_rows(v);
      return found;
    });
    const auto [w, state] = model.init(random::key(0), x);
    return model.stateless_call(w, state, x, true, {.rows = rows}).first;
  };
  const Array weights = array(std::vector<float>{2, 0, 1});
  CHECK(value(array(std::vector<float>{1, 100, 4}, {3, 1}), weights).to_vector<float>() == std::vector<float>{2.5F});
  const Array half = value(full({3, 1}, 60000, float16), weights);
  CHECK(half.dtype() == float16);
  CHECK(half.to_vector<float>() == std::vector<float>{60000});  // their sum is beyond float16
  CHECK(value(array(std::vector<std::int32_t>{1, 100, 4}, {3, 1}), weights).to_vector<float>() ==
        std::vector<float>{2.5F});
  CHECK(value(array(std::vector<float>{1, 3}), Array()).item<float>() == 2);
  const Model wrong([](Scope& s, const Array& v) { return s["inner"].mean_over_rows(slice_in_dim(v, 0, 1, 0)); });
  tests::expect_error<ShapeError>(
      [&] {
        static_cast<void>(wrong.stateless_call(Tree(), Tree(), ones({3, 1}), true, {.rows = weights}));
      },
      "[mean_over_rows 'inner'] x is f32[1,1], the batch has 3 rows", "first dimension");
}

TEST_CASE("check_one_meaning tries padded batches and shards without a row") {
  for (const std::int64_t shards : {2, 4, 8}) {
    CAPTURE(shards);
    CHECK(found_meanings(with(scaled(mean_of_real_rows)), shards) == "");
    CHECK(contains(found_meanings(with(scaled(mean_of_all)), shards), "rows have weight 0"));
    CHECK(contains(found_meanings(with(scaled(mean_of_all)), shards), "'state/scaled/square'"));
  }
  CHECK(found_meanings(with(scaled(mean_of_real_rows)), 1, 4) == "");
  CHECK(contains(found_meanings(with(scaled(mean_of_all)), 1, 4), "with 1 shard of 4 microbatches where the last"));
}

TEST_CASE("check_one_meaning takes layers that have one dtype, and finds what is wrong with them") {
  const auto float32_only = [](const Array& x) {
    if (x.dtype() != float32) throw DtypeError("[mine] x is " + to_string(x.type()) + "; give float32");
    return tanh(x);
  };
  CHECK(found_meanings(with([=](const Scope&, const Array& x) { return float32_only(x); }), 4) == "");
  const auto wrong = with([=](const Scope&, const Array& x) { return float32_only(x - mean(x, Axes{0}, true)); });
  CHECK(contains(found_meanings(wrong, 4), "with 4 shards"));
  const auto never = with([](const Scope& s, const Array& x) {
    if (s.training()) throw ValueError("[mine] not today");
    return x;
  });
  const TrainStep step = step_of(never, 4);
  const Batch batch = tests::regression_batch(16, 3, float32);
  tests::expect_error<ValueError>(
      [&] {
        check_one_meaning(step, step.init(Tree::dict({{"head/kernel", Tree(ones({3, 1}))}}), Tree()), batch);
      },
      "not today");
}

TEST_CASE("lint finds state that depends on rows of weight 0") {
  const auto findings = [](const Layer& layer) {
    const auto model = with(layer);
    const TrainStep step = step_of(model, 2);
    const Batch batch = tests::regression_batch(8, 3, float32);
    return lint(step, tests::fresh_state(step, model, batch), batch);
  };
  CHECK(findings(scaled(mean_of_real_rows)).empty());
  CHECK(findings([](const Scope& s, const Array& x) { return batch_norm(s, dropout(s["drop"], x, 0.5)); }).empty());
  const std::vector<std::string> found = findings(scaled(mean_of_all));
  REQUIRE(found.size() == 1);
  CHECK(contains(found[0], "padding: the new value of 'scaled/square' depends on rows of weight 0, 'weight'"));
  CHECK(contains(found[0], "mean_over_rows"));
}
