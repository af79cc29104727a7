#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/layer_run.h"
#include "tests/support/replicas.h"

using namespace lockstep;
using tests::Doubles;
using tests::LayerCall;
using tests::run_layer;

namespace {

auto batch_norm_with(const BatchNormOptions& options) {
  return [options](Scope& scope, const Array& x) { return batch_norm(scope, x, options); };
}

void check_doubles(const Array& a, const Doubles& expected, double tolerance = 1e-12) {
  const Doubles values = convert(a, float64).to_vector<double>();
  REQUIRE(values.size() == expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    CAPTURE(i);
    CHECK(values[i] == doctest::Approx(expected[i]).epsilon(tolerance));
  }
}

struct Statistics {
  double mean = 0;
  double variance = 0;
};

Statistics statistics(const Doubles& x) {
  Statistics s;
  for (const double v : x) s.mean += v / static_cast<double>(x.size());
  for (const double v : x) s.variance += (v - s.mean) * (v - s.mean) / static_cast<double>(x.size());
  return s;
}

/// Two channels of four rows, with their statistics.
const Doubles channel_a = {1, 2, 4, 9};
const Doubles channel_b = {-3, 0, 5, 6};
Array two_channels() { return tests::doubles({1, -3, 2, 0, 4, 5, 9, 6}, {4, 2}); }

Doubles normalized_doubles(const Doubles& x, const Statistics& s, double gamma, double beta, double epsilon = 1e-3) {
  Doubles y;
  for (const double v : x) y.push_back((v - s.mean) / std::sqrt(s.variance + epsilon) * gamma + beta);
  return y;
}

Doubles interleaved(const Doubles& a, const Doubles& b) {
  Doubles y;
  for (std::size_t i = 0; i < a.size(); ++i) y.insert(y.end(), {a[i], b[i]});
  return y;
}

}  // namespace

TEST_CASE("batch_norm in training: batch statistics, biased variance, moving averages") {
  const LayerCall call{.trainable = {{"gamma", array(Doubles{2, 3})}, {"beta", array(Doubles{0.5, -0.5})}},
                       .state = {{"moving_mean", array(Doubles{10, 20})}, {"moving_variance", array(Doubles{4, 8})}}};
  const auto result = run_layer(batch_norm_with({}), two_channels(), call);
  const Statistics a = statistics(channel_a);
  const Statistics b = statistics(channel_b);
  CHECK(a.variance == 9.5);
  check_doubles(result.y,
                interleaved(normalized_doubles(channel_a, a, 2, 0.5), normalized_doubles(channel_b, b, 3, -0.5)));
  check_doubles(result.after.at("moving_mean").array(), {0.99 * 10 + 0.01 * a.mean, 0.99 * 20 + 0.01 * b.mean});
  check_doubles(result.after.at("moving_variance").array(),
                {0.99 * 4 + 0.01 * a.variance, 0.99 * 8 + 0.01 * b.variance});

  const auto other =
      run_layer(batch_norm_with({.momentum = 0.5, .epsilon = 0.1, .center = false, .scale = false}), two_channels());
  CHECK(other.trainable.size() == 0);
  check_doubles(other.y,
                interleaved(normalized_doubles(channel_a, a, 1, 0, 0.1), normalized_doubles(channel_b, b, 1, 0, 0.1)));
  check_doubles(other.after.at("moving_mean").array(), {0.5 * a.mean, 0.5 * b.mean});
  check_doubles(other.after.at("moving_variance").array(), {0.5 + 0.5 * a.variance, 0.5 + 0.5 * b.variance});
}

TEST_CASE("batch_norm in evaluation, and frozen, normalises by the moving statistics and leaves them") {
  LayerCall call{.state = {{"moving_mean", array(Doubles{1, 2})}, {"moving_variance", array(Doubles{4, 9})}},
                 .training = false};
  const Doubles expected =
      interleaved(normalized_doubles(channel_a, {1, 4}, 1, 0), normalized_doubles(channel_b, {2, 9}, 1, 0));
  const auto evaluated = run_layer(batch_norm_with({}), two_channels(), call);
  check_doubles(evaluated.y, expected);
  call.training = true;
  const auto frozen = run_layer(batch_norm_with({.trainable = false}), two_channels(), call);
  check_doubles(frozen.y, expected);
  for (const auto& result : {evaluated, frozen}) {
    for (const std::string name : {"moving_mean", "moving_variance"}) {
      CHECK(result.after.at(name).array().to_bytes() == result.before.at(name).array().to_bytes());
    }
  }
}

TEST_CASE("batch_norm takes statistics over all dimensions but the last") {
  const Array x = tests::spread_values({3, 2, 4, 2}, 5);
  const auto image = run_layer(batch_norm_with({}), x);
  const auto rows = run_layer(batch_norm_with({}), reshape(x, {24, 2}));
  CHECK(image.y.shape() == x.shape());
  check_doubles(image.y, rows.y.to_vector<double>());
  check_doubles(image.after.at("moving_variance").array(),
                rows.after.at("moving_variance").array().to_vector<double>());
}

TEST_CASE("batch_norm keeps statistics of half precision in float32") {
  const Model model([](Scope& scope, const Array& x) { return batch_norm(scope, x); });
  for (const Variable& v : model.variables(zeros({2, 3}, bfloat16))) {
    CHECK(v.type.dtype == (v.trainable ? bfloat16 : float32));
  }
  // 1000 ones and 24 twos: counted in bfloat16 the mean would be 1.
  std::vector<float> values(1024, 1.0F);
  std::fill_n(values.begin(), 24, 2.0F);
  const auto result = run_layer(batch_norm_with({.momentum = 0}), convert(array(values, {1024, 1}), bfloat16));
  CHECK(result.y.dtype() == bfloat16);
  check_doubles(result.after.at("moving_mean").array(), {1 + 24.0 / 1024}, 1e-6);
}

TEST_CASE("rows of weight 0 count in no statistic, on any number of replicas") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Array x = tests::doubles({1, -3, 2, 0, 4, 5, 9, 6, nan, nan, 1e30, -7, 0, 0, 3, 3}, {8, 2});
  const Array weight = array({1.0F, 1.0F, 1.0F, 1.0F, 0.0F, 0.0F, 0.0F, 0.0F});
  const Model model([](Scope& scope, const Array& input) { return batch_norm(scope, input, {.momentum = 0}); });
  const auto [trainable, state] = model.init(random::key(0), x);
  const Statistics a = statistics(channel_a);
  const Statistics b = statistics(channel_b);
  const Doubles expected = interleaved(normalized_doubles(channel_a, a, 1, 0), normalized_doubles(channel_b, b, 1, 0));
  for (const tests::Replicas replicas : {tests::Replicas{1, 1}, {2, 2}, {4, 2}, {8, 2}}) {
    CAPTURE(replicas.shards);
    const auto [y, next] = tests::call_on(replicas, model, trainable, state, {x, zeros({8}), weight}, true);
    check_doubles(slice_in_dim(y, 0, 4, 0), expected);
    check_doubles(next.at("moving_mean").array(), {a.mean, b.mean});
    check_doubles(next.at("moving_variance").array(), {a.variance, b.variance});
  }
}

TEST_CASE("a batch without a real row normalises to 0 and keeps the state") {
  const LayerCall call{.state = {{"moving_mean", array(Doubles{1, 2})}, {"moving_variance", array(Doubles{4, 9})}},
                       .rows = zeros({4})};
  for (const bool synchronized : {true, false}) {
    const auto result = run_layer(batch_norm_with({.synchronized = synchronized}), two_channels(), call);
    check_doubles(result.y, Doubles(8, 0.0));
    check_doubles(result.after.at("moving_mean").array(), {1, 2});
    check_doubles(result.after.at("moving_variance").array(), {4, 9});
  }
}

TEST_CASE("not synchronized: each shard's own statistics, moving ones averaged over shards with rows") {
  const Model model(
      [](Scope& scope, const Array& x) { return batch_norm(scope, x, {.momentum = 0, .synchronized = false}); });
  const Array x = tests::doubles({1, 3, 10, 20, 7, 7, 8, 8}, {8, 1});
  const auto [trainable, state] = model.init(random::key(0), x);
  const Array all = ones({8});
  const auto [y, next] = tests::call_on({4, 2}, model, trainable, state, {x, zeros({8}), all}, true);
  const double side = 1 / std::sqrt(1 + 1e-3);
  const double wide = 5 / std::sqrt(25 + 1e-3);
  check_doubles(y, {-side, side, -wide, wide, 0, 0, 0, 0});
  check_doubles(next.at("moving_mean").array(), {(2 + 15 + 7 + 8) / 4.0});
  check_doubles(next.at("moving_variance").array(), {(1 + 25) / 4.0});

  const Array half = array({1.0F, 1.0F, 1.0F, 1.0F, 0.0F, 0.0F, 0.0F, 0.0F});
  const Tree uneven = tests::call_on({4, 2}, model, trainable, state, {x, zeros({8}), half}, true).second;
  check_doubles(uneven.at("moving_mean").array(), {(2 + 15) / 2.0});
  check_doubles(uneven.at("moving_variance").array(), {(1 + 25) / 2.0});
}

TEST_CASE("derivatives of both orders through batch statistics equal differences, forward and in reverse") {
  const Array x = two_channels() + tests::spread_values({4, 2});
  const Array factors = tests::spread_values({4, 2}, 3);
  for (const Array& rows : {Array(), array({1.0F, 0.0F, 1.0F, 1.0F})}) {
    const LayerCall call{.trainable = {{"gamma", array(Doubles{2, 3})}, {"beta", array(Doubles{0.5, -0.5})}},
                         .rows = rows};
    // Moving statistics, too, are functions of x.
    const auto loss = [&](const Array& v) {
      const auto result = run_layer(batch_norm_with({.momentum = 0.5}), v, call);
      return sum(factors * tanh(result.y)) + sum(sin(result.after.at("moving_variance").array()));
    };
    check_grads(loss, std::tuple(x), {.order = 2});
  }
}

TEST_CASE("derivatives of both orders by given statistics equal differences") {
  const auto loss = [](const Array& v, const Array& gamma, const Array& mean, const Array& variance) {
    const LayerCall call{.trainable = {{"gamma", gamma}},
                         .state = {{"moving_mean", mean}, {"moving_variance", variance}},
                         .training = false};
    return sum(tanh(run_layer(batch_norm_with({}), v, call).y));
  };
  check_grads(loss, std::tuple(two_channels(), array(Doubles{2, 3}), array(Doubles{1, 2}), array(Doubles{4, 9})),
              {.order = 2});
}

TEST_CASE("layer_norm: each row by its own mean and biased variance") {
  const LayerCall call{.trainable = {{"gamma", array(Doubles{1, 2, 3, 4})}, {"beta", array(Doubles{0, 0, 0, 7})}}};
  const auto layer = [](Scope& scope, const Array& x) { return layer_norm(scope, x); };
  const auto result = run_layer(layer, tests::doubles({1, 2, 4, 9, -3, 0, 5, 6}, {2, 4}), call);
  Doubles expected;
  for (const Doubles& row : {channel_a, channel_b}) {
    Doubles y = normalized_doubles(row, statistics(row), 1, 0);
    for (std::size_t i = 0; i < 4; ++i) expected.push_back(y[i] * static_cast<double>(i + 1) + (i == 3 ? 7 : 0));
  }
  check_doubles(result.y, expected);
  CHECK(result.after.size() == 0);
  const auto bare =
      run_layer([](Scope& scope,
                   const Array& x) { return layer_norm(scope, x, {.epsilon = 0, .center = false, .scale = false}); },
                tests::doubles({5, 5, 7, 7}, {1, 2, 2, 1}));
  CHECK(bare.trainable.size() == 0);
}

TEST_CASE("norms of 16 bits are those of float32, rounded once behind gamma and beta, as in PyTorch and Flax") {
  using Norm = std::function<Array(Scope&, const Array&)>;
  const std::vector<Norm> norms = {[](Scope& s, const Array& x) { return layer_norm(s, x); },
                                   [](Scope& s, const Array& x) { return group_norm(s, x, {.groups = 4}); },
                                   [](Scope& s, const Array& x) { return instance_norm(s, x); },
                                   [](Scope& s, const Array& x) { return batch_norm(s, x); }};
  for (const DType narrow : {float16, bfloat16}) {
    const Array x = convert(random::normal(random::key(1), {2, 6, 8}) * 3 + 1, narrow);
    for (const Norm& norm : norms) {
      const Model<Array, Array> wide([norm](Scope& s, const Array& v) { return norm(s, v); });
      const auto mixed = with_precision(wide, narrow == float16 ? "mixed_float16" : "mixed_bfloat16");
      auto [w, state] = wide.init(random::key(2), convert(x, float32));
      w = map([](const Array& leaf) { return 1.2345 * leaf + random::normal(random::key(3), leaf.shape()); }, w);
      const Array expected = wide.stateless_call(w, state, convert(x, float32), true).first;
      const Array given = mixed.stateless_call(w, state, convert(x, float32), true).first;
      CHECK(given.to_bytes() == convert(convert(expected, narrow), float32).to_bytes());
    }
  }
}

namespace {

bool all_zero(const Array& x) {
  const Doubles values = convert(x, float64).to_vector<double>();
  return std::all_of(values.begin(), values.end(), [](double v) { return v == 0; });
}

struct Equal {
  double value;
  std::int64_t count;
};
const std::vector<Equal> equal_elements = {{1234.5677, 257}, {1e10, 33}, {3e38, 33}, {-0.1, 1000}, {1e-30, 7}, {3, 1}};

}  // namespace

TEST_CASE("equal elements normalise to 0, whatever they are, with a derivative of numbers") {
  for (const DType dtype : {float64, float32, bfloat16}) {
    for (const Equal& c : equal_elements) {
      for (const double epsilon : {1e-3, 1e-5, 1e-12}) {
        CAPTURE(name(dtype));
        CAPTURE(c.value);
        CAPTURE(epsilon);
        const auto rows = [&](Scope& scope, const Array& x) { return layer_norm(scope, x, {.epsilon = epsilon}); };
        const Array row = full({2, c.count}, c.value, dtype);
        CHECK(all_zero(run_layer(rows, row).y));
        const auto loss = [&](const Array& x) { return sum(convert(run_layer(rows, x).y, float32)); };
        CHECK(all(is_finite(grad(loss)(row))).item<bool>());
        const auto columns = batch_norm_with({.epsilon = epsilon});
        CHECK(all_zero(run_layer(columns, transpose(row)).y));
        CHECK(all_zero(run_layer(columns, reshape(transpose(row), {1, c.count, 1, 2})).y));
      }
    }
  }
}

TEST_CASE("equal elements normalise to 0 on any number of replicas") {
  const Model model([](Scope& scope, const Array& x) { return batch_norm(scope, x, {.epsilon = 1e-12}); });
  for (const Equal& c : equal_elements) {
    const Array x = full({48, 3, 2}, c.value, float32);
    const auto [trainable, state] = model.init(random::key(0), x);
    const Array weight = convert(not_equal(rem(arange(48), 5), 0), float32);
    for (const tests::Replicas replicas : {tests::Replicas{1, 1}, {2, 2}, {4, 2}, {8, 2}, {16, 2}}) {
      CAPTURE(c.value);
      CAPTURE(replicas.shards);
      const Array counted = where(reshape(weight != 0, {48, 1, 1}), x, std::numeric_limits<double>::quiet_NaN());
      const auto [y, next] = tests::call_on(replicas, model, trainable, state, {counted, zeros({48}), weight}, true);
      CHECK(all_zero(where(reshape(weight != 0, {48, 1, 1}), y, 0)));
    }
  }
}

TEST_CASE("normalisations refuse integers, vectors, negative epsilons and weights that do not fit") {
  const auto layer = [](Scope& scope, const Array& x) { return layer_norm(scope, x, {.epsilon = -1}); };
  tests::expect_error<ValueError>(
      [&] {
        static_cast<void>(run_layer(layer, zeros({2, 2})));
      },
      "[layer_norm ''] epsilon is -1;");
  tests::expect_error<ValueError>(
      [&] {
        static_cast<void>(run_layer(batch_norm_with({.epsilon = NAN}), zeros({2, 2})));
      },
      "must not be negative");
  tests::expect_error<ShapeError>([&] { static_cast<void>(run_layer(batch_norm_with({}), zeros({2}))); },
                                  "give floats [N, ..., C]");
  tests::expect_error<ShapeError>(
      [&] {
        static_cast<void>(run_layer(batch_norm_with({}), zeros({2, 2}, int32)));
      },
      "the input is i32[2,2]");
  tests::expect_error<ShapeError>(
      [&] {
        static_cast<void>(run_layer(batch_norm_with({}), zeros({2, 2}), {.rows = ones({3})}));
      },
      "give one weight per row");
}
