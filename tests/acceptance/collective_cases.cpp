#include <numbers>

#include <doctest/doctest.h>

#include "tests/acceptance/cases.h"
#include "tests/support/expect_error.h"

// Collectives and their derivatives in maps, and what their types refuse.
namespace lockstep::tests {
namespace {

PmapOptions cut_in_cut_out(const Replicas& replicas) {
  return {.mesh = mesh_of(replicas), .in = {sharded("batch")}, .out = {sharded("batch")}};
}
PmapOptions weight_and_cut(const Replicas& replicas) {
  return {.mesh = mesh_of(replicas), .in = {replicated, sharded("batch")}, .out = {replicated}};
}

Array counted(const Shape& shape) { return convert(reshape(arange(shape.size()), shape.to_vector()), float32); }

Tree gradient_of_a_psum(const Replicas& replicas) {
  const auto slope = [](const Array& w, const Array& x) {
    return grad([&](const Array& v) { return psum(sum(v * x), {"batch"}); })(w);
  };
  const Array g = pmap(slope, weight_and_cut(replicas))(array(1.0F), counted({replicas.shards}));
  CHECK(g.item<float>() == static_cast<float>(replicas.shards * (replicas.shards - 1) / 2));  // 1 of two
  return Tree(g);
}

Tree fan_out_and_fan_in(const Replicas& replicas) {
  const auto fan_out = [&](const Array& w, const Array& x) {
    const auto body = [](const Array& v, const Array& shard) {
      const auto [y, back] = vjp([&](const Array& u) { return shard * u; }, v);
      return std::get<0>(back(y));
    };
    return pmap(body, weight_and_cut(replicas))(w, x);
  };
  const auto fan_in = [&](const Array& x) {
    const auto body = [](const Array& shard) {
      const auto [y, back] = vjp([](const Array& u) { return psum(u, {"batch"}); }, shard);
      return std::get<0>(back(ones_like(y)));
    };
    return pmap(body, cut_in_cut_out(replicas))(x);
  };
  const Array x = ones({replicas.shards}), w = array(2.0F);
  CHECK(trace_function(fan_out, w, x).count("psum") == 1);
  CHECK(trace_function(fan_in, x).plan().collectives.empty());
  const Array of_weight = fan_out(w, x), of_rows = fan_in(x);
  CHECK(of_weight.item<float>() == static_cast<float>(2 * replicas.shards));
  CHECK(fingerprint(Tree(of_rows)) == fingerprint(Tree(x)));
  return Tree::list({Tree(of_weight), Tree(of_rows)});
}

Tree unreduced_value(const Replicas& replicas) {
  const auto body = [](const Array& v) { return sin(sum(v)); };
  expect_error<MeshError>(
      [&] { pmap(body, {.mesh = mesh_of(replicas), .in = {sharded("batch")}, .out = {replicated}})(ones({8})); },
      "made by sin", "\"batch\"", "psum");
  return {};
}

Tree promised_result(const Replicas& replicas) {
  const Mesh mesh({{"x", 2}, {"y", 2}, {"z", 2}}, cpu_devices(replicas.devices));
  const auto f = pmap([](const Array& v) { return psum(v, {"x"}); },
                      {.mesh = mesh, .in = {Layout({{0, "x"}, {1, "y"}, {2, "z"}})}, .out = {replicated}});
  expect_error<MeshError>([&] { f(ones({2, 2, 2})); }, "along \"y,z\" may differ", "cuts it along no axis, promises");
  return {};
}

Tree unknown_axis(const Replicas& replicas) {
  expect_error<MeshError>([] { psum(ones({2}), {"x"}); }, "psum", "\"x\"", "pmap");
  expect_error<MeshError>(
      [&] { pmap([](const Array& v) { return psum(v, {"x"}); }, cut_in_cut_out(replicas))(ones({8})); }, "psum",
      "\"x\"", "batch");
  return {};
}

Tree shift_right(const Replicas& replicas) {
  const auto shift = [](const Array& v) { return ppermute(v, "batch", {{0, 1}, {1, 2}, {2, 3}}); };
  const Array y = array({0.0, 1.0, 2.0, 3.0}) + std::numbers::pi;
  const auto of_map = pmap(shift, cut_in_cut_out(replicas));
  const Array outside = grad([&](const Array& v) { return sum(y * of_map(v)); })(ones({4}, float64));
  const auto of_shard = [&](const Array& weight, const Array& v) {
    return grad([&](const Array& u) { return psum(sum(weight * shift(u)), {"batch"}); })(v);
  };
  const Array inside = pmap(
      of_shard, {.mesh = mesh_of(replicas), .in = {sharded("batch"), sharded("batch")}, .out = {sharded("batch")}})(
      y, ones({4}, float64));
  for (const Array& g : {outside, inside}) {
    const std::vector<double> values = g.to_vector<double>();
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(values[i] == doctest::Approx(std::numbers::pi + static_cast<double>(i) + 1).epsilon(1e-15));
    }
    CHECK(values[3] == 0);
  }
  return Tree::list({Tree(outside), Tree(inside)});
}

Tree bad_permutation(const Replicas& replicas) {
  const auto body = [](const Array& v) { return pshuffle(v, "batch", {1, 1, 2, 3}); };
  expect_error<MeshError>([&] { pmap(body, cut_in_cut_out(replicas))(ones({4})); }, "permutation");
  return {};
}

Tree sums_of_columns(const Replicas& replicas) {
  const std::int64_t n = replicas.shards;
  const auto body = [n](const Array& v) { return psum_scatter(reshape(v, {n}), "batch"); };
  const Array sums = pmap(body, cut_in_cut_out(replicas))(counted({n, n}));
  CHECK(fingerprint(Tree(sums)) == fingerprint(Tree(sum(counted({n, n}), Axes{0}))));
  return Tree(sums);
}

Tree scalar_in_a_cut_batch(const Replicas& replicas) {
  const auto body = [](const std::map<std::string, Array>& batch) {
    return psum(sum(batch.at("x") * batch.at("scale")), {"batch"});
  };
  const Array total = pmap(body, {.mesh = mesh_of(replicas), .in = {sharded("batch")}, .out = {replicated}})(
      std::map<std::string, Array>{{"x", counted({8})}, {"scale", array(3.0F)}});
  CHECK(total.item<float>() == 84);
  return Tree(total);
}

/// Products of float64 are a library's; blocks of a few bytes begin anywhere in a whole.
Tree products_of_blocks(const Replicas& replicas) {
  const Layout cut = sharded("batch");
  std::vector<Tree> results;
  for (const auto& [rows, features] : {std::pair(1, 3), {3, 5}, {16, 3}, {7, 11}, {17, 1}}) {
    const std::int64_t n = replicas.shards;
    const auto of_block = [](const Array& w, const Array& x) {
      return tanh(matmul(all_to_all(x, "batch", 0, 1), w[0]));
    };
    const auto mapped = pmap(of_block, {.mesh = mesh_of(replicas), .in = {cut, cut}, .out = {cut}});
    const auto loss = [&](const std::vector<Array>& v) { return sum(square(mapped(v[0], v[1]))); };
    const std::vector<Array> given = {random::normal(random::key(1), {n, n * rows, features}, float64),
                                      random::normal(random::key(2), {n * n * 2, rows}, float64)};
    results.push_back(Tree::list({Tree(mapped(given[0], given[1])), to_tree(grad(loss)(given))}));
  }
  return Tree::list(results);
}

}  // namespace

std::vector<AcceptanceCase> collective_cases() {
  return {{"T50: the gradient of a psum inside a map is counted once", gradient_of_a_psum},
          {"T51: the transpose of a fan-out is one psum, that of a psum none", fan_out_and_fan_in},
          {"T52: a function of what is not reduced yet is no result", unreduced_value},
          {"T53: a result that varies along two axes does not keep what its layout promises", promised_result, {8}},
          {"T54: a collective along an axis that nobody binds says which there are", unknown_axis},
          {"T55: the gradient of a shift is the shift back", shift_right, {4}},
          {"T56: [1,1,2,3] is no permutation", bad_permutation, {4}},
          {"T57: psum_scatter of a square leaves replica i the sum of column i", sums_of_columns},
          {"a scalar in a cut batch is the same on every replica", scalar_in_a_cut_batch},
          {"products of blocks of any size, and their gradients, have one set of bits", products_of_blocks}};
}

}  // namespace lockstep::tests
