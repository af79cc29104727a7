#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/training.h"

// Clipped gradients of each example on any number of shards, the noise, and what the accountant says of both.

using namespace lockstep;
using tests::expect_error;

namespace {

Array predicted(const Tree& w, const Array& x) {
  return matmul(tanh(matmul(x, w.at("first").array())), w.at("second").array());
}

Tree small_weights() {
  return Tree::dict({{"first", Tree(random::normal(random::key(1), {3, 4}))},
                     {"second", Tree(random::normal(random::key(2), {4, 1}))}});
}

/// Thirteen rows of which two have weight 0, and NaN.
Batch thirteen_rows() {
  const Batch batch = tests::regression_batch(13, 3, float32);
  std::vector<float> x = batch.x.to_vector<float>();
  for (const std::size_t row : {4, 12}) std::fill_n(x.begin() + static_cast<std::ptrdiff_t>(3 * row), 3, std::nanf(""));
  std::vector<float> weight(13, 1);
  weight[4] = weight[12] = 0;
  return {array(x, {13, 3}), batch.y * 3, array(weight)};
}

Weighted row_loss(const Tree& w, const Batch& row) { return mean_squared_error(predicted(w, row.x), row.y); }

/// The mean of the clipped gradients, row by row.
std::vector<double> expected_mean(const Tree& w, const Batch& batch, double clip) {
  std::vector<double> total(16, 0);
  const std::vector<float> weight = batch.weight.to_vector<float>();
  int count = 0;
  for (std::int64_t i = 0; i < batch.x.dim(0); ++i) {
    if (weight[static_cast<std::size_t>(i)] == 0) continue;
    const Batch row{slice_in_dim(batch.x, i, i + 1, 0), slice_in_dim(batch.y, i, i + 1, 0), {}};
    const Tree g = grad([&](const Tree& at) { return value(row_loss(at, row)); })(w);
    std::vector<double> all;
    for (const Array& leaf : g.leaves()) {
      for (const float x : leaf.to_vector<float>()) all.push_back(x);
    }
    double norm = 0;
    for (const double x : all) norm += x * x;
    norm = std::sqrt(norm);
    for (std::size_t k = 0; k < all.size(); ++k) total[k] += all[k] * std::min(1.0, clip / norm);
    ++count;
  }
  for (double& x : total) x /= count;
  return total;
}

/// What a step of plain descent takes off the weights.
std::vector<double> step_taken(double clip, std::int64_t shards, std::int64_t microbatches, const Batch& batch) {
  const StepLoss loss = [clip](const Tree& w, const Tree& state, const Batch& b) {
    return WithAux{clipped_per_example(row_loss, w, b, clip), state, {}};
  };
  const TrainStep step = data_parallel(
      loss, optim::sgd(1.0),
      {.devices = devices(shards == 1 ? "cpu:0" : "cpu:0-1"), .shards = shards, .microbatches = microbatches});
  const Tree before = small_weights();
  const Tree after = step(step.init(before, Tree()), batch).first.trainable;
  std::vector<double> taken;
  for (std::size_t i = 0; i < 2; ++i) {
    for (const float x : (before.leaves()[i] - after.leaves()[i]).to_vector<float>()) taken.push_back(x);
  }
  return taken;
}

/// The Renyi divergence of that order of all steps: E[(1 - q + q e^((2z - 1) / 2 s^2))^order] by Simpson's rule.
double divergence_by_integration(const PrivacyOptions& o, int order) {
  const double s = o.noise_multiplier, low = -12 * s, high = 12 * s + order + 1;
  constexpr int cells = 20000;
  const double width = (high - low) / cells;
  double moment = 0;
  for (int i = 0; i <= cells; ++i) {
    const double z = low + i * width;
    const double density = std::exp(-z * z / (2 * s * s)) / (s * std::sqrt(2 * M_PI));
    const double ratio = 1 - o.sampling_rate + o.sampling_rate * std::exp((2 * z - 1) / (2 * s * s));
    moment += density * std::pow(ratio, order) * (i == 0 || i == cells ? 1 : i % 2 == 1 ? 4 : 2) * width / 3;
  }
  return static_cast<double>(o.steps) * std::log(moment) / (order - 1);
}

/// As privacy_epsilon converts it.
double epsilon_by_integration(const PrivacyOptions& o) {
  double least = std::numeric_limits<double>::infinity();
  for (int order = 2; order <= 64; ++order) {
    least = std::min(least, divergence_by_integration(o, order) + std::log1p(-1.0 / order) -
                                (std::log(o.delta) + std::log(order)) / (order - 1));
  }
  return least;
}

/// By the wider conversion of Mironov 2017, as published figures have it.
double wider_epsilon(const PrivacyOptions& o, const std::vector<int>& orders) {
  double least = std::numeric_limits<double>::infinity();
  for (const int order : orders) {
    least = std::min(least, divergence_by_integration(o, order) - std::log(o.delta) / (order - 1));
  }
  return least;
}

}  // namespace

TEST_CASE("the gradient is the mean of the clipped ones, whatever shards and microbatches, without rows of weight 0") {
  const Batch batch = thirteen_rows();
  for (const double clip : {0.05, 1.0, 1e9}) {
    const std::vector<double> expected = expected_mean(small_weights(), batch, clip);
    for (const std::int64_t shards : {1, 2, 4, 8}) {
      for (const std::int64_t microbatches : {1, 2}) {
        CAPTURE(clip);
        CAPTURE(shards);
        CAPTURE(microbatches);
        const std::vector<double> taken = step_taken(clip, shards, microbatches, batch);
        for (std::size_t i = 0; i < 16; ++i) {
          CHECK(taken[i] == doctest::Approx(expected[i]).epsilon(2e-5).scale(std::min(clip, 1.0)));
        }
      }
    }
  }
}

TEST_CASE("a clipped term's value is that of the loss, its norm is bounded, and gradients of 1e20 are clipped") {
  const Batch batch = tests::regression_batch(8, 3, float32);
  const Tree w = small_weights();
  CHECK(value(clipped_per_example(row_loss, w, batch, 0.1)).item<float>() ==
        doctest::Approx(value(mean_squared_error(predicted(w, batch.x), batch.y)).item<float>()));
  const auto scaled = [](const Tree& at, const Batch& row) { return 1e20 * local_value(row_loss(at, row)); };
  const Tree g = grad([&](const Tree& at) { return value(clipped_per_example(scaled, at, batch, 0.1)); })(w);
  const double norm = optim::global_norm(g).item<float>();
  CHECK(norm > 0.01);
  CHECK(norm <= 0.1 * (1 + 1e-6));
  expect_error<ValueError>([&] { clipped_per_example(row_loss, w, batch, 0); }, "[clipped_per_example] clip is 0");
}

TEST_CASE("a clipped step has one meaning, and the same bits on 1 and 2 devices, with noise and resumed") {
  const StepLoss loss = [](const Tree& w, const Tree& state, const Batch& b) {
    return WithAux{clipped_per_example(row_loss, w, b, 0.5), state, {}};
  };
  const auto run = [&](const char* where) {
    const auto optimizer = optim::chain(optim::private_noise(1.1, 0.5, 16, random::key(5)), optim::adam(0.01));
    const TrainStep step = data_parallel(loss, optimizer, {.devices = devices(where), .shards = 8});
    const Batch batch = tests::regression_batch(16, 3, float32);
    check_one_meaning(step, step.init(small_weights(), Tree()), batch);
    TrainState state = step.init(small_weights(), Tree());
    for (int i = 0; i < 3; ++i) state = step(std::move(state), batch).first;
    return fingerprint(to_tree(state));
  };
  CHECK(run("cpu:0") == run("cpu:0-1"));
}

TEST_CASE("private_noise has the deviation of a mean of clipped gradients") {
  const auto noise = optim::private_noise(2.0, 3.0, 100, random::key(1));
  const Tree zero = zeros({100000});
  const Array drawn = optim::update(noise, zero, noise.init(zero), zero, optim::KnownLoss(Array())).first.array();
  CHECK(sqrt(mean(square(drawn))).item<float>() == doctest::Approx(0.06).epsilon(0.01));
  expect_error<ValueError>([] { optim::private_noise(0, 1, 8, random::key(1)); }, "noise_multiplier is 0");
}

TEST_CASE("privacy_epsilon: published values, an integral, and its limits") {
  // opacus.ai/api/compute_dp_sgd_privacy: 60000 rows, batches of 256, noise 1.12, 60 epochs, orders 10, 20 and 100: 2.95.
  // Bu, Dong, Long and Su 2020, figure 4: noise 1.3, 20 epochs: 1.34 by the moments accountant, of orders up to 32.
  std::vector<int> orders(31);
  std::iota(orders.begin(), orders.end(), 2);
  struct Published {
    PrivacyOptions options;
    std::vector<int> orders;
    double epsilon;
  };
  const double q = 256.0 / 60000;
  for (const Published& p :
       {Published{{1.12, q, 14062, 1e-5}, {10, 20, 100}, 2.95}, Published{{1.3, q, 4687, 1e-5}, orders, 1.34}}) {
    CHECK(wider_epsilon(p.options, p.orders) == doctest::Approx(p.epsilon).epsilon(0.01));
    CHECK(privacy_epsilon(p.options) < p.epsilon);
    CHECK(privacy_epsilon(p.options) > 0.75 * p.epsilon);
  }
  for (const PrivacyOptions& o : {PrivacyOptions{1.1, 0.01, 1000, 1e-5}, PrivacyOptions{2, 0.05, 300, 1e-6},
                                  PrivacyOptions{4, 1, 10, 1e-5}, PrivacyOptions{0.8, 0.001, 5000, 1e-7}}) {
    CAPTURE(o.noise_multiplier);
    CHECK(privacy_epsilon(o) == doctest::Approx(epsilon_by_integration(o)).epsilon(1e-6));
  }
  CHECK(privacy_epsilon({.steps = 0}) == 0);
  expect_error<ValueError>([] { privacy_epsilon({.noise_multiplier = 0}); }, "noise_multiplier is 0");
  expect_error<ValueError>([] { privacy_epsilon({.sampling_rate = 1.5}); }, "sampling_rate is 1.5");
  expect_error<ValueError>([] { privacy_epsilon({.steps = -1}); }, "steps is -1");
  expect_error<ValueError>([] { privacy_epsilon({.delta = 1}); }, "delta is 1");
}
