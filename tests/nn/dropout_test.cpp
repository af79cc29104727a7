#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/layer_run.h"
#include "tests/support/replicas.h"

using namespace lockstep;
using tests::run_layer;

namespace {

auto dropout_at(double rate) {
  return [rate](Scope& scope, const Array& x) { return dropout(scope["drop"], x, rate); };
}

}  // namespace

TEST_CASE("dropout keeps the expectation and drops the share it names") {
  const Array x = ones({200, 500});
  for (const double rate : {0.1, 0.25, 0.5, 0.9}) {
    CAPTURE(rate);
    const std::vector<float> y = run_layer(dropout_at(rate), x).y.to_vector<float>();
    double sum = 0;
    double dropped = 0;
    for (const float v : y) {
      sum += v;
      dropped += v == 0 ? 1 : 0;
      REQUIRE((v == 0 || v == static_cast<float>(1 / (1 - rate))));
    }
    const auto n = static_cast<double>(y.size());
    const double deviation = std::sqrt(rate * (1 - rate) / n);
    CHECK(std::abs(dropped / n - rate) < 5 * deviation);
    CHECK(std::abs(sum / n - 1) < 5 * deviation / (1 - rate));
  }
}

TEST_CASE("a rate of 0 and evaluation are the identity, bit for bit") {
  const Array x = array({1.5F, -0.0F, std::numeric_limits<float>::infinity(), 1e-40F});
  CHECK(run_layer(dropout_at(0), x).y.to_bytes() == x.to_bytes());
  CHECK(run_layer(dropout_at(0.5), x, {.training = false}).y.to_bytes() == x.to_bytes());
}

TEST_CASE("a dropped element is 0 whatever it was, and so is its derivative") {
  const Model model(dropout_at(0.5));
  const Array x = full({64}, std::numeric_limits<float>::quiet_NaN());
  const auto [trainable, state] = model.init(random::key(7), x);
  const auto y = [&, w = trainable, s = state](const Array& v) { return model.stateless_call(w, s, v, true).first; };
  const std::vector<float> values = y(x).to_vector<float>();
  const std::vector<float> slopes = grad([&](const Array& v) { return sum(y(v)); })(x).to_vector<float>();
  int dropped = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    dropped += values[i] == 0 ? 1 : 0;
    CHECK(slopes[i] == (values[i] == 0 ? 0.0F : 2.0F));
  }
  CHECK(dropped > 10);
}

TEST_CASE("every rate outside [0, 1) is refused, in training and in evaluation") {
  for (const double rate :
       {-0.1, 1.0, 1.5, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    tests::expect_error<ValueError>([&] { static_cast<void>(run_layer(dropout_at(rate), ones({2}))); },
                                    "[dropout 'drop'] the rate is");
    tests::expect_error<ValueError>(
        [&] { static_cast<void>(run_layer(dropout_at(rate), ones({2}), {.training = false})); },
        "give a probability in [0, 1)");
  }
}

TEST_CASE("the mask of a global batch of 8 is one for 1, 2, 4 and 8 shards; rows and steps differ") {
  const Model model([](Scope& scope, const Array& x) { return dropout(scope["drop"], x, 0.5); });
  const Array x = ones({8, 16, 3});
  const auto [trainable, state] = model.init(random::key(5), x);
  const auto [whole, next] = model.stateless_call(trainable, state, x, true);
  const std::vector<std::byte> mask = whole.to_bytes();
  for (const tests::Replicas replicas : {tests::Replicas{1, 1}, {2, 1}, {2, 2}, {4, 1}, {4, 4}, {8, 2}, {8, 8}}) {
    CAPTURE(replicas.shards);
    CAPTURE(replicas.devices);
    const auto [y, after] = tests::call_on(replicas, model, trainable, state, tests::batch_of(x), true);
    CHECK(y.to_bytes() == mask);
    CHECK(after.at("drop/rng").array().to_bytes() == next.at("drop/rng").array().to_bytes());
  }
  std::set<std::vector<std::byte>> rows;
  for (std::int64_t r = 0; r < 8; ++r) rows.insert(slice_in_dim(whole, r, r + 1, 0).to_bytes());
  CHECK(rows.size() == 8);
  CHECK(model.stateless_call(trainable, next, x, true).first.to_bytes() != mask);
}
