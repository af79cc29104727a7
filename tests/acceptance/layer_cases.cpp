#include <algorithm>

#include <doctest/doctest.h>

#include "tests/acceptance/cases.h"

// Layers that are cut along a mesh axis, beside one device.
namespace lockstep::tests {
namespace {

void check_close(const Array& given, const Array& expected) {
  const double size = std::max(1.0, max(abs(expected)).item<double>());
  CHECK(max(abs(given - expected)).item<double>() <= 1e-11 * size);
}

Array drawn(std::uint64_t seed, const Shape& shape) { return random::normal(random::key(seed), shape, float64); }

/// A map over the replicas, its results, and the gradients of their squares by all arguments.
template <class F, class Whole>
Tree like_one_device(const F& map, const Whole& whole, const std::vector<Array>& arguments) {
  const auto loss_of = [](const auto& f) { return [&f](const std::vector<Array>& v) { return sum(square(f(v))); }; };
  const Array y = map(arguments);
  check_close(y, whole(arguments));
  const std::vector<Array> given = grad(loss_of(map))(arguments), expected = grad(loss_of(whole))(arguments);
  for (std::size_t i = 0; i < given.size(); ++i) check_close(given[i], expected[i]);
  return Tree::list({Tree(y), to_tree(given)});
}

Tree sequences(const Replicas& replicas) {
  const Layout cut = sharded("batch", 1);
  const auto whole = [](const std::vector<Array>& v) {
    return dot_product_attention(v[0], v[1], v[2], {.is_causal = true});
  };
  std::vector<Tree> results;
  for (const bool ring : {true, false}) {
    const auto body = [ring](const Array& q, const Array& k, const Array& v) {
      const SequenceAttentionOptions options{.axis = "batch", .is_causal = true};
      return ring ? ring_attention(q, k, v, options) : all_to_all_attention(q, k, v, options);
    };
    const auto mapped = pmap(body, {.mesh = mesh_of(replicas), .in = {cut, cut, cut}, .out = {cut}});
    results.push_back(like_one_device([&](const std::vector<Array>& v) { return mapped(v[0], v[1], v[2]); }, whole,
                                      {drawn(1, {2, 16, 8, 4}), drawn(2, {2, 16, 8, 4}), drawn(3, {2, 16, 8, 4})}));
  }
  return Tree::list(results);
}

Tree experts(const Replicas& replicas) {
  const auto mixed = [](const Array& router, const Array& kernels, const Array& x, const std::string& axis) {
    const auto expert = [](const Array& kernel, const Array& tokens) { return tanh(matmul(tokens, kernel)); };
    return mixture_of_experts(x, matmul(x, router), kernels, expert, {.axis = axis, .capacity_factor = 1}).y;
  };
  const auto mapped = pmap(
      [&](const Array& router, const Array& kernels, const Array& x) { return mixed(router, kernels, x, "batch"); },
      {.mesh = mesh_of(replicas), .in = {replicated, sharded("batch"), sharded("batch")}, .out = {sharded("batch")}});
  return like_one_device([&](const std::vector<Array>& v) { return mapped(v[0], v[1], v[2]); },
                         [&](const std::vector<Array>& v) { return mixed(v[0], v[1], v[2], ""); },
                         {drawn(1, {5, 8}), drawn(2, {8, 5, 3}), drawn(3, {8, 6, 5})});
}

Tree stages(const Replicas& replicas) {
  const auto through = [](const Array& weights, const Array& x) {
    const auto layer = [](const Array& h, const Array& w) { return std::pair(h + tanh(matmul(h, w)), Tree()); };
    return scan(layer, x, weights).first;
  };
  const auto mapped = pmap(
      [&](const Array& weights, const Array& x) {
        return pipeline([&](const Array& h) { return through(weights, h); }, x, {.axis = "batch", .microbatches = 4});
      },
      {.mesh = mesh_of(replicas), .in = {sharded("batch"), replicated}, .out = {replicated}});
  return like_one_device([&](const std::vector<Array>& v) { return mapped(v[0], v[1]); },
                         [&](const std::vector<Array>& v) { return through(v[0], v[1]); },
                         {drawn(1, {8, 5, 5}), drawn(2, {8, 5})});
}

}  // namespace

std::vector<AcceptanceCase> layer_cases() {
  return {{"attention over a cut sequence, by a ring and by two exchanges", sequences},
          {"a mixture of experts that are cut", experts},
          {"a pipeline of stages", stages}};
}

}  // namespace lockstep::tests
