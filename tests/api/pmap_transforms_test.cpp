#include <doctest/doctest.h>

#include <lockstep/derivatives.h>
#include <lockstep/function.h>
#include <lockstep/indexing.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>
#include <lockstep/transforms.h>

#include "tests/support/array_values.h"
#include "tests/support/replicas.h"

// Transforms of a map from outside, and maps of transforms, against the same formulas on whole arrays.
using namespace lockstep;
using tests::check_equal;
using tests::Replicas;

namespace {

Array layer_rows() { return sin(reshape(convert(arange(24), float64), {8, 3})); }
Array layer_weights() { return cos(convert(arange(3), float64)); }

/// Rows of a nonlinear layer, their mean over the batch, and the norm of the weights.
using Results = std::tuple<Array, Array, Array>;
Results whole_layer(const Array& a, const Array& b) {
  const Array y = tanh(b * a);
  return {y - mean(y, Axes{0}), mean(y * y), sum(square(a))};
}

Results layer_on_shard(const Array& a, const Array& b) {
  const Array y = tanh(b * a);
  return {y - pmean(mean(y, Axes{0}), {"batch"}), pmean(mean(y * y), {"batch"}), sum(square(a))};
}

auto mapped_layer(const Replicas& replicas) {
  return pmap(layer_on_shard, {.mesh = tests::mesh_of(replicas),
                               .in = {replicated, sharded("batch")},
                               .out = {sharded("batch"), replicated, replicated}});
}

Array energy_loss(const Results& results) {
  const auto& [y, energy, norm] = results;
  return sum(y * y * y) + 3 * energy + energy * norm;
}

template <class Check>
void on_all_replicas(const Check& check) {
  for (const Replicas& replicas : tests::replica_counts) {
    CAPTURE(replicas.shards);
    CAPTURE(replicas.devices);
    check(replicas);
  }
}

}  // namespace

TEST_CASE("grad of a map is grad of the whole") {
  const Array w = layer_weights(), x = layer_rows();
  const auto whole = [](const Array& a, const Array& b) { return energy_loss(whole_layer(a, b)); };
  on_all_replicas([&](const Replicas& replicas) {
    const auto layer = mapped_layer(replicas);
    const auto loss = [&](const Array& a, const Array& b) { return energy_loss(layer(a, b)); };
    check_equal(loss(w, x), whole(w, x));
    check_equal(grad<0>(loss)(w, x), grad<0>(whole)(w, x));
    check_equal(grad<1>(loss)(w, x), grad<1>(whole)(w, x));
    check_equal(jit([&](const Array& a, const Array& b) { return grad<0>(loss)(a, b); })(w, x), grad<0>(whole)(w, x));
  });
}

TEST_CASE("jvp and linearize of a map are those of the whole") {
  const Array w = layer_weights(), x = layer_rows();
  const Array dw = sin(w * 5), dx = cos(x * 3);
  const auto check = [](const Results& given, const Results& expected) {
    check_equal(std::get<0>(given), std::get<0>(expected));
    check_equal(std::get<1>(given), std::get<1>(expected));
    check_equal(std::get<2>(given), std::get<2>(expected));
  };
  const auto expected = jvp(whole_layer, std::tuple(w, x), std::tuple(dw, dx));
  on_all_replicas([&](const Replicas& replicas) {
    const auto layer = mapped_layer(replicas);
    const auto f = [&](const Array& a, const Array& b) { return layer(a, b); };
    const auto given = jvp(f, std::tuple(w, x), std::tuple(dw, dx));
    check(given.first, expected.first);
    check(given.second, expected.second);
    const auto [y, forth] = linearize(f, w, x);
    check(y, expected.first);
    check(forth(dw, dx), expected.second);
  });
}

TEST_CASE("a map's second derivatives are those of the whole") {
  const Array w = layer_weights(), x = layer_rows();
  const auto directional = [](const auto& f) {
    return [f](const Array& a) { return sum(grad([&f](const Array& v) { return f(v); })(a) * (cos(a) + 1)); };
  };
  const auto whole = directional([&](const Array& a) { return energy_loss(whole_layer(a, x)); });
  on_all_replicas([&](const Replicas& replicas) {
    const auto layer = mapped_layer(replicas);
    const auto mapped = directional([&](const Array& a) { return energy_loss(layer(a, x)); });
    check_equal(grad(mapped)(w), grad(whole)(w));
  });
}

TEST_CASE("vmap of a map and a map of vmap are the loop") {
  const Array w = layer_weights(), x = layer_rows();
  const Array ws = stack(std::vector<Array>{w, w * 2, sin(w)}, 0);
  const Array xs = stack(std::vector<Array>{x, x * x, x + 1}, 0);
  const auto row = [](const Array& all, std::int64_t i) { return squeeze(slice_in_dim(all, i, i + 1, 0), Axes{0}); };
  on_all_replicas([&](const Replicas& replicas) {
    const auto layer = mapped_layer(replicas);
    const auto f = [&](const Array& a, const Array& b) { return layer(a, b); };
    const auto outside = vmap(f)(ws, xs);
    const auto only_rows = vmap(f, {.in_axes = {std::nullopt, 0}})(w, xs);
    const auto inside = pmap([](const Array& a, const Array& b) { return vmap(layer_on_shard)(a, b); },
                             {.mesh = tests::mesh_of(replicas),
                              .in = {replicated, sharded("batch", 1)},
                              .out = {sharded("batch", 1), replicated, replicated}})(ws, xs);
    for (std::int64_t i = 0; i < 3; ++i) {
      const Results expected = whole_layer(row(ws, i), row(xs, i));
      check_equal(row(std::get<0>(outside), i), std::get<0>(expected));
      check_equal(row(std::get<1>(outside), i), std::get<1>(expected));
      check_equal(row(std::get<2>(outside), i), std::get<2>(expected));
      check_equal(row(std::get<0>(inside), i), std::get<0>(expected));
      check_equal(row(std::get<1>(inside), i), std::get<1>(expected));
      check_equal(row(std::get<2>(inside), i), std::get<2>(expected));
      check_equal(row(std::get<1>(only_rows), i), std::get<1>(whole_layer(w, row(xs, i))));
    }
  });
}

TEST_CASE("grad of vmap of a map, and vmap of grad of a map") {
  const Array w = layer_weights(), x = layer_rows();
  const Array ws = stack(std::vector<Array>{w, w * 2, sin(w)}, 0);
  const auto whole = [&](const Array& a) { return energy_loss(whole_layer(a, x)); };
  const auto loop = [&](const Array& all) { return sum(vmap(whole)(all)); };
  on_all_replicas([&](const Replicas& replicas) {
    const auto layer = mapped_layer(replicas);
    const auto one = [&](const Array& a) { return energy_loss(layer(a, x)); };
    check_equal(grad([&](const Array& all) { return sum(vmap(one)(all)); })(ws), grad(loop)(ws));
    check_equal(vmap([&](const Array& a) { return grad(one)(a); })(ws), grad(loop)(ws));
  });
}

TEST_CASE("residuals that vary along several axes, and operands that are residuals") {
  const auto whole = [](const Array& a, const Array& b) {
    return sum(exp(sin(a) * b) * sin(a)) * sum(square(exp(cos(sum(sin(a))))));
  };
  const Array a = sin(reshape(convert(arange(32), float64), {8, 4})),
              b = cos(reshape(convert(arange(32), float64), {8, 4}));
  const Mesh grid({{"rows", 4}, {"columns", 2}}, tests::cpu_devices(2));
  const Layout cut({{0, "columns"}, {1, "rows"}});
  const auto mapped = pmap(
      [](const Array& p, const Array& q) {
        const Array s = sin(p);
        const Array total = psum(sum(s), {"rows", "columns"});
        return sum(square(exp(cos(total)))) * psum(sum(exp(s * q) * s), {"rows", "columns"});
      },
      {.mesh = grid, .in = {cut, cut}, .out = {replicated}});
  const auto loss = [&](const Array& p, const Array& q) { return mapped(p, q); };
  check_equal(mapped(a, b), whole(a, b));
  check_equal(grad<0>(loss)(a, b), grad<0>(whole)(a, b));
  check_equal(grad<1>(loss)(a, b), grad<1>(whole)(a, b));
}

TEST_CASE("a residual's rank does not reach beyond what arrays can have") {
  const std::vector<std::int64_t> ones_and_two = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 4};
  const Array deep = reshape(sin(convert(arange(4), float64)), ones_and_two);
  const auto body = [](const Array& v) { return exp(sin(v)); };
  const auto mapped =
      pmap(body, {.mesh = tests::mesh_of({2, 1}), .in = {sharded("batch", 11)}, .out = {sharded("batch", 11)}});
  check_equal(grad([&](const Array& v) { return sum(mapped(v)); })(deep),
              grad([&](const Array& v) { return sum(body(v)); })(deep));
}

TEST_CASE("gradients of a map are reduced once, and what an operand holds is not kept again") {
  const Array w = layer_weights(), x = layer_rows();
  const auto mapped = pmap([](const Array& a, const Array& b) { return psum(sum(a * b), {"batch"}); },
                           {.mesh = tests::mesh_of({4, 1}), .in = {replicated, sharded("batch")}, .out = {replicated}});
  const Function gradient = trace_function(
      [&](const Array& a, const Array& b) { return grad([&](const Array& v) { return mapped(v, b); })(a); }, w, x);
  const std::string text = gradient.to_string();
  std::size_t psums = 0;
  for (std::size_t at = text.find("psum["); at != std::string::npos; at = text.find("psum[", at + 1)) ++psums;
  CAPTURE(text);
  CHECK(psums == 2);  // the loss, and the gradient of the weights
  CHECK(text.find("reshape") == std::string::npos);
}

TEST_CASE("tangents and cotangents may be the same on all replicas where what they belong to varies") {
  const Array w = layer_weights(), x = layer_rows(), ones3 = ones({3}, float64);
  const auto product = [](const Array& b) { return [b](const Array& a) { return a * b[0]; }; };
  const auto expected = [&](const Array& v) { return v * (x[0] + x[2] + x[4] + x[6]); };
  const auto on_shards = [&](const auto& body) {
    const PmapOptions options{
        .mesh = tests::mesh_of({4, 2}), .in = {replicated, sharded("batch")}, .out = {replicated}};
    return pmap(body, options)(w, x);
  };
  // Of an operand that is the same on all replicas, what comes back is their sum.
  check_equal(on_shards([&](const Array& a, const Array& b) { return std::get<0>(vjp(product(b), a).second(ones3)); }),
              expected(ones3));
  check_equal(on_shards([&](const Array& a, const Array& b) {
                return std::get<0>(linear_transpose(product(b), zeros_like(a))(a));
              }),
              expected(w));
  check_equal(on_shards([&](const Array& a, const Array& b) {
                return psum(linearize(product(b), pvary(a, {"batch"})).second(ones3), {"batch"});
              }),
              expected(ones3));
  check_equal(on_shards([&](const Array& a, const Array& b) {
                const auto [y, dy] = jvp(product(b), std::tuple(pvary(a, {"batch"})), std::tuple(Array(ones3)));
                return psum(dy, {"batch"});
              }),
              expected(ones3));
}
