#include <lockstep/activations.h>
#include <lockstep/attention.h>
#include <lockstep/losses.h>
#include <lockstep/metrics.h>
#include <lockstep/ops.h>

#include "tests/golden/functions/table.h"

// Activations with their derivatives at kinks, softmax, attention, losses and metrics.
namespace lockstep::tests::functions {
namespace {

Lines activations() {
  Lines lines;
  const auto add = [&](std::string_view function, std::string_view jax, const Call& call, const Options& options = {}) {
    lines.push_back({function, jax, {drawn({3, 4}, -7, 7)}, call, options});
    lines.push_back({function, jax, {given({-6, -3, -1, -0.0, 0, 0.5, 1, 3, 6, 30, -30})}, call, options});
  };
  const Options integers_too = {.dtypes = floats + integers};
  add(
      "relu", "nn.relu(x)", [](A x) { return relu(x); }, integers_too);
  add(
      "relu6", "nn.relu6(x)", [](A x) { return relu6(x); }, integers_too);
  add("sigmoid", "nn.sigmoid(x)", [](A x) { return sigmoid(x); });
  add("silu", "nn.silu(x)", [](A x) { return silu(x); });
  add("softplus", "nn.softplus(x)", [](A x) { return softplus(x); });
  add("gelu", "nn.gelu(x)", [](A x) { return gelu(x); });
  add("gelu", "nn.gelu(x, approximate=False)", [](A x) { return gelu(x, false); });
  add("elu", "nn.elu(x)", [](A x) { return elu(x); });
  add("elu", "nn.elu(x, 0.3)", [](A x) { return elu(x, 0.3); });
  add("celu", "nn.celu(x)", [](A x) { return celu(x); });
  add("celu", "nn.celu(x, 0.3)", [](A x) { return celu(x, 0.3); });
  add("selu", "nn.selu(x)", [](A x) { return selu(x); });
  add("leaky_relu", "nn.leaky_relu(x)", [](A x) { return leaky_relu(x); });
  add("leaky_relu", "nn.leaky_relu(x, 0.3)", [](A x) { return leaky_relu(x, 0.3); });
  add("hard_tanh", "nn.hard_tanh(x)", [](A x) { return hard_tanh(x); });
  add("hard_sigmoid", "nn.hard_sigmoid(x)", [](A x) { return hard_sigmoid(x); });
  add("hard_silu", "nn.hard_silu(x)", [](A x) { return hard_silu(x); });
  add("log_sigmoid", "nn.log_sigmoid(x)", [](A x) { return log_sigmoid(x); });
  add("mish", "nn.mish(x)", [](A x) { return mish(x); });
  add("squareplus", "nn.squareplus(x)", [](A x) { return squareplus(x); });
  add("squareplus", "nn.squareplus(x, 1.0)", [](A x) { return squareplus(x, 1.0); });
  add("soft_sign", "nn.soft_sign(x)", [](A x) { return soft_sign(x); });
  add("sparse_plus", "nn.sparse_plus(x)", [](A x) { return sparse_plus(x); });
  add("sparse_sigmoid", "nn.sparse_sigmoid(x)", [](A x) { return sparse_sigmoid(x); });
  add("hard_shrink", "jnp.where(jnp.abs(x) > 0.5, x, 0)", [](A x) { return hard_shrink(x); });
  add("hard_shrink", "jnp.where(jnp.abs(x) > 2.5, x, 0)", [](A x) { return hard_shrink(x, 2.5); });
  add("soft_shrink", "jnp.where(x > 0.5, x - 0.5, jnp.where(x < -0.5, x + 0.5, 0))",
      [](A x) { return soft_shrink(x); });
  add("soft_shrink", "jnp.where(x > 2, x - 2, jnp.where(x < -2, x + 2, 0))", [](A x) { return soft_shrink(x, 2); });
  add("tanh_shrink", "x - jnp.tanh(x)", [](A x) { return tanh_shrink(x); });
  lines.push_back({"log1mexp", "nn.log1mexp(x)", {drawn({3, 4}, 0.01, 7)}, [](A x) { return log1mexp(x); }});
  return lines;
}

constexpr std::string_view of_one_infinity = "an infinite element leaves nothing to the others";

Lines softmaxes() {
  const Input x = drawn({3, 4}, -3, 3), held = mask({3, 4});
  const Input infinite = given({-inf, 1, -inf, -inf, inf, 0, nan, 1}, {4, 2});
  return {
      {"glu", "nn.glu(x)", {x}, [](A x) { return glu(x); }},
      {"glu", "nn.glu(x, 0)", {drawn({4, 3})}, [](A x) { return glu(x, 0); }},
      {"softmax", "nn.softmax(x)", {x}, [](A x) { return softmax(x); }},
      {"softmax", "nn.softmax(x, 0)", {x}, [](A x) { return softmax(x, 0); }},
      {"softmax",
       "nn.softmax(x)",
       {infinite},
       [](A x) { return softmax(x); },
       {.no_derivative = "NaN", .limits = of_one_infinity}},
      {"softmax", "nn.softmax(x, where=y)", {x, held}, [](A x, A y) { return softmax(x, y); }},
      {"softmax", "nn.softmax(x, 0, where=y)", {x, held}, [](A x, A y) { return softmax(x, 0, y); }},
      {"log_softmax", "nn.log_softmax(x)", {x}, [](A x) { return log_softmax(x); }},
      {"log_softmax", "nn.log_softmax(x, 0)", {x}, [](A x) { return log_softmax(x, 0); }},
      {"log_softmax",
       "nn.log_softmax(x)",
       {infinite},
       [](A x) { return log_softmax(x); },
       {.no_derivative = "NaN", .limits = of_one_infinity}},
      {"log_softmax", "nn.log_softmax(x, where=y)", {x, held}, [](A x, A y) { return log_softmax(x, y); }},
      {"log_softmax", "nn.log_softmax(x, 0, where=y)", {x, held}, [](A x, A y) { return log_softmax(x, 0, y); }},
      {"sparsemax", "sparsemax(x)", {x}, [](A x) { return sparsemax(x); }},
      {"sparsemax", "sparsemax(x, 0)", {x}, [](A x) { return sparsemax(x, 0); }},
      {"sparsemax", "sparsemax(x)", {given({1, 1, 0.9, 0.2, 3, 0, 0, 0}, {2, 4})}, [](A x) { return sparsemax(x); }},
      {"standardize", "nn.standardize(x)", {x}, [](A x) { return standardize(x); }},
      {"standardize", "nn.standardize(x, 0, epsilon=0.1)", {x}, [](A x) { return standardize(x, 0, 0.1); }},
      {"one_hot", "nn.one_hot(x, 4)", {whole({0, 3, 4, -1, 2, 2}, {2, 3})}, [](A x) { return one_hot(x, 4); }},
  };
}

Lines attention_lines() {
  const Input query = drawn({2, 3, 4, 5}), key = drawn({2, 6, 2, 5}), value = drawn({2, 6, 2, 5});
  const Input lengths = whole({2, 3}), key_lengths = whole({6, 2});
  const std::string_view f = "dot_product_attention";
  const Options o = {.room = {1e-5, 1e-6, "JAX's softmax is in float32, whatever the dtype"}};
  return {
      {f,
       "nn.dot_product_attention(x, y, z)",
       {query, key, value},
       [](A x, A y, A z) { return dot_product_attention(x, y, z); },
       o},
      {f,
       "nn.dot_product_attention(x, y, z)",
       {drawn({3, 4, 5}), drawn({6, 4, 5}), drawn({6, 4, 5})},
       [](A x, A y, A z) { return dot_product_attention(x, y, z); },
       o},
      {f,
       "nn.dot_product_attention(x, y, z, is_causal=True, scale=0.3)",
       {query, key, value},
       [](A x, A y, A z) { return dot_product_attention(x, y, z, {.scale = 0.3, .is_causal = true}); },
       o},
      {f,
       "nn.dot_product_attention(x, y, z, local_window_size=(1, 0))",
       {query, key, value},
       [](A x, A y, A z) { return dot_product_attention(x, y, z, {.local_window_size = std::pair(1, 0)}); },
       o},
      {f,
       "nn.dot_product_attention(x, y, z, bias=w)",
       {query, key, value, drawn({1, 4, 3, 6})},
       [](A x, A y, A z, A w) { return dot_product_attention(x, y, z, {.bias = w}); },
       o},
      {f,
       "nn.dot_product_attention(x, y, z, mask=w)",
       {query, key, value, mask({2, 1, 3, 6})},
       [](A x, A y, A z, A w) { return dot_product_attention(x, y, z, {.mask = w}); },
       o},
      {f,
       "nn.dot_product_attention(x, y, z, query_seq_lengths=w)",
       {query, key, value, lengths},
       [](A x, A y, A z, A w) { return dot_product_attention(x, y, z, {.query_seq_lengths = w}); },
       o},
      {f,
       "nn.dot_product_attention(x, y, z, key_value_seq_lengths=w)",
       {query, key, value, key_lengths},
       [](A x, A y, A z, A w) { return dot_product_attention(x, y, z, {.key_value_seq_lengths = w}); },
       o},
      {"dot_product_attention_with_residual",
       "attention_with_residual(x, y, z)",
       {query, drawn({2, 6, 4, 5}), drawn({2, 6, 4, 5})},
       [](A x, A y, A z) { return dot_product_attention_with_residual(x, y, z); },
       {.no_derivative = "the residual passes none"}},
  };
}

Arrays both(const Weighted& w) { return {w.sum, w.weight}; }

Lines loss_lines() {
  const Input logits = drawn({4, 3}, -4, 4), labels = whole({0, 2, 1, 2}), rows = drawn({4}, 0, 2);
  const Input dense = drawn({4, 3}, 0, 1), targets = drawn({4, 3});
  return {
      {"weighted",
       "weighted(x, y)",
       {drawn({4, 3}), rows},
       [](A x, A y) { return both(weighted(x, y)); },
       {.underived = {1}}},
      {"weighted",
       "weighted(x, y)",
       {given({1, nan, 2}), given({1, 0, 3})},
       [](A x, A y) { return both(weighted(x, y)); },
       {.underived = {1}}},
      {"softmax_cross_entropy",
       "weighted(cross_entropy(x, y), z)",
       {logits, labels, rows},
       [](A x, A y, A z) { return both(softmax_cross_entropy(x, y, z)); },
       {.underived = {2}}},
      {"softmax_cross_entropy",
       "weighted(cross_entropy(x, y))",
       {logits, dense},
       [](A x, A y) { return both(softmax_cross_entropy(x, y)); }},
      {"softmax_cross_entropy",
       "weighted(cross_entropy(x, y))",
       {given({1e4, -1e4, 0, 300, 300, 300}, {2, 3}), whole({1, 2})},
       [](A x, A y) { return both(softmax_cross_entropy(x, y)); }},
      {"binary_cross_entropy",
       "weighted(binary_cross_entropy(x, y), z)",
       {logits, dense, rows},
       [](A x, A y, A z) { return both(binary_cross_entropy(x, y, z)); },
       {.underived = {2}}},
      {"mean_squared_error",
       "weighted((x - y) ** 2)",
       {logits, targets},
       [](A x, A y) { return both(mean_squared_error(x, y)); }},
      {"mean_absolute_error",
       "weighted(jnp.abs(x - y))",
       {logits, targets},
       [](A x, A y) { return both(mean_absolute_error(x, y)); }},
      {"huber", "weighted(huber(x, y, 0.7))", {logits, targets}, [](A x, A y) { return both(huber(x, y, {}, 0.7)); }},
      {"l1_penalty",
       "0.3 * (jnp.sum(jnp.abs(x)) + jnp.sum(jnp.abs(y)))",
       {logits, rows},
       [](A x, A y) {
         return l1_penalty(Tree::dict({{"a", x}, {"b", y}}), 0.3);
       }},
      {"l2_penalty",
       "0.3 * (jnp.sum(x**2) + jnp.sum(y**2))",
       {logits, rows},
       [](A x, A y) {
         return l2_penalty(Tree::dict({{"a", x}, {"b", y}}), 0.3);
       }},
  };
}

}  // namespace

Lines activation_lines() {
  Lines lines = activations();
  for (const Lines& part : {softmaxes(), attention_lines(), loss_lines()})
    lines.insert(lines.end(), part.begin(), part.end());
  return lines;
}

}  // namespace lockstep::tests::functions
