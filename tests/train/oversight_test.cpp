#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/replicas.h"
#include "tests/support/training.h"

// What a step takes without an error and is hardly meant is found: metrics by check_one_meaning, the rest by lint.

using namespace lockstep;

namespace {

Model<Array, Array> with_statistics() {
  return Model([](Scope& scope, const Array& x) {
    const Array h = dropout(scope["drop"], batch_norm(scope["norm"], dense(scope["body"], x, {.units = 4})), 0.5);
    return dense(scope["head"], h, {.units = 1});
  });
}

/// A training call's output and state to loss, state and metrics.
using Ending = std::function<WithAux(const Array& y, const Tree& state, const Tree& next, const Batch& b)>;

std::vector<std::string> findings(const Ending& ending, const optim::GradientTransformation& optimizer,
                                  const Batch& batch) {
  const auto model = with_statistics();
  const LossFunction loss = [&](const Tree& w, const Tree& state, const Batch& b) {
    auto [y, next] = model.stateless_call(w, state, b.x, true, {.rows = b.weight});
    return ending(y, state, next, b);
  };
  const TrainStep step = data_parallel(loss, optimizer, tests::parallel({4, 2}));
  return lint(step, tests::fresh_state(step, model, batch), batch);
}

std::vector<std::string> findings(const Ending& ending) {
  return findings(ending, optim::sgd(0.1), tests::regression_batch(8, 3, float32));
}

std::vector<std::string> findings(const optim::GradientTransformation& optimizer) {
  const Ending plain = [](const Array& y, const Tree&, const Tree& next, const Batch& b) {
    return WithAux{mean_squared_error(y, b.y, b.weight), next, {}};
  };
  return findings(plain, optimizer, tests::regression_batch(8, 3, float32));
}

bool one_says(const std::vector<std::string>& texts, const std::string& a, const std::string& b) {
  for (const std::string& text : texts) {
    if (tests::contains(text, a) && tests::contains(text, b)) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("a loss that uses weights, returns its state and reports weighted metrics has no findings") {
  CHECK(findings([](const Array& y, const Tree&, const Tree& next, const Batch& b) {
          const Loss loss = mean_squared_error(y, b.y, b.weight) + l2_penalty(Tree(y * 0), 1.0);
          const Weighted rate{full({}, 0.1), ones({})};
          return WithAux{loss.terms[0], next, {{"error", mean_absolute_error(y, b.y, b.weight)}, {"rate", rate}}};
        }).empty());
}

TEST_CASE("row weights that a loss or a metric does not use are found") {
  const auto loss = findings([](const Array& y, const Tree&, const Tree& next, const Batch& b) {
    return WithAux{mean_squared_error(y, b.y), next, {}};
  });
  REQUIRE(loss.size() == 1);
  CHECK(one_says(loss, "weights: term 0 of the loss counts 8", "'weight'"));
  const auto metric = findings([](const Array& y, const Tree&, const Tree& next, const Batch& b) {
    return WithAux{mean_squared_error(y, b.y, b.weight), next, {{"error", mean_absolute_error(y, b.y)}}};
  });
  REQUIRE(metric.size() == 1);
  CHECK(one_says(metric, "weights: metric 'error' counts 8", "b.weight"));
  // Without weights there is none to use.
  struct Rows {
    static WithAux loss(const Tree& w, const Tree& state, const std::map<std::string, Array>& b) {
      return WithAux{mean_squared_error(matmul(b.at("x"), w.at("w").array()), b.at("y")), state, {}};
    }
  };
  const TrainStep step = data_parallel(Rows::loss, optim::sgd(0.1), tests::parallel({2, 1}));
  const std::map<std::string, Array> bare = {{"x", ones({4, 3})}, {"y", ones({4, 1})}};
  const TrainState state = step.init(Tree::dict({{"w", Tree(ones({3, 1}))}}), Tree());
  CHECK(lint(step, state, bare).empty());
}

TEST_CASE("a model's new state that a loss does not return is found, leaf by leaf") {
  const auto old = findings([](const Array& y, const Tree& state, const Tree&, const Batch& b) {
    return WithAux{mean_squared_error(y, b.y, b.weight), state, {}};
  });
  REQUIRE(old.size() == 3);
  for (const std::string path : {"drop/rng", "norm/moving_mean", "norm/moving_variance"}) {
    CAPTURE(path);
    CHECK(one_says(old, "state: the loss returns '" + path + "' as it was given", "WithAux{loss, next, metrics}"));
  }
  const auto part = findings([](const Array& y, const Tree& state, const Tree& next, const Batch& b) {
    return WithAux{mean_squared_error(y, b.y, b.weight), next.with("drop/rng", state.at("drop/rng")), {}};
  });
  REQUIRE(part.size() == 1);
  CHECK(one_says(part, "'drop/rng'", "state:"));
}

TEST_CASE("state that no call assigns may stay as it is") {
  const auto model = with_statistics();
  const LossFunction loss = [&](const Tree& w, const Tree& state, const Batch& b) {
    const auto [y, next] = model.stateless_call(w, state, b.x, false, {.rows = b.weight});
    return WithAux{mean_squared_error(y, b.y, b.weight), state, {}};
  };
  const Batch batch = tests::regression_batch(8, 3, float32);
  const TrainStep step = data_parallel(loss, optim::sgd(0.1), tests::parallel({4, 2}));
  CHECK(lint(step, tests::fresh_state(step, model, batch), batch).empty());
}

TEST_CASE("a mask that selects no leaf is an error before the first step, unless it is optional") {
  using optim::below;
  CHECK(findings(optim::chain(optim::sgd(0.1), optim::freeze(below("body")))).empty());
  const auto refused = [](const optim::GradientTransformation& optimizer, const std::string& text) {
    tests::expect_error<ValueError>([&] { findings(optimizer); }, "[TrainStep::init] optimizer: " + text);
  };
  refused(optim::chain(optim::sgd(0.1), optim::freeze(below("bodi"))),
          "freeze(below(\"bodi\")) takes none of the leaves 'body/bias', 'body/kernel'");
  const auto kernel = [](std::string_view p) { return p == "kernel"; };
  refused(optim::chain(optim::masked(optim::add_decayed_weights(0.1), kernel), optim::sgd(0.1)),
          "masked(a mask) takes none");
  // A freeze inside a mask selects what both do.
  refused(optim::chain(optim::masked(optim::freeze(below("body")), below("head")), optim::sgd(0.1)),
          "freeze(below(\"body\")) takes none");
  for (const optim::Mask& mask : {optim::Mask(kernel), below("bodi")}) {
    CHECK(findings(optim::chain(optim::sgd(0.1), optim::freeze(optim::optional(mask)))).empty());
    CHECK(findings(optim::chain(optim::masked(optim::scale(2), optim::optional(mask)), optim::sgd(0.1))).empty());
    CHECK(findings(optim::masked(optim::chain(optim::freeze(optim::optional(mask)), optim::sgd(0.1)), below("head")))
              .empty());
  }
}

TEST_CASE("check_one_meaning compares metrics, too") {
  const auto model = Model([](Scope& scope, const Array& x) { return dense(scope, x, {.units = 1}); });
  const auto verdict = [&](const std::function<Weighted(const Array&, const Batch&)>& metric) -> std::string {
    const LossFunction loss = [&](const Tree& w, const Tree& state, const Batch& b) {
      auto [y, next] = model.stateless_call(w, state, b.x, true, {.rows = b.weight});
      return WithAux{mean_squared_error(y, b.y, b.weight), next, {{"spread", metric(y, b)}}};
    };
    const Batch batch = tests::regression_batch(8, 3, float32);
    const TrainStep step = data_parallel(loss, optim::sgd(0.1), tests::parallel({4, 2}));
    try {
      check_one_meaning(step, tests::fresh_state(step, model, batch), batch);
    } catch (const AggregationError& error) {
      return error.what();
    }
    return {};
  };
  // A standard deviation of each shard's rows is not that of all.
  const std::string of_shards = verdict([](const Array& y, const Batch& b) {
    return Weighted{sqrt(var(y)) * sum(b.weight), sum(b.weight)};
  });
  CHECK(tests::contains(of_shards, "[check_one_meaning] 'metric/spread' is "));
  CHECK(tests::contains(of_shards, "with 4"));
  CHECK(verdict([](const Array& y, const Batch& b) { return mean_absolute_error(y, b.y, b.weight); }).empty());
  // A metric in float32 is the same to its rounding.
  CHECK(verdict([](const Array& y, const Batch& b) {
          return mean_absolute_error(convert(y, float32), convert(b.y, float32), 0.3 * b.weight);
        }).empty());
}

TEST_CASE("an integer leaf that would be trained is refused when the state is made, with its path") {
  const auto loss = [](const Tree& w, const Tree& state, const Batch& b) {
    return WithAux{mean_squared_error(b.x * w.at("a/scale").array(), b.y, b.weight), state, {}};
  };
  const TrainStep step = data_parallel(loss, optim::adam(0.1));
  for (const DType dtype : {int32, uint8, bool_}) {
    const Tree w = Tree::dict({{"a", Tree::dict({{"scale", Tree(ones({1}))}, {"table", Tree(zeros({3}, dtype))}})}});
    tests::expect_error<DtypeError>([&] { static_cast<void>(step.init(w, Tree())); },
                                    "'a/table' is " + to_string(zeros({3}, dtype).type()));
    // What no optimizer trains may be of any dtype.
    const TrainStep part = data_parallel({{.name = {}, .loss = loss, .optimizers = {{"a/scale", optim::adam(0.1)}}}});
    CHECK(part.init(w, Tree()).step.item<std::int64_t>() == 0);
    const TrainStep frozen =
        data_parallel(loss, optim::chain(optim::adam(0.1), optim::freeze(optim::below("a/table"))));
    const Batch batch{ones({2, 1}), ones({2, 1}), {}};
    CHECK(frozen(frozen.init(w, Tree()), batch).second.contains("loss"));
  }
}
