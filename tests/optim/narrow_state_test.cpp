#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>
#include <lockstep/optim_contrib.h>

#include "tests/support/array_values.h"
#include "tests/support/expect_error.h"

// Rounding at random, and optimizers that keep their state or their parameters in 16 bits.

using namespace lockstep;
using tests::check_same_bits;
using tests::expect_error;
using tests::values;

namespace {

Tree params_of(const Array& a) { return Tree::dict({{"layer", Tree::dict({{"a", Tree(a)}})}}); }

/// Parameters and state after updates by the same gradient.
std::pair<Array, Tree> trained_with_state(const optim::GradientTransformation& optimizer, const Array& start,
                                          const Array& gradient, int steps) {
  Tree params = params_of(start), state = optimizer.init(params);
  const Tree gradients = params_of(gradient);
  for (int i = 0; i < steps; ++i) {
    auto [updates, next] = optim::update(optimizer, gradients, state, params);
    params = optim::apply_updates(params, updates);
    state = std::move(next);
  }
  return {params.at("layer/a").array(), state};
}

}  // namespace

TEST_CASE("rounding at random gives one of the two numbers beside x, x on average") {
  for (const DType dtype : {bfloat16, float16}) {
    CAPTURE(name(dtype));
    // Normal, subnormal in float16, negative, near a power of two.
    for (const double x : {1.00123, -3.14159, 1e-5, -3e-7, 2e-8, 0.999999, 65.1, 1234.56}) {
      CAPTURE(x);
      const auto given = static_cast<double>(static_cast<float>(x));
      const Array drawn =
          convert(random::round_stochastically(random::key(3), full({65536}, x, float32), dtype), float64);
      const double low = min(drawn).item<double>(), high = max(drawn).item<double>();
      CHECK(low <= given);
      CHECK(high >= given);
      CHECK(all((drawn == low) | (drawn == high)).item<bool>());
      // Neighbours: nothing of the dtype lies between.
      const Array middle = convert(convert(full({}, (low + high) / 2, float64), dtype), float64);
      CHECK((middle.item<double>() == low || middle.item<double>() == high));
      CHECK(std::abs(mean(drawn).item<double>() - given) <= 0.01 * (high - low));
    }
  }
}

TEST_CASE("what 16 bits hold stays, whatever is drawn: numbers, zeros, infinities, NaN") {
  const float inf = std::numeric_limits<float>::infinity();
  const Array x = array({0.0F, -0.0F, 1.0F, -1.5F, 0x1p-10F, inf, -inf, 0x1p15F});
  for (const DType dtype : {bfloat16, float16}) {
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      check_same_bits(random::round_stochastically(random::key(seed), x, dtype), convert(x, dtype));
      CHECK(any(isnan(random::round_stochastically(random::key(seed), full({4}, std::nan("")), dtype))).item<bool>());
    }
    check_same_bits(random::round_stochastically(random::key(0), convert(x, dtype), dtype), convert(x, dtype));
  }
  const Array low = full({64}, 0x1p-149, float32);
  CHECK(max(convert(random::round_stochastically(random::key(0), low), float32)).item<float>() <= 0x1p-133F);
}

TEST_CASE("rounding at random: jit and vmap's bits, errors") {
  const Array x = random::normal(random::key(1), {64});
  const auto round = [](const Array& v) { return random::round_stochastically(random::key(9), v); };
  check_same_bits(jit(round)(x), round(x));
  check_same_bits(vmap(round)(stack({x, x}, 0)), stack({round(x), round(x)}, 0));
  expect_error<DtypeError>([&] { random::round_stochastically(random::key(0), x, float32); }, "round_stochastically",
                           "float32", "bfloat16 or float16");
  expect_error<DtypeError>([&] { random::round_stochastically(random::key(0), arange(3)); }, "round_stochastically",
                           "i32[3]");
}

TEST_CASE("moments in bfloat16: the state is narrow, updates are close to those of float32") {
  const Array start = random::normal(random::key(1), {256}), gradient = random::normal(random::key(2), {256});
  const std::vector<std::pair<std::string, optim::GradientTransformation>> optimizers = {
      {"adam", optim::adam(1e-2)},     {"adamw", optim::adamw(1e-2)},     {"nadam", optim::nadam(1e-2)},
      {"adamax", optim::adamax(1e-2)}, {"amsgrad", optim::amsgrad(1e-2)}, {"adabelief", optim::adabelief(1e-2)},
      {"radam", optim::radam(1e-2)},   {"yogi", optim::yogi(1e-2)},       {"ademamix", optim::ademamix(1e-2, {})},
      {"adan", optim::adan(1e-2)},     {"lion", optim::lion(1e-3)},       {"sgd", optim::sgd(1e-2, 0.9)},
  };
  for (const auto& [label, optimizer] : optimizers) {
    CAPTURE(label);
    const auto [expected, wide_state] = trained_with_state(optimizer, start, gradient, 8);
    for (const std::optional<std::uint64_t>& seed : {std::optional<std::uint64_t>(), std::optional<std::uint64_t>(3)}) {
      const auto [given, state] =
          trained_with_state(optim::moments_dtype(optimizer, bfloat16, seed), start, gradient, 8);
      CHECK(max(abs(given - expected)).item<float>() < 0.05F * max(abs(expected - start)).item<float>());
      const Tree& inner = state.at("inner");
      REQUIRE(inner.paths() == wide_state.paths());
      int narrow = 0;
      for (std::size_t i = 0; i < inner.leaves().size(); ++i) {
        const Array wide = wide_state.leaves()[i], kept = inner.leaves()[i];
        CHECK(kept.dtype() == (wide.shape() == start.shape() ? bfloat16 : wide.dtype()));
        narrow += kept.dtype() == bfloat16 ? 1 : 0;
      }
      CHECK(narrow >= 1);
    }
  }
}

TEST_CASE("copies of parameters stay as they are: without a gradient no parameter moves") {
  const Array start = random::normal(random::key(1), {64}), none = zeros({64});
  const optim::GradientTransformation still = optim::sgd(0.1);
  const std::vector<std::pair<std::string, optim::GradientTransformation>> rules = {
      {"lookahead", optim::lookahead(still, 2, 0.5)},
      {"sam", optim::sam(still, still, 2)},
      {"schedule_free", optim::schedule_free_sgd(0.1)},
      {"madgrad", optim::madgrad(0.1)},
      {"cocob", optim::cocob()},
      {"average_parameters", optim::chain(still, optim::average_parameters(0.9, {.overwrite_every = 2}))}};
  for (const auto& [label, rule] : rules) {
    CAPTURE(label);
    const Array end = trained_with_state(optim::moments_dtype(rule, bfloat16), start, none, 4).first;
    CHECK(max(abs(end - start)).item<float>() < 1e-6F);
  }
}

TEST_CASE("float16 keeps averages of gradients, and none of squares, which it has no room for") {
  const Array start = zeros({4});
  for (const double size : {1e-5, 3e4}) {
    CAPTURE(size);
    const Array gradient = full({4}, size);
    const Array expected = trained_with_state(optim::adam(0.1), start, gradient, 20).first;
    const auto [given, state] =
        trained_with_state(optim::moments_dtype(optim::adam(0.1), float16), start, gradient, 20);
    CHECK(max(abs(given - expected)).item<float>() < 0.01F * max(abs(expected)).item<float>());
    CHECK(state.at("inner/0/mu/layer/a").array().dtype() == float16);
    CHECK(state.at("inner/0/nu/layer/a").array().dtype() == float32);
  }
}

TEST_CASE("squares in bfloat16 fall when they are rounded at random, and stand still when to the nearest") {
  // After one gradient of 1, zeros: v falls by a thousandth each step.
  const auto squares_after = [](std::optional<std::uint64_t> seed) {
    const auto rule = optim::moments_dtype(optim::scale_by_adam(), bfloat16, seed);
    const Tree params = params_of(zeros({4096}));
    Tree state = optim::update(rule, params_of(ones({4096})), rule.init(params), params).second;
    const auto next = jit([&](const Tree& s) { return optim::update(rule, params, s, params).second; });
    for (int i = 0; i < 200; ++i) state = next(state);
    return mean(convert(state.at("inner/nu/layer/a").array(), float64)).item<double>();
  };
  CHECK(squares_after({}) == doctest::Approx(1e-3).epsilon(0.01));
  CHECK(squares_after(5) == doctest::Approx(1e-3 * std::pow(0.999, 200)).epsilon(0.01));
}

TEST_CASE("parameters of 16 bits: what is added is exactly what was rounded") {
  for (const DType dtype : {bfloat16, float16}) {
    CAPTURE(name(dtype));
    const Array keys = random::split(random::key(4), 3);
    // Updates from far below the parameter's digits to far above, some that cancel nearly all of it.
    const Array p = convert(random::normal(keys[0], {4096}), dtype);
    const Array scale = exp(random::normal(keys[1], {4096}) * 6.0), u = random::normal(keys[2], {4096}) * scale;
    const Array all_of = concatenate({u, -convert(p, float32) * (1.0 + 0x1p-20), -convert(p, float32)}, 0);
    const Array all_p = concatenate({p, p, p}, 0);
    const auto given = optim::stochastic_rounding(optim::identity(), 8);
    const Tree params = params_of(all_p);
    const auto [updates, state] = optim::update(given, params_of(all_of), given.init(params), params);
    const Array after = optim::apply_updates(params, updates).at("layer/a").array();
    CHECK(after.dtype() == dtype);
    const Array wide = convert(all_p, float32) + updates.at("layer/a").array();
    check_same_bits(convert(convert(wide, dtype), float32), wide);  // nothing is left to round
    check_same_bits(after, convert(wide, dtype));
    CHECK(state.at("count").array().item<std::int32_t>() == 1);
  }
}

TEST_CASE("wider parameters get the inner updates; draws differ by seed, step and path") {
  const Array start = full({512}, 1.5, bfloat16), gradient = full({512}, 1.0, float32);
  const auto wide =
      trained_with_state(optim::stochastic_rounding(optim::sgd(1e-3), 1), convert(start, float32), gradient, 2).first;
  check_same_bits(wide, trained_with_state(optim::sgd(1e-3), convert(start, float32), gradient, 2).first);
  const auto after = [&](std::uint64_t seed, int steps) {
    return trained_with_state(optim::stochastic_rounding(optim::sgd(1e-3), seed), start, gradient, steps)
        .first.to_bytes();
  };
  CHECK(after(1, 1) == after(1, 1));
  CHECK(after(1, 1) != after(2, 1));
  CHECK(after(1, 2) != after(1, 1));
  const Tree two = Tree::dict({{"a", Tree(start)}, {"b", Tree(start)}});
  const Tree slopes = Tree::dict({{"a", Tree(gradient)}, {"b", Tree(gradient)}});
  const auto optimizer = optim::stochastic_rounding(optim::sgd(1e-3), 1);
  const Tree updates = optim::update(optimizer, slopes, optimizer.init(two), two).first;
  CHECK(updates.at("a").array().to_bytes() != updates.at("b").array().to_bytes());
}

TEST_CASE("what a wrapper of narrow state refuses") {
  expect_error<DtypeError>([] { optim::moments_dtype(optim::adam(1e-3), float32); }, "moments_dtype", "float32",
                           "bfloat16 or float16");
}

TEST_CASE("moments of what a mask or a label takes are kept in 16 bits as well") {
  const auto label = [](const std::string&, const Array&) { return "all"; };
  for (const auto& inner :
       {optim::masked(optim::adam(0.1), optim::below("layer")), optim::partition({{"all", optim::adam(0.1)}}, label)}) {
    const Tree state = trained_with_state(optim::moments_dtype(inner, bfloat16), ones({4}), ones({4}), 2).second;
    int narrow = 0;
    for (const Array& leaf : state.leaves()) narrow += leaf.dtype() == bfloat16 ? 1 : 0;
    CHECK(narrow == 2);
  }
}
