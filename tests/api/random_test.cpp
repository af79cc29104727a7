#include <set>

#include <doctest/doctest.h>

#include <lockstep/error.h>
#include <lockstep/function.h>
#include <lockstep/ops.h>
#include <lockstep/random.h>
#include <lockstep/transforms.h>

#include "tests/support/array_values.h"
#include "tests/support/expect_error.h"

using namespace lockstep;
using tests::check_close;
using tests::check_same_bits;
using tests::expect_error;

namespace {

using Words = std::vector<std::uint32_t>;

Words words(const Array& keys) { return random::key_data(keys).to_vector<std::uint32_t>(); }

Array key_at(const Array& keys, std::int64_t i) { return reshape(slice_in_dim(keys, i, i + 1, 0), {}); }

}  // namespace

TEST_CASE("keys split and fold as in JAX") {
  CHECK(words(random::key(0)) == Words{0, 0});
  CHECK(words(random::split(random::key(0), 3)) ==
        Words{1797259609, 2579123966, 928981903, 3453687069, 4146024105, 2718843009});
  CHECK(words(random::fold_in(random::key(0), 4)) == Words{2285895361, 433833334});
}

TEST_CASE("folding i in equals the i-th of a split") {
  const Array key = random::key(1701);
  const Array keys = random::split(key, 6);
  for (int i = 0; i < 6; ++i) {
    check_same_bits(random::fold_in(key, i), key_at(keys, i));
    check_same_bits(random::fold_in(key, array(i)), key_at(keys, i));
    check_same_bits(random::fold_in(key, array(static_cast<std::uint32_t>(i))), key_at(keys, i));
  }
  check_same_bits(random::fold_in(key, arange(6)), keys);
}

TEST_CASE("bits and uniforms are JAX's") {
  const Array key = random::key(42);
  CHECK(random::bits(key, {8}).to_vector<std::uint32_t>() ==
        Words{2098992034, 2919706841, 2646866425, 2409546199, 1935504149, 2516274904, 321304473, 3329172656});
  check_close(random::uniform(key, {8}), {8},
              {0.48870957, 0.67979717, 0.61627150, 0.56101608, 0.45064461, 0.58586586, 0.07480943, 0.77513337}, 1e-8);
}

TEST_CASE("large seeds are valid and distinct") {
  std::set<Words> seen;
  for (const std::uint64_t seed : {0x7fffffffULL, 0x80000000ULL, 0xffffffffULL, 0x100000000ULL, ~0ULL, 0ULL}) {
    const Words key = words(random::key(seed));
    CHECK(key == Words{static_cast<std::uint32_t>(seed >> 32), static_cast<std::uint32_t>(seed)});
    seen.insert(words(random::split(random::key(seed), 1)));
  }
  CHECK(seen.size() == 6);
}

TEST_CASE("mapped draws equal single draws") {
  const Array keys = random::split(random::key(3), 8);
  const Array drawn = vmap([](const Array& key) { return random::uniform(key, {5}); })(keys);
  const Array normal = vmap([](const Array& key) { return random::normal(key, {5}); })(keys);
  for (std::int64_t i = 0; i < 8; ++i) {
    check_same_bits(reshape(slice_in_dim(drawn, i, i + 1, 0), {5}), random::uniform(key_at(keys, i), {5}));
    check_same_bits(reshape(slice_in_dim(normal, i, i + 1, 0), {5}), random::normal(key_at(keys, i), {5}));
  }
  const Array key = random::key(9);
  const Array folded = vmap([&](const Array& i) { return random::fold_in(key, i); })(arange(4));
  check_same_bits(folded, random::split(key, 4));
}

TEST_CASE("draws of every width and dtype") {
  const Array key = random::key(7);
  for (const auto& [width, dtype] :
       {std::pair(8, uint8), std::pair(16, uint16), std::pair(32, uint32), std::pair(64, uint64)}) {
    CHECK(random::bits(key, {3}, width).dtype() == dtype);
  }
  for (const DType dtype : {float16, bfloat16, float32, float64}) {
    CAPTURE(name(dtype));
    const Array u = random::uniform(key, {4000}, dtype);
    CHECK(u.dtype() == dtype);
    const std::vector<double> v = tests::values(u);
    double total = 0;
    for (const double x : v) {
      CHECK((x >= 0 && x < 1));
      total += x;
    }
    CHECK(total / 4000 == doctest::Approx(0.5).epsilon(0.03));
  }
  // Mantissas come from the top bits of the word: 8 bits for bfloat16 shifted by 1, 64 for float64 shifted by 12.
  const Array small = random::uniform(key, {64}, bfloat16);
  const auto bytes = random::bits(key, {64}, 8).to_vector<std::uint8_t>();
  const std::vector<double> values = tests::values(small);
  for (std::size_t i = 0; i < 64; ++i) CHECK(values[i] == (bytes[i] >> 1) / 128.0);
  const auto wide = random::bits(key, {64}, 64).to_vector<std::uint64_t>();
  const std::vector<double> doubles = tests::values(random::uniform(key, {64}, float64));
  for (std::size_t i = 0; i < 64; ++i) CHECK(doubles[i] == static_cast<double>(wide[i] >> 12) * 0x1p-52);
}

TEST_CASE("ranges of uniforms") {
  const Array key = random::key(5);
  const std::vector<double> v = tests::values(random::uniform(key, {1000}, float32, -2.0, 3.0));
  for (const double x : v) CHECK((x >= -2 && x < 3));
  const Array unit = random::uniform(key, {1000});
  check_close(random::uniform(key, {1000}, float32, -2.0, 3.0), {1000}, tests::values(unit * 5 - 2), 1e-6);
  const Array per_column = random::uniform(key, {500, 2}, float32, array({0.f, 10.f}), array({1.f, 20.f}));
  const std::vector<double> columns = tests::values(per_column);
  for (std::size_t i = 0; i < columns.size(); i += 2) {
    CHECK((columns[i] >= 0 && columns[i] < 1));
    CHECK((columns[i + 1] >= 10 && columns[i + 1] < 20));
  }
}

TEST_CASE("moments of normals") {
  for (const DType dtype : {float32, float64}) {
    const Array x = random::normal(random::key(11), {20000}, dtype);
    CHECK(x.dtype() == dtype);
    CHECK(mean(x).item<double>() == doctest::Approx(0).epsilon(0.02));
    CHECK(var(x).item<double>() == doctest::Approx(1).epsilon(0.03));
  }
  const Array t = random::truncated_normal(random::key(12), -2, 1, {20000});
  CHECK(min(t).item<double>() > -2);
  CHECK(max(t).item<double>() < 1);
  CHECK(mean(t).item<double>() == doctest::Approx(-0.2296).epsilon(0.1));
  expect_error<ValueError>([] { random::truncated_normal(random::key(1), 1, 1, {2}); }, "truncated_normal", "1 and 1");
}

TEST_CASE("bernoulli") {
  const Array key = random::key(13);
  CHECK(mean(random::bernoulli(key, 0.25, {20000})).item<double>() == doctest::Approx(0.25).epsilon(0.05));
  check_close(sum(random::bernoulli(key, 0, {100})), {}, {0});
  check_close(sum(random::bernoulli(key, 1, {100})), {}, {100});
  check_same_bits(random::bernoulli(key, 0.25, {100}), random::uniform(key, {100}) < 0.25);
  for (const double p : {-0.1, 1.1, std::nan("")}) {
    expect_error<ValueError>([&] { random::bernoulli(key, p, {1}); }, "bernoulli", "[0, 1]");
  }
}

TEST_CASE("draws are the same compiled and eager, and do not depend on other draws") {
  const auto draw = [](const Array& key) {
    return std::pair(random::normal(key, {7}), random::bits(random::fold_in(key, 1), {3}));
  };
  const Array key = random::key(17);
  const auto [a, b] = jit(draw)(key);
  const auto [c, d] = draw(key);
  check_same_bits(a, c);
  check_same_bits(b, d);
  const auto seeded = jit([](const Array& x) { return x + random::uniform(random::key(42), {2}); });
  check_close(seeded(zeros({2})), {2}, {0.48870957, 0.67979717}, 1e-8);
}

TEST_CASE("words go in and out of keys") {
  const Array key = random::wrap_key_data(convert(array({1, 2}), uint32));
  CHECK(words(key) == Words{1, 2});
  CHECK(random::split(random::split(key, 2), 3).shape() == Shape{2, 3});
  expect_error<ShapeError>([] { random::wrap_key_data(ones({2})); }, "wrap_key_data", "uint32[..., 2]", "f32[2]");
  expect_error<DtypeError>([] { random::uniform(ones({2}), {3}); }, "random::uniform", "f32[2]", "random::key");
  expect_error<DtypeError>([&] { random::uniform(key, {3}, int32); }, "random::uniform", "int32");
  expect_error<ValueError>([&] { random::bits(key, {3}, 12); }, "width", "12");
  expect_error<ValueError>([&] { random::split(key, 0); }, "split", "0");
  expect_error<DtypeError>([&] { random::fold_in(key, 0.5); }, "fold_in", "integer");
  expect_error<DtypeError>([&] { random::fold_in(key, ones({})); }, "fold_in", "f32[]");
}
