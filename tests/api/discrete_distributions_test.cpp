#include <limits>
#include <set>

#include <doctest/doctest.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/random.h>
#include <lockstep/transforms.h>

#include "tests/api/kolmogorov_smirnov.h"
#include "tests/support/expect_error.h"

// Draws of every discrete distribution against its probabilities, and what the draws of integers refuse.
using namespace lockstep;
using tests::check_close;
using tests::check_counts;
using tests::check_same_bits;
using tests::expect_error;
using tests::many;

namespace {

double poisson_mass(double rate, std::int64_t k) {
  const auto x = static_cast<double>(k);
  return std::exp(x * std::log(rate) - rate - std::lgamma(x + 1));
}

double binomial_mass(double n, double p, std::int64_t k) {
  const auto x = static_cast<double>(k);
  return std::exp(std::lgamma(n + 1) - std::lgamma(x + 1) - std::lgamma(n - x + 1) + x * std::log(p) +
                  (n - x) * std::log1p(-p));
}

}  // namespace

TEST_CASE("poisson counts at rates below and above 10") {
  for (const double rate : {0.1, 3.0, 9.9, 10.1, 50.0, 1000.0}) {
    CAPTURE(rate);
    check_counts(random::poisson(random::key(1), rate, many()), 0, 2000,
                 [&](std::int64_t k) { return poisson_mass(rate, k); });
  }
  const Array mixed = random::poisson(random::key(2), array({2.f, 30.f}), {20000, 2}, int64);
  CHECK(mixed.dtype() == int64);
  check_counts(slice_in_dim(mixed, 1, 2, 1), 0, 200, [](std::int64_t k) { return poisson_mass(30, k); });
  const float infinity = std::numeric_limits<float>::infinity();
  check_close(random::poisson(random::key(3), array({0.f, -1.f, std::nanf(""), infinity, 1e30f}), {5}), {5},
              {0, -1, -1, 2147483647, 2147483647}, 0);
}

TEST_CASE("binomial counts, few and many") {
  struct Case {
    double n, p;
  };
  for (const Case& c :
       {Case{10, 0.3}, Case{10, 0.9}, Case{1000, 0.002}, Case{100, 0.5}, Case{500, 0.85}, Case{1, 0.5}}) {
    CAPTURE(c.n);
    CAPTURE(c.p);
    check_counts(random::binomial(random::key(1), c.n, c.p, many()), 0, static_cast<std::int64_t>(c.n),
                 [&](std::int64_t k) { return binomial_mass(c.n, c.p, k); });
  }
  const float nan = std::nanf(""), infinity = std::numeric_limits<float>::infinity();
  check_close(random::binomial(random::key(2), array({5.f, 5.f, 0.f, -1.f, 5.f, 5.f, infinity, 3.7f}),
                               array({0.f, 1.f, 0.5f, 0.5f, 1.5f, nan, 0.5f, 1.f}), {8}),
              {8}, {0, 5, 0, nan, nan, nan, infinity, 3}, 0);
}

TEST_CASE("geometric, categorical, randint, choice and permutation") {
  check_counts(random::geometric(random::key(1), 0.2, many()), 1, 200,
               [](std::int64_t k) { return 0.2 * std::pow(0.8, static_cast<double>(k - 1)); });
  const double p[] = {0.1, 0.2, 0.7};
  const Array logits = log(array({0.1f, 0.2f, 0.7f}));
  check_counts(random::categorical(random::key(2), logits, {.shape = many()}), 0, 2,
               [&](std::int64_t k) { return p[k]; });
  check_counts(random::randint(random::key(3), many(), -3, 4), -3, 3, [](std::int64_t) { return 1 / 7.0; });
  check_counts(random::choice(random::key(4), 3, many(), {.p = array({0.1f, 0.2f, 0.7f})}), 0, 2,
               [&](std::int64_t k) { return p[k]; });
  // Probability 0 is never drawn, also at the ends.
  check_counts(random::choice(random::key(5), 4, many(), {.p = array({0.f, 1.f, 3.f, 0.f})}), 1, 2,
               [&](std::int64_t k) { return k == 1 ? 0.25 : 0.75; });
  // All orders of three.
  const Array orders =
      vmap([](const Array& key) { return random::permutation(key, 3); })(random::split(random::key(6), 6000));
  check_counts(sum(orders * array({9, 3, 1}), {{1}}), 0, 26, [](std::int64_t code) {
    const std::int64_t a = code / 9, b = code / 3 % 3, c = code % 3;
    return a != b && b != c && a != c ? 1 / 6.0 : 0;
  });
  const std::vector<double> drawn = tests::values(random::permutation(random::key(7), 5000));
  CHECK(std::set<double>(drawn.begin(), drawn.end()).size() == 5000);
}

TEST_CASE("draws without replacement are distinct") {
  const std::vector<double> plain = tests::values(random::choice(random::key(1), 100, {10, 10}, {.replace = false}));
  CHECK(std::set<double>(plain.begin(), plain.end()).size() == 100);
  const Array p = random::uniform(random::key(2), {100});
  const std::vector<double> weighted =
      tests::values(random::choice(random::key(3), 100, {50}, {.replace = false, .p = p}));
  CHECK(std::set<double>(weighted.begin(), weighted.end()).size() == 50);
  expect_error<ValueError>([] { random::choice(random::key(1), 3, {4}, {.replace = false}); }, "random::choice",
                           "4 draws", "from 3");
  expect_error<ValueError>([] { random::choice(random::key(1), 0, {1}); }, "random::choice", "no element");
  expect_error<ShapeError>([] { random::choice(random::key(1), 3, {4}, {.p = ones({2})}); }, "random::choice", "[3]",
                           "f32[2]");
  expect_error<ValueError>(
      [] { random::categorical(random::key(1), ones({3}), {.shape = Shape{4}, .replace = false}); },
      "random::categorical", "4 draws", "3 classes");
}

TEST_CASE("draws of no and of one element") {
  for (const Shape& shape : {Shape{0}, Shape{2, 0}, Shape{}, Shape{1}}) {
    CHECK(random::randint(random::key(1), shape, 0, 5).shape() == shape);
    CHECK(random::gamma(random::key(1), 2.0, shape).shape() == shape);
    CHECK(random::poisson(random::key(1), 2.0, shape).shape() == shape);
    CHECK(random::beta(random::key(1), 2.0, 1.0, shape).shape() == shape);
    CHECK(random::choice(random::key(1), 4, shape).shape() == shape);
  }
  check_close(random::permutation(random::key(1), 0), {0}, {});
  check_close(random::permutation(random::key(1), 1), {1}, {0});
  check_close(random::randint(random::key(1), {3}, 7, 7), {3}, {7, 7, 7});
  check_close(random::randint(random::key(1), {2}, 7, -2), {2}, {7, 7});
}

TEST_CASE("draws of integers refuse what they cannot draw") {
  const Array key = random::key(1);
  expect_error<DtypeError>([&] { random::randint(key, {2}, 0, 5, float32); }, "random::randint", "float32");
  expect_error<DtypeError>([&] { random::randint(key, {2}, 0.5, 5); }, "random::randint", "bounds are integers");
  expect_error<DtypeError>([&] { random::randint(key, {2}, ones({2}), 5); }, "random::randint", "f32[2]");
  expect_error<DtypeError>([&] { random::rademacher(key, {2}, uint8); }, "random::rademacher", "uint8");
  expect_error<DtypeError>([&] { random::poisson(key, 1.0, {2}, int16); }, "random::poisson", "int16");
  expect_error<DtypeError>([&] { random::binomial(key, 3, 0.5, {2}, int32); }, "random::binomial", "int32");
  expect_error<DtypeError>([&] { random::geometric(key, 0.5, {2}, float32); }, "random::geometric", "float32");
  expect_error<DtypeError>([&] { random::categorical(key, arange(3)); }, "random::categorical", "int32");
  expect_error<ShapeError>(
      [&] {
        random::categorical(key, ones({2, 3}), {.shape = Shape{3}});
      },
      "random::categorical", "[2]", "[3]");
  expect_error<ShapeError>([&] { random::randint(random::split(key), {2}, 0, 5); }, "random::randint", "one key",
                           "vmap");
  expect_error<ShapeError>([&] { random::poisson(key, ones({3}), {2}); }, "random::poisson", "[3]", "[2]");
  expect_error<ValueError>([&] { random::permutation(key, -1); }, "random::permutation", "-1");
  expect_error<MeshError>([&] { random::permutation(key, arange(4), 0, false, {.cut = random::Cut{}}); },
                          "random::permutation", "depend on one another");
  expect_error<ValueError>([&] { random::ball(key, 0, 2, {}); }, "random::ball", "d must be above 0");
  expect_error<ValueError>([&] { random::generalized_normal(key, 0, {}); }, "random::generalized_normal", "p must");
  expect_error<ShapeError>([&] { random::dirichlet(key, ones({}), {}); }, "random::dirichlet", "alpha", "f32[]");
}

TEST_CASE("mapped draws equal single draws") {
  const Array keys = random::split(random::key(3), 4);
  const auto check = [&](auto draw) {
    const Array mapped = vmap(draw)(keys);
    for (std::int64_t i = 0; i < 4; ++i) {
      const Array single = draw(squeeze(slice_in_dim(keys, i, i + 1, 0), {0}));
      check_same_bits(squeeze(slice_in_dim(mapped, i, i + 1, 0), {0}), single);
    }
  };
  check([](const Array& key) { return random::gamma(key, 0.7, {5}); });
  check([](const Array& key) { return random::poisson(key, 12.0, {5}); });
  check([](const Array& key) { return random::binomial(key, 40, 0.4, {5}); });
  check([](const Array& key) { return random::randint(key, {5}, 0, 9); });
  check([](const Array& key) { return random::permutation(key, 6); });
  check([](const Array& key) { return random::choice(key, 6, {4}, {.p = arange(6, float32)}); });
  check([](const Array& key) { return random::categorical(key, arange(6, float32)); });
}
