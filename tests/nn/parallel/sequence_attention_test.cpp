#include <functional>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/nn/parallel/cut_layers.h"
#include "tests/support/expect_error.h"

// Attention over a cut sequence is attention over the whole one.
using namespace lockstep;
using tests::check_arrays;
using tests::check_trees;
using tests::drawn;
using tests::expect_error;
using tests::Replicas;

namespace {

using Qkv = std::tuple<Array, Array, Array>;
using Form = std::function<Array(const Array&, const Array&, const Array&, const SequenceAttentionOptions&)>;
const std::vector<Form> forms = {ring_attention, all_to_all_attention};

constexpr std::int64_t sequences = 2, length = 16, heads = 8, head_features = 4;

Qkv operands(DType dtype, std::int64_t key_heads = heads) {
  return {drawn(1, {sequences, length, heads, head_features}, dtype),
          drawn(2, {sequences, length, key_heads, head_features}, dtype),
          drawn(3, {sequences, length, key_heads, head_features}, dtype)};
}

/// The second row ends early, and one query of a causal first row sees nothing.
Array some_keys() {
  const Array t = iota({sequences, length}, 1), row = iota({sequences, length}, 0);
  return where(equal(row, 1), less(t, 11), not_equal(t, 0));
}

Array on_one(const Qkv& x, bool causal, bool masked) {
  const auto& [q, k, v] = x;
  AttentionOptions options{.is_causal = causal};
  if (masked) options.mask = reshape(some_keys(), {sequences, 1, 1, length});
  return dot_product_attention(q, k, v, options);
}

PmapOptions along_sequence(const Replicas& replicas, std::size_t arguments) {
  return {.mesh = tests::mesh_along("sequence", replicas),
          .in = std::vector<LeafLayouts>(arguments, sharded("sequence", 1)),
          .out = {sharded("sequence", 1)}};
}

Array on_replicas(const Form& form, const Replicas& replicas, const Qkv& x, bool causal, bool masked) {
  const auto& [q, k, v] = x;
  const auto body = [&](const Array& a, const Array& b, const Array& c, const Array& seen) {
    SequenceAttentionOptions options{.axis = "sequence", .is_causal = causal};
    if (masked) options.key_mask = seen;
    return form(a, b, c, options);
  };
  return pmap(body, along_sequence(replicas, 4))(q, k, v, some_keys());
}

}  // namespace

TEST_CASE("values and gradients over a cut sequence are those of one device") {
  for (const DType dtype : {float32, float64}) {
    const Qkv x = operands(dtype);
    const Array weights = drawn(4, {sequences, length, heads, head_features}, dtype);
    for (const auto& [causal, masked] : {std::pair(false, false), {true, false}, {false, true}, {true, true}}) {
      const auto loss_of = [&](const auto& attention) {
        return [&, attention](const Qkv& y) { return sum(attention(y) * weights); };
      };
      const Array expected = on_one(x, causal, masked);
      const Qkv slopes = grad(loss_of([&](const Qkv& y) { return on_one(y, causal, masked); }))(x);
      for (std::size_t form = 0; form < forms.size(); ++form) {
        for (const Replicas& replicas : tests::cuts) {
          CAPTURE(form);
          CAPTURE(causal);
          CAPTURE(masked);
          CAPTURE(replicas.shards);
          const auto mapped = [&](const Qkv& y) { return on_replicas(forms[form], replicas, y, causal, masked); };
          check_arrays(mapped(x), expected);
          check_trees(to_tree(jit(grad(loss_of(mapped)))(x)), to_tree(slopes));
        }
      }
    }
  }
}

TEST_CASE("grouped queries") {
  const Qkv x = operands(float64, 2);
  const Array expected = on_one(x, true, true);
  for (const Replicas& replicas : tests::cuts) {
    check_arrays(on_replicas(ring_attention, replicas, x, true, true), expected);
    if (replicas.shards <= 2) check_arrays(on_replicas(all_to_all_attention, replicas, x, true, true), expected);
  }
}

TEST_CASE("gradients inside the map, of layers in a scan, each computed again, are those of one device") {
  const Array x = drawn(5, {sequences, length, heads * head_features}, float64),
              w = drawn(6, {3, heads * head_features}, float64);
  const auto split_heads = [](const Array& h) { return reshape(h, {h.dim(0), h.dim(1), heads, head_features}); };
  const auto loss_of = [&](const auto& attention) {
    return [&, attention](const Array& weights, const Array& rows_of) {
      const auto layer = [&](const Array& h, const Array& scale) {
        const Array q = split_heads(h * scale), k = split_heads(h);
        return std::pair(h + reshape(attention(q, k, k), h.shape().to_vector()), Tree());
      };
      return sum(square(scan(remat(layer), rows_of, weights).first));
    };
  };
  const auto whole = [](const Array& q, const Array& k, const Array& v) {
    return dot_product_attention(q, k, v, {.is_causal = true});
  };
  const Array expected = grad(loss_of(whole))(w, x);
  for (const Form& form : forms) {
    const auto cut = [&](const Array& q, const Array& k, const Array& v) {
      return form(q, k, v, {.axis = "sequence", .is_causal = true});
    };
    const auto body = [&](const Array& weights, const Array& block) {
      return grad([&](const Array& u) { return psum(loss_of(cut)(u, block), {"sequence"}); })(weights);
    };
    for (const Replicas& replicas : tests::cuts) {
      const auto step = jit(pmap(body, {.mesh = tests::mesh_along("sequence", replicas),
                                        .in = {replicated, sharded("sequence", 1)},
                                        .out = {replicated}}));
      check_arrays(step(w, x), expected);
    }
  }
}

TEST_CASE("a batch of attentions, in the map and with the sequence as a named batch") {
  const auto [q, k, v] = operands(float64);
  const Array expected = on_one({q, k, v}, true, false);
  const auto in_rows = [](const Array& x) { return expand_dims(x, 1); };
  for (const Form& form : forms) {
    const auto one = [&](const Array& a, const Array& b, const Array& c) {
      return form(a, b, c, {.axis = "sequence", .is_causal = true});
    };
    const auto each_row = [&](const Array& a, const Array& b, const Array& c) {
      return squeeze(vmap(one)(in_rows(a), in_rows(b), in_rows(c)), Axes{1});
    };
    check_arrays(pmap(each_row, along_sequence({4, 2}, 3))(q, k, v), expected);
    const auto blocks = [](const Array& x) {
      return swapaxes(reshape(x, {sequences, 4, length / 4, heads, head_features}), 0, 1);
    };
    check_arrays(vmap(one, {.axis_name = "sequence"})(blocks(q), blocks(k), blocks(v)), blocks(expected));
  }
}

TEST_CASE("the batch cut along one axis, the sequence along another") {
  const auto [q, k, v] = operands(float32);
  const Layout both({{0, "data"}, {1, "sequence"}});
  const Mesh mesh({{"data", 2}, {"sequence", 2}}, tests::cpu_devices(2));
  for (const Form& form : forms) {
    const auto body = [&](const Array& a, const Array& b, const Array& c) {
      return form(a, b, c, {.axis = "sequence"});
    };
    check_arrays(pmap(body, {.mesh = mesh, .in = {both, both, both}, .out = {both}})(q, k, v),
                 on_one({q, k, v}, false, false));
  }
}

TEST_CASE("tangents through a cut sequence, and narrow floats") {
  const Qkv x = operands(float64), directions = {drawn(7, {sequences, length, heads, head_features}, float64),
                                                 drawn(8, {sequences, length, heads, head_features}, float64),
                                                 drawn(9, {sequences, length, heads, head_features}, float64)};
  const auto cut = [](const Qkv& y) { return on_replicas(ring_attention, {4, 2}, y, true, true); };
  check_arrays(
      jvp(cut, std::make_tuple(x), std::make_tuple(directions)).second,
      jvp([](const Qkv& y) { return on_one(y, true, true); }, std::make_tuple(x), std::make_tuple(directions)).second);
  const Qkv narrow = operands(bfloat16);
  for (const Form& form : forms) CHECK(on_replicas(form, {2, 1}, narrow, true, false).dtype() == bfloat16);
}

TEST_CASE("what attention over a cut sequence refuses") {
  const auto on_four = [](auto body, const Layout& in, std::int64_t of_heads = heads) {
    return [=] {
      const Array x = ones({sequences, length, of_heads, head_features});
      pmap(body, {.mesh = tests::mesh_along("sequence", {4, 1}), .in = {in}, .out = {sharded("sequence", 1)}})(x);
    };
  };
  const Layout cut = sharded("sequence", 1);
  for (const Form& form : forms) {
    const auto with = [&](const SequenceAttentionOptions& options) {
      return [form, options](const Array& x) { return form(x, x, x, options); };
    };
    expect_error<MeshError>(on_four(with({.axis = "sequence"}), replicated), "query, f32[2,16,8,4], is the same on all",
                            "\"sequence\"", "cut the argument");
    expect_error<MeshError>(on_four(with({}), cut), "no axis given", ".axis = \"name\"");
    expect_error<MeshError>(on_four(with({.axis = "model"}), cut), "\"model\"", "sequence");
    expect_error<ShapeError>(on_four(with({.axis = "sequence", .key_mask = ones({2, 16}, DType::bool_)}), cut),
                             "key_mask is bool[2,16]", "bool[2,4]", "this replica's keys");
    expect_error<DtypeError>(
        on_four([form](const Array& x) { return form(convert(x, int32), x, x, {.axis = "sequence"}); }, cut),
        "floats of one dtype", "i32[2,4,8,4]{sequence}");
    expect_error<ShapeError>(on_four(
                                 [form](const Array& x) {
                                   return form(slice_in_dim(x, 0, 3, 2), slice_in_dim(x, 0, 2, 2), x,
                                               {.axis = "sequence"});
                                 },
                                 cut),
                             "N a multiple of K");
  }
  expect_error<ShapeError>(
      on_four([](const Array& x) { return all_to_all_attention(x, x, x, {.axis = "sequence"}); }, cut, 6),
      "6 heads of queries and 6 of keys", "4 replicas", "use ring_attention");
}
