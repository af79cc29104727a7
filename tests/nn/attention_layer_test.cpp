#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/layer_run.h"

// Attention with a cache beside attention to all at once, and what attention refuses. Values of the layer itself are held
// by tests/golden/layers.

using namespace lockstep;

namespace {

double largest_difference(const Array& a, const Array& b) { return max(abs(a - b)).item<double>(); }

const std::vector<MultiHeadAttentionOptions>& kinds() {
  static const std::vector<MultiHeadAttentionOptions> all = {
      {.heads = 2, .is_causal = true},
      {.heads = 4, .is_causal = true, .kv_heads = 2, .rotary = true},
      {.heads = 2, .is_causal = true, .head_features = 6, .alibi = true},
  };
  return all;
}

}  // namespace

TEST_CASE("positions one by one with a cache are those of all at once, in parts and in a jitted step too") {
  const Array x = tests::spread_values({2, 6, 8});
  for (const MultiHeadAttentionOptions& options : kinds()) {
    CAPTURE(options.kv_heads);
    const Model whole([&](Scope& s, const Array& v) { return multi_head_attention(s["a"], v, options); });
    using Step = std::pair<Array, KvCache>;
    const Model stepwise(
        [&](Scope& s, const Step& v) { return multi_head_attention(s["a"], v.first, v.second, options); });
    const auto [w, state] = whole.init(random::key(1), x);
    const Array expected = whole.stateless_call(w, state, x, false).first;
    const auto [cached, none] = stepwise.init(random::key(1), Step{x, empty_cache(x, 8, options)});
    CHECK(cached.paths() == w.paths());
    const auto next = jit([&, w = w, state = state](const Array& v, const KvCache& cache) {
      return stepwise.stateless_call(w, state, Step{v, cache}, false).first;
    });
    for (const std::vector<std::int64_t>& parts : {std::vector<std::int64_t>{1, 1, 1, 1, 1, 1}, {4, 2}, {6}}) {
      KvCache cache = empty_cache(x, 8, options);
      std::int64_t at = 0;
      for (const std::int64_t part : parts) {
        const auto [y, kept] = next(slice_in_dim(x, at, at + part, 1), cache);
        CHECK(largest_difference(y, slice_in_dim(expected, at, at + part, 1)) < 1e-12);
        cache = kept;
        at += part;
      }
      CHECK(cache.length.item<int>() == 6);
    }
    KvCache full_cache = empty_cache(x, 5, options);
    CHECK(std::isnan(next(x, empty_cache(x, 6, options)).first[0][0][0].item<double>()) == false);
    full_cache = next(slice_in_dim(x, 0, 4, 1), full_cache).second;
    CHECK(all(isnan(next(slice_in_dim(x, 4, 6, 1), full_cache).first)).item<bool>());
  }
}

TEST_CASE("a token goes over its cache once: no pass over all positions looks for what nobody sees") {
  const Array token = ones({2, 1, 8});
  const Model step([](Scope& s, const std::pair<Array, KvCache>& v) {
    return multi_head_attention(s["a"], v.first, v.second, {.heads = 2, .is_causal = true});
  });
  const std::pair input{token, empty_cache(token, 64, {.heads = 2})};
  const auto [w, state] = step.init(random::key(1), input);
  const Function traced = trace_function(
      [&, w = w, state = state](const Array& x, const KvCache& cache) {
        return step.stateless_call(w, state, std::pair(x, cache), false).first;
      },
      token, input.second);
  CHECK(traced.to_string().find("attention") != std::string::npos);
  CHECK(traced.to_string().find("is_finite") == std::string::npos);

  const Array q = tests::spread_values({2, 3, 2, 4}), k = tests::spread_values({2, 5, 2, 4});
  AttentionOptions how{.key_value_seq_lengths = array({3, 5})};
  const auto attend = [&](const Array& keys) { return dot_product_attention(q, keys, keys, how); };
  const Array expected = attend(k);
  CHECK(trace_function(attend, k).to_string().find("is_finite") != std::string::npos);
  how.unseen_is_finite = true;
  CHECK(trace_function(attend, k).to_string().find("is_finite") == std::string::npos);
  CHECK(attend(k).to_bytes() == expected.to_bytes());
}

TEST_CASE("attention with dropout is attention without it in the mean, and in evaluation exactly") {
  const Array x = tests::spread_values({2, 4, 4});
  const MultiHeadAttentionOptions plain{.heads = 2, .is_causal = true, .kv_heads = 1};
  MultiHeadAttentionOptions dropped = plain;
  dropped.dropout = 0.5;
  const AttentionContext context{.lengths = array({3, 2}), .mask = iota({1, 1, 4, 4}, 3) != 1};
  const auto of = [&](const MultiHeadAttentionOptions& options) {
    return Model(
        [&context, options](Scope& s, const Array& v) { return multi_head_attention(s, v, options, context); });
  };
  const auto [w, state] = of(dropped).init(random::key(2), x);
  const auto expected = of(plain).stateless_call(w, Tree(), x, false).first;
  CHECK(largest_difference(of(dropped).stateless_call(w, state, x, false).first, expected) < 1e-12);
  Array total = zeros_like(x);
  Tree now = state;
  constexpr int draws = 200;
  for (int i = 0; i < draws; ++i) {
    const auto [y, next] = of(dropped).stateless_call(w, now, x, true);
    total = total + y;
    now = next;
  }
  CHECK(largest_difference(total / draws, expected) < 0.15);
}

TEST_CASE("rotary: products depend on distances alone") {
  const Array q = tests::spread_values({1, 1, 1, 6}), k = tests::spread_values({1, 1, 1, 6}, 0.5);
  const auto product = [&](int at, int other) { return sum(rotary(q, at) * rotary(k, other)).item<double>(); };
  CHECK(product(5, 2) == doctest::Approx(product(9, 6)));
  CHECK(product(3, 3) == doctest::Approx(sum(q * k).item<double>()));
}

TEST_CASE("attention refuses what does not fit") {
  const Array x = zeros({2, 4, 6});
  const auto call = [&](const MultiHeadAttentionOptions& options, const AttentionContext& context = {}) {
    tests::run_layer([&](const Scope& s, const Array& v) { return multi_head_attention(s["a"], v, options, context); },
                     x);
  };
  tests::expect_error<ValueError>([&] { call({.heads = 4}); }, "heads is at least 1 and divides the features");
  tests::expect_error<ValueError>([&] { call({.heads = 3, .kv_heads = 2}); }, "kv_heads divides heads");
  tests::expect_error<ValueError>([&] { call({.dropout = 1}); }, "dropout is 1; give a probability in [0, 1)");
  tests::expect_error<ShapeError>([&] { call({}, {.keys = zeros({3, 4, 6})}); }, "keys are f32[3,4,6]; give [2, S,");
  tests::expect_error<ShapeError>([&] { call({}, {.lengths = array({1})}); }, "give an integer for each row");
  tests::expect_error<ShapeError>([&] { call({}, {.key_lengths = ones({2})}); }, "give an integer for each row");
  for (const double dropout : {0.0, 0.5}) {
    const MultiHeadAttentionOptions options{.dropout = dropout};
    tests::expect_error<DtypeError>([&] { call(options, {.mask = full({1, 1, 4, 4}, 2, int32)}); }, "the mask is i32");
    tests::expect_error<DtypeError>([&] { call(options, {.mask = zeros({4, 4})}); }, "added to the logits is the bias");
    tests::expect_error<ShapeError>(
        [&] {
          call(options, {.mask = full({5, 1, 4, 4}, true, bool_)});
        },
        "broadcasts to the logits, [2,1,4,4]");
    tests::expect_error<ShapeError>([&] { call(options, {.bias = zeros({1, 2, 4, 4})}); }, "the bias is f32[1,2,4,4]");
  }
  tests::expect_error<ShapeError>([&] { static_cast<void>(rotary(zeros({1, 2, 3, 5}))); }, "of even H");
  tests::expect_error<ValueError>([&] { static_cast<void>(sinusoidal_positions(3, 5)); }, "features is 5");
  tests::expect_error<ValueError>([&] { static_cast<void>(alibi_bias(0, 2, 2)); }, "heads is 0");
  tests::expect_error<ValueError>([&] { static_cast<void>(empty_cache(x, 0, {})); }, "positions is 0");
  const KvCache other = empty_cache(x, 4, {.heads = 2});
  tests::expect_error<ShapeError>(
      [&] {
        tests::run_layer(
            [&](const Scope& s, const Array& v) { return multi_head_attention(s["a"], v, other, {.heads = 3}).first; },
            x);
      },
      "give one that empty_cache made for such inputs and options");
}

TEST_CASE("additive attention refuses masks and biases that do not fit") {
  const Array x = zeros({2, 4, 6});
  const auto call = [&](const AttentionContext& context) {
    tests::run_layer([&](const Scope& s, const Array& v) { return additive_attention(s["a"], v, v, {}, context); }, x);
  };
  tests::expect_error<DtypeError>([&] { call({.mask = zeros({4, 4})}); }, "[additive_attention 'a'] the mask is f32");
  tests::expect_error<ShapeError>([&] { call({.mask = full({5, 4, 4}, true, bool_)}); }, "the logits, [2,4,4]");
  tests::expect_error<ShapeError>([&] { call({.bias = zeros({1, 1, 4, 4})}); }, "the bias is f32[1,1,4,4]");
}

TEST_CASE("lengths of a dtype that does not count all places are those of a wider one") {
  const Array x = tests::spread_values({2, 300, 2});
  const auto of_lengths = [&](const Array& n) {
    const auto layers = [&](const Scope& s, const Array& v) {
      return concatenate({multi_head_attention(s["a"], v, {}, {.lengths = n}),
                          multi_head_attention(s["b"], v, {.dropout = 0.5}, {.lengths = n}),
                          additive_attention(s["c"], v, v, {}, {.lengths = n, .key_lengths = n}),
                          gru(s["d"], v, {.units = 2}, {.lengths = n}).first},
                         -1);
    };
    return tests::run_layer(layers, x, {.training = false}).y;
  };
  const Array lengths = array({100, 50}), expected = of_lengths(lengths);
  for (const DType dtype : {int8, uint8, int16, int64}) {
    CHECK_MESSAGE(largest_difference(of_lengths(convert(lengths, dtype)), expected) == 0, name(dtype));
  }
}

TEST_CASE("a mask of each head's keys is that mask for all rows, and hides nothing that another head sees") {
  const Array mask = reshape(array({1, 1, 0, 1, 0, 1, 1, 1}), {2, 1, 4}) != 0;
  for (const std::int64_t rows : {2, 3}) {
    CAPTURE(rows);
    const Array x = tests::spread_values({rows, 4, 8});
    const auto masked = [](const Array& m) {
      return Model([m](Scope& s, const Array& v) { return multi_head_attention(s, v, {.heads = 2}, {.mask = m}); });
    };
    const auto short_form = masked(mask), long_form = masked(broadcast_to(mask, {rows, 2, 4, 4}));
    const auto [w, state] = short_form.init(random::key(1), x);
    const Array expected = long_form.stateless_call(w, state, x, false).first;
    CHECK(short_form.stateless_call(w, state, x, false).first.to_bytes() == expected.to_bytes());
    const Array broken = where(iota({rows, 4, 8}, 1) == 2, std::nan(""), x);
    CHECK(all(isnan(short_form.stateless_call(w, state, broken, false).first)).item<bool>());
  }
}

TEST_CASE("alibi in 16 bits tells positions apart that 16 bits do not") {
  // As the same bias in float32, which is added to logits of float32: bfloat16 has no 257.
  const std::int64_t positions = 300;
  const Array x = convert(tests::spread_values({1, positions, 8}), bfloat16);
  for (const double rate : {0.0, 1e-9}) {
    const MultiHeadAttentionOptions options{.heads = 2, .is_causal = true, .dropout = rate};
    const Model given([options, positions](Scope& s, const Array& v) {
      return multi_head_attention(s, v, options, {.bias = alibi_bias(2, positions, positions)});
    });
    MultiHeadAttentionOptions own = options;
    own.alibi = true;
    const Model made([own](Scope& s, const Array& v) { return multi_head_attention(s, v, own); });
    const auto [w, state] = made.init(random::key(1), x);
    const auto call = [&, w = w, state = state](const auto& model) {
      return model.stateless_call(w, state, x, true).first.to_bytes();
    };
    CHECK(call(made) == call(given));
  }
}
