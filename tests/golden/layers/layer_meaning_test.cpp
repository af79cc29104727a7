#include <cmath>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/golden/layers/catalogue.h"
#include "tests/support/layer_transforms.h"
#include "tests/support/replicas.h"

// What holds of every layer of the catalogue: one replica or several, alone or in a transform, it means the same.
namespace lockstep::tests::layers {
namespace {

Model<Array, Array> layer_model(const CatalogueLayer& layer, Aggregation aggregation = Aggregation::none) {
  return Model<Array, Array>(
      [&layer, aggregation](Scope& s, const Array& x) { return layer.layer(s["layer"], x, aggregation); });
}

void check_layer_near(const Tree& a, const Tree& b, double room, const std::string& what) {
  REQUIRE(a.paths() == b.paths());
  for (std::size_t i = 0; i < a.leaves().size(); ++i) {
    const Array p = a.leaves()[i], q = b.leaves()[i];
    REQUIRE(p.type() == q.type());
    const bool near = is_float(p.dtype()) ? max(abs(p - q)).item<double>() <= room * (1 + max(abs(q)).item<double>())
                                          : p.to_bytes() == q.to_bytes();
    CHECK_MESSAGE(near, what << ", leaf " << a.paths()[i]);
  }
}

/// A layer in a transform.
Model<Array, Array> lifted(const CatalogueLayer& layer, const LayerTransform& transform) {
  return Model<Array, Array>([&layer, transform](Scope& s, const Array& v) {
    return transform(s["layer"], v,
                     [&layer](const Scope& own, const Array& u) { return layer.layer(own, u, Aggregation::none); });
  });
}

/// Of x and of half of it, one after the other, rows first.
Array of_both(const Scope& s, const Array& x, const LayerFunction& f) {
  const Array first = f(s, x);
  return stack({first, f(s, x * 0.5)}, 1);
}

/// The same in a scan.
Array scanned(const Scope& s, const Array& x, const LayerFunction& f) {
  const auto body = [&](const Array& c, const Array& u) { return std::pair(c * 0.5, f(s, u)); };
  return swapaxes(scan(body, ones({}, x.dtype()), stack({x, x * 0.5}, 0)).second, 0, 1);
}

/// The same in a vmap.
Array mapped_layer(const Scope& s, const Array& x, const LayerFunction& f) {
  return swapaxes(vmap([&](const Array& u) { return f(s, u); })(stack({x, x * 0.5}, 0)), 0, 1);
}

/// Those that make lengths or masks of a row's number, which on a shard is another.
bool counts_rows(const CatalogueLayer& layer) {
  return layer.name.ends_with("/lengths") || layer.name == "simple_rnn" || layer.name == "multi_head_attention/dropout";
}

/// Result, new state and gradients of a training call.
struct Outcome {
  Array y;
  Tree next, gradients;
};

template <class M>
Outcome outcome(const M& model, const Tree& w, const Tree& state, const Array& x) {
  const auto loss = [&](const Tree& v, const Array& input) {
    const auto [y, next] = model.stateless_call(v, state, input, true);
    return std::pair(sum(sin(y)), std::pair(y, next));
  };
  const auto [value, gradients] = value_and_grad<0, 1>(loss)(w, x);
  return {value.second.first, value.second.second, to_tree(gradients)};
}

}  // namespace

TEST_CASE("every layer over 1, 2 and 4 shards: draws, results, state and gradients of one device") {
  for (const CatalogueLayer& layer : every_layer()) {
    CAPTURE(layer.name);
    const auto model = layer_model(layer);
    const Array x = rows_of(layer, 4);
    const auto [w, state] = filled_variables(model, x);
    if (counts_rows(layer)) continue;
    const auto [expected, next] = model.stateless_call(w, state, x, true);
    const auto mean_of = [&, state = state](const Tree& v, const Array& rows) {
      const Array y = sin(model.stateless_call(v, state, rows, true).first);
      return value(weighted(reshape(y, {y.dim(0), -1})));
    };
    const Tree slopes = grad(mean_of)(w, x);
    for (const std::int64_t shards : {1, 2, 4}) {
      CAPTURE(shards);
      const auto [y, after] = call_on({shards, 1}, model, w, state, batch_of(x), true);
      if (layer.draws) CHECK_MESSAGE(y.to_bytes() == expected.to_bytes(), layer.name);
      check_layer_near(Tree(y), Tree(expected), 1e-12, layer.name);
      check_layer_near(after, next, 1e-12, layer.name);
      const PmapOptions options{
          .mesh = mesh_of({shards, 1}), .in = {replicated, sharded("batch")}, .out = {replicated}};
      const auto gradient = pmap([&](const Tree& v, const Array& rows) { return grad(mean_of)(v, rows); }, options);
      check_layer_near(gradient(w, x), slopes, 1e-11, layer.name);
    }
  }
}

TEST_CASE("every layer in remat, a scan and a vmap over 1, 2 and 4 shards is the plain one on one device") {
  struct Form {
    std::string name;
    LayerTransform in_transform, plain;
  };
  const std::vector<Form> forms = {
      {"remat", in_remat, once}, {"scan", scanned, of_both}, {"vmap", mapped_layer, of_both}};
  for (const CatalogueLayer& layer : every_layer()) {
    if (counts_rows(layer)) continue;
    const Array x = rows_of(layer, 4);
    for (const Form& form : forms) {
      const auto plain = lifted(layer, form.plain), transformed = lifted(layer, form.in_transform);
      const auto [w, state] = filled_variables(plain, x);
      if (form.name == "vmap" && (layer.draws || !state.leaves().empty())) continue;
      const auto [expected, next] = plain.stateless_call(w, state, x, true);
      const auto mean_of = [&](const auto& model, const Tree& kept) {
        return [&model, kept](const Tree& v, const Array& rows) {
          const Array y = sin(model.stateless_call(v, kept, rows, true).first);
          return value(weighted(reshape(y, {y.dim(0), -1})));
        };
      };
      const Tree slopes = grad(mean_of(plain, state))(w, x);
      for (const std::int64_t shards : {1, 2, 4}) {
        const std::string what = layer.name + " in " + form.name + " over " + std::to_string(shards) + " shards";
        const auto [y, after] = call_on({shards, 1}, transformed, w, state, batch_of(x), true);
        if (layer.draws) CHECK_MESSAGE(y.to_bytes() == expected.to_bytes(), what);
        check_layer_near(Tree(y), Tree(expected), 1e-12, what);
        check_layer_near(after, next, 1e-12, what);
        const PmapOptions options{
            .mesh = mesh_of({shards, 1}), .in = {replicated, sharded("batch")}, .out = {replicated}};
        const auto gradient = pmap(grad(mean_of(transformed, state)), options);
        check_layer_near(gradient(w, x), slopes, 1e-11, what);
      }
    }
  }
}

TEST_CASE("every layer declares the aggregation of its options for each variable") {
  for (const CatalogueLayer& layer : every_layer()) {
    CAPTURE(layer.name);
    // Kernel functions are told by options of their own.
    const bool of_kernel = layer.name == "lora" || layer.name == "weight_norm";
    for (const Variable& v : layer_model(layer, Aggregation::sum).variables(rows_of(layer, 2))) {
      const bool own = of_kernel && (v.path.find("lora_") != std::string::npos || v.path.ends_with("scale"));
      const Aggregation expected = v.trainable && !own ? Aggregation::sum : Aggregation::none;
      CHECK_MESSAGE(v.aggregation == expected, v.path);
    }
  }
}

TEST_CASE("every layer in jit, remat, a scan and a vmap is the plain one, its draws too") {
  for (const CatalogueLayer& layer : every_layer()) {
    CAPTURE(layer.name);
    const Array x = rows_of(layer, 2);
    const auto plain = lifted(layer, once);
    const auto [w, state] = filled_variables(plain, x);
    const Outcome expected = outcome(plain, w, state, x);
    const auto remade = lifted(layer, in_remat);
    const auto same = jit([&, state = state](const Tree& v, const Array& rows) {
      const Outcome o = outcome(remade, v, state, rows);
      return std::tuple(o.y, o.next, o.gradients);
    })(w, x);
    check_layer_near(Tree(std::get<0>(same)), Tree(expected.y), 1e-12, layer.name + " in remat and jit");
    check_layer_near(std::get<1>(same), expected.next, 1e-12, layer.name + " in remat and jit");
    check_layer_near(std::get<2>(same), expected.gradients, 1e-11, layer.name + " in remat and jit");
    // Twice in a scan: where the result is no input, of each x anew.
    const Outcome looped = outcome(lifted(layer, scanned), w, state, x);
    const Outcome twice_over = outcome(lifted(layer, of_both), w, state, x);
    check_layer_near(Tree(looped.y), Tree(twice_over.y), 1e-12, layer.name + " in a scan");
    check_layer_near(looped.next, twice_over.next, 1e-12, layer.name + " in a scan");
    check_layer_near(looped.gradients, twice_over.gradients, 1e-11, layer.name + " in a scan");
    if (layer.draws || !state.leaves().empty()) continue;
    const Array in_vmap = lifted(layer, mapped_layer).stateless_call(w, state, x, true).first;
    check_layer_near(Tree(in_vmap), Tree(twice_over.y), 1e-12, layer.name + " in vmap");
  }
}

TEST_CASE("every layer of bfloat16 gives bfloat16, close to what the same numbers give in float32") {
  const auto in = [](DType dtype, const Tree& tree) {
    return map([&](const Array& v) { return is_float(v.dtype()) ? convert(v, dtype) : v; }, tree);
  };
  for (const CatalogueLayer& layer : every_layer()) {
    CAPTURE(layer.name);
    const auto model = layer_model(layer);
    const Array x = convert(rows_of(layer, 2), bfloat16);
    const auto [w, state] = filled_variables(model, x);
    const Tree narrow = in(bfloat16, w), kept = in(float32, state);
    const Array y = model.stateless_call(narrow, kept, x, false).first;
    CHECK(y.dtype() == bfloat16);
    const Array wide = model.stateless_call(in(float32, narrow), kept, convert(x, float32), false).first;
    CHECK_MESSAGE(max(abs(y - wide)).item<float>() <= 0.05F * (1 + max(abs(wide)).item<float>()), layer.name);
  }
}

TEST_CASE("layers that draw are the identity in evaluation, and keep mean and spread in training") {
  for (const CatalogueLayer& layer : every_layer()) {
    if (!layer.draws || layer.function == "multi_head_attention") continue;
    CAPTURE(layer.name);
    std::vector<std::int64_t> extents = {256};
    for (const std::int64_t extent : layer.example) extents.push_back(extent);
    const Array x = random::normal(random::key(3), Shape(extents), float64);
    const auto model = layer_model(layer);
    const auto [w, state] = model.init(random::key(0), x);
    CHECK(model.stateless_call(w, state, x, false).first.to_bytes() == x.to_bytes());
    const auto [y, next] = model.stateless_call(w, state, x, true);
    CHECK(y.to_bytes() != x.to_bytes());
    CHECK(std::abs(mean(y - x).item<double>()) < 0.1);
    if (layer.function == "alpha_dropout") CHECK(std::abs(var(y).item<double>() - 1) < 0.15);
    if (layer.function == "spatial_dropout") {
      const Array none = mean(convert(y == 0, float64), Axes{1, 2});  // of each row and channel
      CHECK(all((none == 0) | (none == 1)).item<bool>());
    }
  }
}

}  // namespace lockstep::tests::layers
