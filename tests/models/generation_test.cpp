#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"

// Tokens from a gpt with a cache: what it gives without one, alone and in a batch, in programs of every kind.

using namespace lockstep;
using models::Generated;
using models::GenerateOptions;

namespace {

const models::GptOptions small{.vocabulary = 61, .positions = 40, .blocks = {.width = 64, .depth = 2, .heads = 4}};

Model<Array, Array> model_of(const models::GptOptions& options) {
  return Model<Array, Array>(
      [options](Scope& scope, const Array& tokens) { return models::gpt(scope, tokens, options); });
}

Tree gpt_weights(const models::GptOptions& options) {
  const Tree drawn = model_of(options).init(random::key(3), zeros({1, 4}, int32)).first;
  // Larger than they are at first, so that logits are far apart.
  const std::function<Array(const Array&)> larger = [](const Array& w) { return w * 3; };
  return map(larger, drawn);
}

const Tree& weights() {
  static const Tree made = gpt_weights(small);
  return made;
}

/// Rows of 11 tokens, of which `lengths` count.
Array prompts(std::int64_t rows) { return remainder(reshape(arange(rows * 11) * 7, {rows, 11}), 61); }
const std::vector<std::int32_t> lengths = {11, 1, 6, 8, 9, 2, 10, 3};

std::vector<std::int32_t> values(const Array& x) { return convert(x, int32).to_vector<std::int32_t>(); }

/// Greedy tokens of one row, each from all that stand before it, without a cache.
std::vector<std::int32_t> without_cache(std::vector<std::int32_t> row, std::int64_t count) {
  const auto model = model_of(small);
  std::vector<std::int32_t> drawn;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto length = static_cast<std::int64_t>(row.size());
    const Array logits = model.stateless_call(weights(), Tree(), array(row, {1, length}), false).first;
    drawn.push_back(argmax(logits[0][length - 1], 0).item<std::int32_t>());
    row.push_back(drawn.back());
  }
  return drawn;
}

bool same_bits(const Generated& a, const Generated& b) {
  return a.tokens.to_bytes() == b.tokens.to_bytes() && a.lengths.to_bytes() == b.lengths.to_bytes() &&
         a.logits.to_bytes() == b.logits.to_bytes();
}

Array row_of(const Array& x, std::int64_t row) { return slice_in_dim(x, row, row + 1, 0); }

}  // namespace

TEST_CASE("a cache gives the tokens that there are without one, for prompts of different lengths") {
  const models::Generator generator(small);
  const Array given = prompts(4), of = array(std::vector<std::int32_t>(lengths.begin(), lengths.begin() + 4));
  for (const std::int64_t chunk : {4, 64}) {
    const Generated made = generator(weights(), given, random::key(0), {.tokens = 12, .chunk = chunk}, of);
    const std::vector<std::int32_t> tokens = values(made.tokens), rows = values(given);
    for (std::size_t row = 0; row < 4; ++row) {
      const auto begin = rows.begin() + static_cast<std::ptrdiff_t>(row) * 11;
      const std::vector<std::int32_t> expected = without_cache({begin, begin + lengths[row]}, 12);
      const auto from = tokens.begin() + static_cast<std::ptrdiff_t>(row) * 12;
      CHECK(std::vector<std::int32_t>(from, from + 12) == expected);
    }
    CHECK(values(made.lengths) == std::vector<std::int32_t>{12, 12, 12, 12});
  }
}

TEST_CASE("a row alone has the bits that it has in a batch of 8, greedy and drawn, however prompts are padded") {
  const Array given = prompts(8), of = array(lengths);
  const Array keys = random::split(random::key(5), 8);
  for (const double temperature : {0.0, 0.8}) {
    const models::Generator generator(small, {.temperature = temperature, .top_k = 20, .top_p = 0.9});
    const GenerateOptions how{.tokens = 9, .chunk = 8};
    const Generated all = generator(weights(), given, keys, how, of);
    for (std::int64_t row = 0; row < 8; ++row) {
      const Generated alone = generator(weights(), row_of(given, row), row_of(keys, row), how, row_of(of, row));
      const std::int64_t length = lengths[static_cast<std::size_t>(row)];
      const Array cut = slice_in_dim(row_of(given, row), 0, length, 1);
      const Generated unpadded = generator(weights(), cut, row_of(keys, row), how);
      CHECK(same_bits(alone, {row_of(all.tokens, row), row_of(all.lengths, row), row_of(all.logits, row)}));
      CHECK(same_bits(alone, unpadded));
    }
  }
}

TEST_CASE("wide models have the bits of a row alone as well, prompts of any lengths in a batch of any size") {
  const models::GptOptions wide{.vocabulary = 1000, .positions = 200, .blocks = {.width = 192, .depth = 2, .heads = 3}};
  const Tree w = gpt_weights(wide);
  const std::vector<std::int32_t> counts = {1, 7, 63, 64, 65, 128, 130, 33, 64, 1, 20};
  const Array keys = random::split(random::key(5), 11);
  const Array given = remainder(reshape(arange(11 * 130) * 7, {11, 130}), 999);
  const GenerateOptions how{.tokens = 6};
  for (const Precision precision : {Precision::float32, Precision::bfloat16}) {
    const models::Generator generator(wide, {}, precision);
    const Generated all = generator(w, given, keys, how, array(counts));
    for (std::int64_t row = 0; row < 11; ++row) {
      CAPTURE(row);
      const std::int64_t length = counts[static_cast<std::size_t>(row)];
      const Array cut = slice_in_dim(row_of(given, row), 0, length, 1);
      const Generated alone = generator(w, cut, row_of(keys, row), how);
      CHECK(same_bits(alone, {row_of(all.tokens, row), row_of(all.lengths, row), row_of(all.logits, row)}));
    }
    const auto once = [&](const Tree& of, const Array& x, const Array& k, const Array& l) {
      return models::generate(of, x, k, wide, how, l);
    };
    CHECK(same_bits(jit(once, {.precision = precision})(w, given, keys, array(counts)), all));
    if (precision == Precision::float32) CHECK(same_bits(once(w, given, keys, array(counts)), all));
  }
}

TEST_CASE("a model that is narrow has the bits of a row alone, too") {
  const models::GptOptions narrow{.vocabulary = 19, .positions = 40, .blocks = {.width = 8, .depth = 2, .heads = 2}};
  const Tree w = gpt_weights(narrow);
  const models::Generator generator(narrow);
  const Array given = remainder(prompts(8), 19), of = array(lengths);
  const Generated all = generator(w, given, random::key(0), {.tokens = 9}, of);
  for (std::int64_t row = 0; row < 8; ++row) {
    const Generated alone = generator(w, row_of(given, row), random::key(0), {.tokens = 9}, row_of(of, row));
    CHECK(alone.logits.to_bytes() == row_of(all.logits, row).to_bytes());
  }
}

TEST_CASE("generate is what Generator is: by itself, under jit, in a scan and vmap, on 2 shards") {
  const Array given = prompts(4), of = array(std::vector<std::int32_t>(lengths.begin(), lengths.begin() + 4));
  const Array keys = random::split(random::key(5), 4);
  const GenerateOptions how{.tokens = 7, .sampling = {.temperature = 0.7, .top_k = 30}, .chunk = 8};
  const Generated expected = models::Generator(small, how.sampling)(weights(), given, keys, how, of);
  const auto once = [how](const Tree& w, const Array& x, const Array& k, const Array& l) {
    return models::generate(w, x, k, small, how, l);
  };
  CHECK(same_bits(once(weights(), given, keys, of), expected));
  CHECK(same_bits(jit(once)(weights(), given, keys, of), expected));

  const auto by_row = [](const Array& x) { return expand_dims(x, 1); };
  const auto one_row = [&](const Array& x, const Array& k, const Array& l) { return once(weights(), x, k, l); };
  const auto joined = [](const Generated& g) {
    return Generated{squeeze(g.tokens, Axes{1}), squeeze(g.lengths, Axes{1}), squeeze(g.logits, Axes{1})};
  };
  const Generated batched = joined(jit(vmap(one_row))(by_row(given), by_row(keys), by_row(of)));
  CHECK(values(batched.tokens) == values(expected.tokens));
  const auto step = [&](const Array& carry, const Array& row) {
    const auto at = [&](const Array& x) { return dynamic_slice_in_dim(x, row, 1, 0); };
    const Generated g = one_row(at(given), at(keys), at(of));
    return std::pair(carry, g);
  };
  const Generated scanned = joined(scan(step, zeros({}), arange(4)).second);
  CHECK(values(scanned.tokens) == values(expected.tokens));

  const Mesh mesh({{"batch", 2}}, devices("cpu:0-1"));
  const auto rows = sharded("batch");
  const auto cut = pmap(once, {.mesh = mesh, .in = {replicated, rows, rows, rows}, .out = {rows}});
  CHECK(same_bits(cut(weights(), given, keys, of), expected));
}

TEST_CASE("in bfloat16 most tokens are those of float32") {
  const GenerateOptions how{.tokens = 8};
  const Array given = prompts(4);
  const std::vector<std::int32_t> wide = values(models::Generator(small)(weights(), given, random::key(0), how).tokens);
  const std::vector<std::int32_t> narrow =
      values(models::Generator(small, {}, Precision::bfloat16)(weights(), given, random::key(0), how).tokens);
  std::size_t equal = 0;
  for (std::size_t i = 0; i < wide.size(); ++i) equal += wide[i] == narrow[i] ? 1 : 0;
  CHECK(equal >= wide.size() / 2);
  CHECK(wide[0] == narrow[0]);
}

TEST_CASE("a row ends with its stop token, which is repeated") {
  const models::Generator generator(small);
  const Array given = prompts(2);
  const std::vector<std::int32_t> plain = values(generator(weights(), given, random::key(0), {.tokens = 10}).tokens);
  const std::int32_t stop = plain[3];
  const Generated ended = generator(weights(), given, random::key(0), {.tokens = 10, .stop = stop});
  const Generated in_one = models::generate(weights(), given, random::key(0), small, {.tokens = 10, .stop = stop});
  const std::vector<std::int32_t> tokens = values(ended.tokens), counts = values(ended.lengths);
  CHECK(values(in_one.tokens) == tokens);
  CHECK(values(in_one.lengths) == counts);
  for (std::size_t row = 0; row < 2; ++row) {
    const auto begin = plain.begin() + static_cast<std::ptrdiff_t>(row) * 10;
    const auto found = std::find(begin, begin + 10, stop);
    CHECK(counts[row] == std::min<std::int64_t>(found - begin + 1, 10));
    for (std::size_t t = 0; t < 10; ++t) {
      CHECK(tokens[row * 10 + t] ==
            (static_cast<std::int64_t>(t) < counts[row] ? begin[static_cast<std::ptrdiff_t>(t)] : stop));
    }
  }
}

TEST_CASE("the logits of a row that has ended are those of its stop, however long the others go on") {
  const models::Generator generator(small, {.temperature = 1});
  const Array given = prompts(8);
  const std::vector<std::int32_t> plain = values(generator(weights(), given, random::key(5), {.tokens = 20}).tokens);
  const models::GenerateOptions until{.tokens = 20, .sampling = {.temperature = 1}, .stop = plain[3]};
  const Generated ended = generator(weights(), given, random::key(5), until);
  CHECK(same_bits(ended, models::generate(weights(), given, random::key(5), small, until)));
  const std::vector<std::int32_t> counts = values(ended.lengths);
  REQUIRE(*std::ranges::min_element(counts) < *std::ranges::max_element(counts));
  for (std::int64_t row = 0; row < 8; ++row) {
    CAPTURE(row);
    const Array key = expand_dims(random::fold_in(random::key(5), row), 0);
    const std::int64_t count = counts[static_cast<std::size_t>(row)];
    const models::GenerateOptions just{.tokens = count};
    const Generated alone = generator(weights(), row_of(given, row), key, just);
    CHECK(allclose(row_of(ended.logits, row), alone.logits, 1e-4, 1e-4).item<bool>());
  }
}

TEST_CASE("samples have the probabilities of what top_k and top_p leave") {
  const Array logits = array(std::vector<float>{1, 3, 2, 0, -1});
  const auto shares = [&](const models::SamplingOptions& options) {
    constexpr std::int64_t draws = 4000;
    const Array keys = random::split(random::key(8), draws);
    const std::vector<std::int32_t> drawn = values(models::sample(keys, broadcast_to(logits, {draws, 5}), options));
    std::vector<double> result(5);
    for (const std::int32_t token : drawn) result[static_cast<std::size_t>(token)] += 1.0 / draws;
    return result;
  };
  const auto expect = [&](const models::SamplingOptions& options, const std::vector<double>& logs) {
    double total = 0;
    for (const double l : logs) total += std::exp(l);
    const std::vector<double> found = shares(options);
    for (std::size_t i = 0; i < 5; ++i) CHECK(found[i] == doctest::Approx(std::exp(logs[i]) / total).epsilon(0.1));
  };
  const double no = -INFINITY;
  CHECK(shares({.temperature = 0})[1] == doctest::Approx(1));
  CHECK(shares({.temperature = 1, .top_k = 1})[1] == doctest::Approx(1));
  CHECK(shares({.temperature = 1, .top_p = 0.5})[1] == doctest::Approx(1));  // 0.64 alone
  expect({.temperature = 1, .top_k = 2}, {no, 3, 2, no, no});
  expect({.temperature = 1, .top_p = 0.8}, {no, 3, 2, no, no});  // 0.64, 0.87
  expect({.temperature = 2, .top_k = 3}, {0.5, 1.5, 1, no, no});
}

TEST_CASE("decoding is compiled once, for prompts and results of any length") {
  const models::Generator generator(small);
  static_cast<void>(generator(weights(), prompts(2), random::key(0), {.tokens = 3}));
  for (const std::int64_t tokens : {1, 5, 30}) {
    const Array cut = slice_in_dim(prompts(2), 0, tokens % 10 + 1, 1);
    CHECK(generator(weights(), cut, random::key(1), {.tokens = tokens}).tokens.shape() == Shape{2, tokens});
  }
  CHECK(generator.traces() == 3);  // a chunk, the first token, the next ones
}

TEST_CASE("a cache that is used by itself: chunks give what the whole gives") {
  using Input = std::pair<Array, models::GptCache>;
  const Model model([](const Scope& s, const Input& x) { return models::gpt(s, x.first, x.second, small); });
  const Array tokens = prompts(2);
  const Array whole = model_of(small).stateless_call(weights(), Tree(), tokens, false).first;
  models::GptCache cache = models::empty_cache(2, small);
  for (std::int64_t from = 0; from < 11; from += 4) {
    const Array some = slice_in_dim(tokens, from, std::min<std::int64_t>(from + 4, 11), 1);
    const auto [logits, next] = model.stateless_call(weights(), Tree(), {some, cache}, false).first;
    const Array expected = slice_in_dim(whole, from, from + some.dim(1), 1);
    CHECK(max(abs(logits - expected)).item<float>() < 1e-4);
    cache = next;
  }
  CHECK(values(cache.length) == std::vector<std::int32_t>{11, 11});
}

TEST_CASE("what cannot be generated is refused") {
  const models::Generator generator(small);
  const Array key = random::key(0);
  const auto made = [&](const Array& x, const GenerateOptions& how, const std::optional<Array>& l = {}) {
    static_cast<void>(generator(weights(), x, key, how, l));
    static_cast<void>(models::generate(weights(), x, key, small, how, l));
  };
  tests::expect_error<ShapeError>([&] { made(zeros({2, 3}), {.tokens = 1}); }, "give integer prompts [N, T]");
  tests::expect_error<ShapeError>([&] { made(prompts(2), {.tokens = 1}, zeros({3}, int32)); }, "lengths i32[3]");
  for (const int length : {0, -1, 12}) {
    tests::expect_error<ValueError>(
        [&] {
          made(prompts(2), {.tokens = 1}, array(std::vector<std::int32_t>{3, length}));
        },
        "the length of prompt 1 is " + std::to_string(length), "give 1 to 11");
  }
  tests::expect_error<ValueError>([&] { made(prompts(2), {.tokens = 0}); }, "tokens is 0");
  tests::expect_error<ValueError>([&] { made(prompts(2), {.tokens = 31}); }, "positions 40; give");
  tests::expect_error<ShapeError>(
      [&] { static_cast<void>(generator(weights(), prompts(2), random::split(key, 3), {.tokens = 1})); },
      "the key is key[3] for 2 rows");
  tests::expect_error<ValueError>([&] { static_cast<void>(models::sample(key, zeros({4}), {.temperature = -1})); },
                                  "temperature is -1");
  tests::expect_error<ShapeError>([&] { static_cast<void>(models::sample(key, zeros({4}, int32))); },
                                  "give floats [..., vocabulary]");
  tests::expect_error<ValueError>([&] { static_cast<void>(models::empty_cache(0, small)); }, "rows is 0");
  tests::expect_error<ShapeError>(
      [&] {
        static_cast<void>(model_of(small).variables(zeros({1, 41}, int32)));
      },
      "positions is 40");
  using Input = std::pair<Array, models::GptCache>;
  const Model cached([](const Scope& s, const Input& x) { return models::gpt(s, x.first, x.second, small); });
  const Input other{prompts(3), models::empty_cache(2, small)};
  tests::expect_error<ShapeError>([&] { static_cast<void>(cached.variables(other)); },
                                  "give one that empty_cache made");
}

TEST_CASE("a gpt keeps and computes in the dtype of its options, with a cache and without") {
  for (const DType dtype : {float64, bfloat16, float16}) {
    CAPTURE(name(dtype));
    const models::GptOptions own{
        .vocabulary = 11, .positions = 8, .blocks = {.width = 8, .depth = 1, .heads = 2}, .dtype = dtype};
    const Model model([&](Scope& s, const Array& tokens) { return models::gpt(s, tokens, own); });
    const Array tokens = array(std::vector<std::int32_t>{1, 2, 3}, {1, 3});
    const auto [w, state] = model.init(random::key(1), tokens);
    for (const Variable& v : model.variables(tokens)) CHECK(v.type.dtype == dtype);
    CHECK(model.stateless_call(w, state, tokens, false).first.dtype() == dtype);
    const models::Generated made = models::generate(w, tokens, random::key(0), own, {.tokens = 3});
    CHECK(made.tokens.dim(1) == 3);
  }
}
