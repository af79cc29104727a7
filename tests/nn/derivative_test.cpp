#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/layer_run.h"
#include "tests/support/replicas.h"

using namespace lockstep;
using tests::Doubles;

namespace {

/// Every layer once; smooth activations, so that finite differences hold everywhere.
Array net(Scope& scope, const Array& x) {
  Array h = conv2d(scope["conv"], x, {.filters = 4, .strides = {2, 1}, .padding = Padding::same});
  h = tanh(batch_norm(scope["norm"], h));
  h = conv2d(scope["grouped"], h,
             {.filters = 4, .kernel = {2, 2}, .padding = Padding::valid, .dilation = {1, 2}, .groups = 2});
  h = max_pool2d(gelu(h), {.window = {2, 2}, .strides = {1, 1}});
  const Array average = avg_pool2d(h, {.window = {2, 2}, .strides = {1, 1}, .padding = Padding::same});
  const Array global = global_avg_pool2d(h);
  h = concatenate({flatten(average), global}, 1);
  h = dropout(scope["drop"], layer_norm(scope["rows"], dense(scope["dense"], h, {.units = 6})), 0.3);
  const Array codes = embedding(scope["codes"], array({0, 2, 1, 1, 0, 2}), {.vocabulary = 3, .features = 1});
  return dense(scope["head"], h + reshape(codes, {1, 6}), {.units = 2});
}

Array direction(const Shape& shape, std::uint64_t seed) {
  return random::normal(random::key(seed), shape, float64, random::same_on_all);
}

double inner(const Array& a, const Array& b) { return sum(a * b).item<double>(); }

}  // namespace

TEST_CASE("the derivative of a net of all layers equals finite differences, leaf by leaf, cut or not") {
  const Model model(net);
  const Array x = tests::spread_values({4, 8, 6, 2});
  auto [trainable, state] = model.init(random::key(2), x);
  std::uint64_t seed = 100;
  // Away from the initial zeros and ones, so that no factor hides another.
  trainable = map([&](const Array& w) { return convert(w, float64) + 0.3 * direction(w.shape(), ++seed); }, trainable);
  const Array target = direction({4, 2}, 1);

  for (const tests::Replicas replicas : {tests::Replicas{1, 1}, {2, 2}, {4, 2}}) {
    CAPTURE(replicas.shards);
    const auto shard_loss = [&, state = state](const Tree& w, const Batch& b) {
      const Array y = model.stateless_call(w, state, b.x, true, {.rows = b.weight}).first;
      return value(mean_squared_error(y, b.y, b.weight));
    };
    const PmapOptions options{
        .mesh = tests::mesh_of(replicas), .in = {replicated, sharded("batch")}, .out = {replicated}};
    const auto loss = jit(pmap(shard_loss, options));
    const auto gradient = pmap([&](const Tree& w, const Batch& b) { return grad(shard_loss)(w, b); }, options);
    const Batch batch{x, target, ones({4}, float64)};
    const Tree g = gradient(trainable, batch);
    for (const std::string& path : trainable.paths()) {
      CAPTURE(path);
      const Array w = trainable.at(path).array();
      const Array d = direction(w.shape(), ++seed);
      constexpr double h = 1e-5;
      const auto at = [&, trainable = trainable](double step) {
        return loss(trainable.with(path, Tree(w + step * d)), batch).template item<double>();
      };
      const double slope = (at(h) - at(-h)) / (2 * h);
      CHECK(inner(g.at(path).array(), d) == doctest::Approx(slope).epsilon(2e-7).scale(1e-2));
    }
  }
}

TEST_CASE("what lies behind lengths, in places masked out and behind frames, NaN too, is in no derivative") {
  const std::int64_t rows = 3, steps = 4, features = 2;
  const Array lengths = array({4, 0, 2});
  const Array held = expand_dims(arange(steps), 0) < expand_dims(lengths, 1);
  const Array x = random::normal(random::key(1), {rows, steps, features});
  const Array padded = where(expand_dims(held, 2), x, std::numeric_limits<float>::quiet_NaN());
  const SequenceOptions<LstmState> by_length{.lengths = lengths}, by_mask{.mask = held, .reverse = true};
  const SequenceOptions<Array> one_state{.lengths = lengths};
  const auto in_images = [](const Array& v) { return expand_dims(v, -1); };
  const auto experts = [&](const Scope& s, const Array& v) {
    const Array kernels = s.trainable("experts", {.shape = {2, 2, 2}, .initializer = initializers::glorot_uniform()});
    const auto expert = [](const Array& kernel, const Array& tokens) { return matmul(tokens, kernel); };
    return mixture_of_experts(v, v, kernels, expert, {.mask = held}).y;
  };
  const auto attended = [&](const Scope& s, const Array& v, const MultiHeadAttentionOptions& options) {
    return multi_head_attention(s, v, options, {.lengths = lengths});
  };
  const Array mask = reshape(held, {rows, 1, 1, steps});
  const Array pairs = mask & reshape(held, {rows, 1, steps, 1});
  const auto counted = [&](const Array& y) { return where(expand_dims(held, 2), y, 0); };
  using Layer = std::function<Array(const Scope&, const Array&)>;
  const std::vector<std::pair<std::string, Layer>> layers = {
      {"attention",
       [&](const Scope& s, const Array& v) { return attended(s, v, {.heads = 2, .joint_projection = false}); }},
      {"causal attention",
       [&](const Scope& s, const Array& v) { return attended(s, v, {.heads = 1, .is_causal = true}); }},
      {"attention with dropout",
       [&](const Scope& s, const Array& v) { return attended(s, v, {.heads = 1, .dropout = 0.3}); }},
      {"attention to keys",
       [&](const Scope& s, const Array& v) {
         return counted(
             multi_head_attention(s, ones({rows, steps, 2}), {.heads = 1}, {.keys = v, .key_lengths = lengths}));
       }},
      {"attention with a mask",
       [&](const Scope& s, const Array& v) {
         return counted(multi_head_attention(s, v, {.heads = 2}, {.mask = mask}));
       }},
      {"additive attention",
       [&](const Scope& s, const Array& v) {
         return additive_attention(s, v, v, {}, {.lengths = lengths, .key_lengths = lengths});
       }},
      {"additive attention with a mask",
       [&](const Scope& s, const Array& v) {
         return counted(
             additive_attention(s, ones({rows, steps, 2}), v, {}, {.mask = reshape(held, {rows, 1, steps})}));
       }},
      {"attention with a mask of pairs",
       [&](const Scope& s, const Array& v) {
         return counted(multi_head_attention(s, v, {.heads = 2}, {.mask = pairs}));
       }},
      {"attention to keys with a mask of pairs",
       [&](const Scope& s, const Array& v) {
         return counted(multi_head_attention(s, v, {.heads = 1}, {.keys = v * 2, .mask = pairs}));
       }},
      {"additive attention with a mask of pairs",
       [&](const Scope& s, const Array& v) {
         return counted(additive_attention(s, v, v, {}, {.mask = reshape(pairs, {rows, steps, steps})}));
       }},
      {"attention without a layer",
       [&](const Scope& s, const Array& v) {
         const Array scale = s.trainable("scale", {.shape = {2}, .initializer = initializers::ones()});
         const Array q = expand_dims(v, 2);
         const AttentionOptions options{.query_seq_lengths = lengths, .key_value_seq_lengths = lengths};
         return scale * squeeze(dot_product_attention(q, q, q, options), Axes{2});
       }},
      {"lstm", [&](const Scope& s, const Array& v) { return lstm(s, v, {.units = 2}, by_length).first; }},
      {"masked lstm", [&](const Scope& s, const Array& v) { return lstm(s, v, {.units = 2}, by_mask).first; }},
      {"gru", [&](const Scope& s, const Array& v) { return gru(s, v, {.units = 2}, one_state).first; }},
      {"rnn", [&](const Scope& s, const Array& v) { return simple_rnn(s, v, {.units = 2}, one_state).first; }},
      {"mgu", [&](const Scope& s, const Array& v) { return mgu(s, v, {.units = 2}, one_state).first; }},
      {"conv_lstm",
       [&](const Scope& s, const Array& v) { return conv_lstm(s, in_images(v), {.filters = 2}, by_length).first; }},
      {"experts", experts}};
  for (const auto& [name, layer] : layers) {
    CAPTURE(name);
    const Model<Array, Array> model([layer = layer](Scope& s, const Array& v) { return layer(s["layer"], v); });
    const auto [weights, state] = model.init(random::key(0), x);
    const auto loss = [&, state = state](const Tree& w, const Array& v) {
      return sum(square(model.stateless_call(w, state, v, true).first));
    };
    CHECK(fingerprint(grad<0>(loss)(weights, padded)) == fingerprint(grad<0>(loss)(weights, x)));
    CHECK(all(grad<1>(loss)(weights, padded) == grad<1>(loss)(weights, x)).item<bool>());
  }
  const auto spelled = [&](const Array& logits) {
    return value(ctc(logits, lengths, ones({rows, 1}, int32), array({1, 0, 1})));
  };
  CHECK(all(grad(spelled)(padded) == grad(spelled)(x)).item<bool>());
}
