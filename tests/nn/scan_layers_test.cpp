// The right values are those of a loop over layers in scopes "0", "1", ...
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/layer_run.h"
#include "tests/support/replicas.h"

using namespace lockstep;

namespace {

constexpr std::int64_t scanned_layers = 3;

Array block(const Scope& s, const Array& x) {
  const Array h =
      x + dropout(s["drop_0"], multi_head_attention(s["attention"], layer_norm(s["norm"], x), {.heads = 2}), 0.25);
  return h + dropout(s["drop_1"], gelu(dense(s["dense"], h, {.units = x.dim(-1)})), 0.25);
}

Array unrolled(const Scope& s, const Array& x) {
  Array h = x;
  for (std::int64_t i = 0; i < scanned_layers; ++i) h = block(s["blocks"][std::to_string(i)], h);
  return dense(s["head"], h, {.units = 4});
}

Array scanned(const Scope& s, const Array& x) {
  const auto body = [](const Scope& layer, const Array& h) {
    return remat([&](const Array& v) { return block(layer, v); })(h);
  };
  return dense(s["head"], scan_layers(s["blocks"], scanned_layers, body, x), {.units = 4});
}

void check_leaf_bits(const Tree& a, const Tree& b) {
  REQUIRE(a.paths() == b.paths());
  const std::vector<Array> p = a.leaves(), q = b.leaves();
  for (std::size_t i = 0; i < p.size(); ++i) {
    CAPTURE(a.paths()[i]);
    CHECK(p[i].type() == q[i].type());
    CHECK(p[i].to_bytes() == q[i].to_bytes());
  }
}

Array example() { return convert(tests::spread_values({4, 6, 8}), float32); }

/// (loss, new state, gradients)
template <class M>
std::tuple<Array, Tree, Tree> step(const M& model, const Tree& trainable, const Tree& state, const Array& x) {
  const auto loss = [&](const Tree& w) {
    const auto [y, next] = model.stateless_call(w, state, x, true);
    return std::pair(sum(square(y)), next);
  };
  const auto [value, gradients] = jit([&](const Tree& w) { return value_and_grad(loss)(w); })(trainable);
  return {value.first, value.second, gradients};
}

}  // namespace

TEST_CASE("scanned, rematerialised layers are the unrolled ones, bit for bit, dropout and gradients too") {
  const Model plain(unrolled), loop(scanned);
  const Array x = example();
  const auto [w, state] = plain.init(random::key(5), x);
  const auto [stacked_w, stacked_state] = loop.init(random::key(5), x);
  CHECK(stacked_w.at("blocks/dense/kernel").array().shape() == Shape{scanned_layers, 8, 8});
  check_leaf_bits(stacked_w, stack_layers(w, "blocks"));
  check_leaf_bits(stacked_state, stack_layers(state, "blocks"));
  const auto [loss, next, gradients] = step(plain, w, state, x);
  const auto [loop_loss, loop_next, loop_gradients] = step(loop, stacked_w, stacked_state, x);
  CHECK(loop_loss.to_bytes() == loss.to_bytes());
  check_leaf_bits(loop_next, stack_layers(next, "blocks"));
  check_leaf_bits(loop_gradients, stack_layers(gradients, "blocks"));
}

TEST_CASE("stack_layers and unstack_layers undo one another") {
  const auto [w, state] = Model(unrolled).init(random::key(5), example());
  check_leaf_bits(unstack_layers(stack_layers(w, "blocks"), "blocks"), w);
  check_leaf_bits(stack_layers(w, "no layers here"), w);
  tests::expect_error<StateError>([&] { static_cast<void>(stack_layers(w, "head")); }, "none is \"0\"");
  const Tree uneven = Tree::dict({{"a", Tree(zeros({2}))}, {"b", Tree(zeros({3}))}});
  tests::expect_error<StateError>([&] { static_cast<void>(unstack_layers(uneven, "")); }, "expected one first extent");
}

TEST_CASE("layers scanned twice go on: statistics and draws are those of two unrolled passes") {
  const auto layer = [](const Scope& s, const Array& x) {
    return dropout(s["drop"], batch_norm(s["norm"], x, {.momentum = 0.5}), 0.5) + x;
  };
  const auto pass = [&](const Scope& s, const Array& x) { return scan_layers(s["l"], scanned_layers, layer, x); };
  const Model loop([&](const Scope& s, const Array& x) { return pass(s, pass(s, x)); });
  const Model plain([&](const Scope& s, const Array& x) {
    Array h = x;
    for (std::int64_t i = 0; i < 2 * scanned_layers; ++i) h = layer(s["l"][std::to_string(i % scanned_layers)], h);
    return h;
  });
  const Array x = tests::spread_values({8, 6});
  const auto [w, state] = plain.init(random::key(1), x);
  const auto [y, next] = plain.stateless_call(w, state, x, true);
  const auto [loop_y, loop_next] = loop.stateless_call(stack_layers(w, "l"), stack_layers(state, "l"), x, true);
  CHECK(loop_y.to_bytes() == y.to_bytes());
  check_leaf_bits(loop_next, stack_layers(next, "l"));
}

TEST_CASE("layers of layers: each slice is drawn as the layer of that number in that layer") {
  const auto inner = [](const Scope& s, const Array& x) { return dense(s["d"], x, {.units = 6}); };
  const Model loop([&](const Scope& s, const Array& x) {
    return scan_layers(
        s["a"], 2, [&](const Scope& t, const Array& h) { return scan_layers(t["b"], 3, inner, h); }, x);
  });
  const auto [w, state] = loop.init(random::key(1), zeros({2, 6}));
  const Model one([&](const Scope& s, const Array& x) { return inner(s["a"]["1"]["b"]["2"], x); });
  const auto [single, none] = one.init(random::key(1), zeros({2, 6}));
  const Array kernels = w.at("a/b/d/kernel").array();
  CHECK(kernels.shape() == Shape{2, 3, 6, 6});
  CHECK(kernels[1][2].to_bytes() == single.at("a/1/b/2/d/kernel").array().to_bytes());
}

TEST_CASE("vmap draws for each example, and once a call") {
  const Model model([](const Scope& s, const Array& x) {
    return vmap([&](const Array& row) { return dropout(s["drop"], row, 0.5); })(x);
  });
  const Array x = ones({8, 64});
  const auto [w, state] = model.init(random::key(2), x);
  const auto [y, next] = model.stateless_call(w, state, x, true);
  for (int i = 1; i < 8; ++i) CHECK(y[i].to_bytes() != y[0].to_bytes());
  CHECK(next.at("drop/rng").array().to_vector<std::uint32_t>()[2] == 1);
  // Example 3: fold_in(fold_in(fold_in(key, count), draw), example).
  const Array rng = state.at("drop/rng").array();
  const Array key = random::wrap_key_data(slice_in_dim(rng, 0, 2, 0));
  const Array of_example = random::fold_in(random::fold_in(random::fold_in(key, 0), 0), 3);
  CHECK(y[3].to_bytes() == where(random::bernoulli(of_example, 0.5, {64}), x[3] * 2.0, 0).to_bytes());
  for (const tests::Replicas replicas : {tests::Replicas{1, 1}, {2, 1}, {2, 2}}) {
    CAPTURE(replicas.shards);
    CHECK(tests::call_on(replicas, model, w, state, tests::batch_of(x), true).first.to_bytes() == y.to_bytes());
  }
}

TEST_CASE("batch_norm in a vmap takes the examples for rows where the vmap's axis has a name, else it is an error") {
  const auto through = [](const std::string& name) {
    return Model([name](const Scope& s, const Array& x) {
      return vmap([&](const Array& v) { return batch_norm(s["n"], v, {.momentum = 0.5}); }, {.axis_name = name})(x);
    });
  };
  const Array x = tests::spread_values({4, 3, 5});
  const auto named = through("examples");
  const auto [w, state] = named.init(random::key(2), x);
  const auto [y, next] = named.stateless_call(w, state, x, true);
  const Model plain([](const Scope& s, const Array& v) { return batch_norm(s["n"], v, {.momentum = 0.5}); });
  const auto [expected, expected_next] = plain.stateless_call(w, state, x, true);
  CHECK(max(abs(y - expected)).item<double>() < 1e-12);
  for (const char* leaf : {"n/moving_mean", "n/moving_variance"}) {
    CHECK(max(abs(next.at(leaf).array() - expected_next.at(leaf).array())).item<double>() < 1e-12);
  }
  tests::expect_error<AggregationError>([&] { static_cast<void>(through("").stateless_call(w, state, x, true)); },
                                        "give the vmap an axis_name");
}

TEST_CASE("contributions within transforms are all counted") {
  const auto count = [](const Scope& s, const Array& x) {
    s.non_trainable("seen", {.shape = {}, .aggregation = Aggregation::sum});
    s.accumulate("seen", ones({}));
    return x;
  };
  const auto seen = [&](auto body) {
    const Model model([&](const Scope& s, const Array& x) { return body(s, x); });
    const auto [w, state] = model.init(random::key(0), zeros({4, 2}));
    return model.stateless_call(w, state, zeros({4, 2}), true).second.at("seen").array().template item<float>();
  };
  CHECK(seen([&](const Scope& s, const Array& x) {
          return fori_loop(
              0, 3, [&](const Array&, const Array& v) { return count(s, v); }, count(s, x));
        }) == 4);
  CHECK(seen([&](const Scope& s, const Array& x) { return vmap([&](const Array& v) { return count(s, v); })(x); }) ==
        4);
  CHECK(seen([&](const Scope& s, const Array& x) {
          return count(s, remat([&](const Array& v) { return count(s, v); })(x));
        }) == 2);
}

TEST_CASE("a while_loop carries draws; its condition may read state and not change it") {
  const auto noise = [](const Scope& s, const Array& x) { return dropout(s["d"], x, 0.25); };
  const Model loop([&](const Scope& s, const Array& x) {
    const auto go_on = [](const std::pair<Array, Array>& c) { return c.first < 3; };
    const auto body = [&](const std::pair<Array, Array>& c) { return std::pair(c.first + 1, noise(s, c.second)); };
    return while_loop(go_on, body, std::pair(full({}, 0, int32), x)).second;
  });
  const Model plain([&](const Scope& s, const Array& x) { return noise(s, noise(s, noise(s, x))); });
  const Array x = ones({4, 32});
  const auto [w, state] = loop.init(random::key(0), x);
  const auto [y, next] = loop.stateless_call(w, state, x, true);
  const auto [expected, expected_next] = plain.stateless_call(w, state, x, true);
  CHECK(y.to_bytes() == expected.to_bytes());
  check_leaf_bits(next, expected_next);
  const Model draws_in_cond([&](const Scope& s, const Array& v) {
    return while_loop([&](const Array& c) { return sum(noise(s, c)) < 0; }, [](const Array& c) { return c; }, v);
  });
  tests::expect_error<TraceError>([&] { static_cast<void>(draws_in_cond.init(random::key(0), x)); },
                                  "cond changes state");
}

TEST_CASE("a custom derivative's function may draw and keep state") {
  const auto layer = [](const Scope& s, const Array& x) {
    return dropout(s["drop"], batch_norm(s["norm"], x, {.momentum = 0.5, .center = false, .scale = false}), 0.5);
  };
  const Model custom([&](const Scope& s, const Array& x) {
    const auto f = [&](const Array& v) { return layer(s, v); };
    const auto fwd = [&](const Array& v) { return std::pair(layer(s, v), v); };
    const auto bwd = [](const Array&, const Array& ct) { return std::tuple(ct * 3.0); };
    return custom_vjp(f, fwd, bwd, {.check = RuleCheck::never})(x);
  });
  const Model plain([&](const Scope& s, const Array& x) { return layer(s, x); });
  const Array x = tests::spread_values({8, 6});
  const auto [w, state] = custom.init(random::key(0), x);
  const auto [expected, expected_next] = plain.stateless_call(w, state, x, true);
  const auto loss = [&, w = w, state = state](const Array& v) {
    const auto [y, next] = custom.stateless_call(w, state, v, true);
    return std::pair(sum(y), std::pair(y, next));
  };
  const auto [value, gradient] = value_and_grad(loss)(x);
  CHECK(value.second.first.to_bytes() == expected.to_bytes());
  check_leaf_bits(value.second.second, expected_next);
  CHECK(gradient.to_vector<double>() == std::vector<double>(48, 3.0));
}
