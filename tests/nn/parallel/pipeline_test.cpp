#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/nn/parallel/cut_layers.h"
#include "tests/support/expect_error.h"

// Stages along an axis, microbatches through them: the layers one after the other on the whole batch.
using namespace lockstep;
using tests::check_arrays;
using tests::check_trees;
using tests::drawn;
using tests::expect_error;
using tests::Replicas;

namespace {

constexpr std::int64_t pipeline_rows = 8, pipeline_features = 5, pipeline_layers = 8;

/// x / |x| behind each layer: of what stands in a stage that waits, its derivative must be finite.
Array through(const Array& weights, const Array& x) {
  const auto layer = [](const Array& h, const Array& w) {
    const Array next = h + tanh(matmul(h, w));
    return std::pair(next / sqrt(sum(square(next), Axes{-1}, true)), Tree());
  };
  return scan(layer, x, weights).first;
}

Array piped(const Array& weights, const Array& x, const PipelineOptions& options, bool again = false) {
  const auto stage = [&](const Array& h) { return through(weights, h); };
  return again ? pipeline(remat(stage), x, options) : pipeline(stage, x, options);
}

PmapOptions along_stages(const Replicas& replicas, std::vector<LeafLayouts> out) {
  return {.mesh = tests::mesh_along("stage", replicas), .in = {sharded("stage"), replicated}, .out = std::move(out)};
}

}  // namespace

TEST_CASE("values and gradients of stages are those of the layers on one device") {
  for (const DType dtype : {float32, float64}) {
    const Array w = drawn(1, {pipeline_layers, pipeline_features, pipeline_features}, dtype),
                x = drawn(2, {pipeline_rows, pipeline_features}, dtype);
    const Array c = drawn(3, {pipeline_rows, pipeline_features}, dtype);
    const Array expected = through(w, x);
    const auto slopes =
        grad([&](const std::pair<Array, Array>& v) { return sum(through(v.first, v.second) * c); })(std::pair(w, x));
    for (const Replicas& replicas : tests::cuts) {
      for (const std::int64_t microbatches : {1, 2, 8}) {
        CAPTURE(replicas.shards);
        CAPTURE(microbatches);
        const PipelineOptions options{.axis = "stage", .microbatches = microbatches};
        const auto mapped = pmap([&](const Array& of_stage, const Array& y) { return piped(of_stage, y, options); },
                                 along_stages(replicas, {replicated}));
        check_arrays(mapped(w, x), expected);
        const auto of_map = [&](const std::pair<Array, Array>& v) { return sum(mapped(v.first, v.second) * c); };
        check_trees(to_tree(jit(grad(of_map))(std::pair(w, x))), to_tree(slopes));
        const auto inside = [&](const Array& of_stage, const Array& y) {
          return grad([&](const std::pair<Array, Array>& v) {
            return sum(piped(v.first, v.second, options, true) * c);
          })(std::pair(of_stage, y));
        };
        check_trees(to_tree(jit(pmap(inside, along_stages(replicas, {sharded("stage"), replicated})))(w, x)),
                    to_tree(slopes));
      }
    }
  }
}

TEST_CASE("trees go through stages, and a pipeline through vmap, scan and a named batch") {
  const Array w = drawn(1, {pipeline_layers, pipeline_features, pipeline_features}, float64),
              x = drawn(2, {pipeline_rows, pipeline_features}, float64);
  const PipelineOptions options{.axis = "stage", .microbatches = 4};
  using Rows = std::pair<Array, Array>;
  const Array numbers = iota({pipeline_rows}, 0);
  const auto of_tree = [&](const Array& of_stage, const Array& y) {
    return pipeline([&](const Rows& r) { return Rows(through(of_stage, r.first), r.second + 1); }, Rows(y, numbers),
                    options);
  };
  const auto [y, count] = pmap(of_tree, along_stages({4, 2}, {replicated}))(w, x);
  check_arrays(y, through(w, x));
  CHECK(count.to_vector<std::int32_t>() == (numbers + 4).to_vector<std::int32_t>());

  const auto twice = [&](const Array& of_stage, const Array& v) {
    const auto round = [&](const Array& h) { return std::pair(piped(of_stage, h, options), Tree()); };
    return scan(round, v, {.length = 2}).first;
  };
  check_arrays(pmap(twice, along_stages({4, 2}, {replicated}))(w, x), through(w, through(w, x)));
  const auto batched = [&](const Array& of_stage, const Array& v) {
    return vmap([&](const Array& u) { return piped(of_stage, u, options); })(v);
  };
  const Array several = drawn(5, {3, pipeline_rows, pipeline_features}, float64);
  check_arrays(pmap(batched, along_stages({4, 2}, {replicated}))(w, several),
               vmap([&](const Array& v) { return through(w, v); })(several));
  const auto named = vmap([&](const Array& of_stage) { return piped(of_stage, x, options); }, {.axis_name = "stage"});
  check_arrays(named(reshape(w, {4, 2, pipeline_features, pipeline_features}))[0], through(w, x));
}

TEST_CASE("rows cut along one axis, stages along another") {
  const Array w = drawn(1, {pipeline_layers, pipeline_features, pipeline_features}, float64),
              x = drawn(2, {pipeline_rows, pipeline_features}, float64);
  const Mesh mesh({{"data", 2}, {"stage", 4}}, tests::cpu_devices(2));
  const auto loss = [](const Array& v, const Array& y) { return sum(square(y + v[0][0])); };
  const auto body = [&](const Array& of_stage, const Array& block) {
    const auto total = [&](const Array& v) {
      const Array y = piped(v, block, {.axis = "stage", .microbatches = 2});
      return psum(sum(square(y)) * sum(psum(v, {"stage"})), {"data"});
    };
    return grad(total)(of_stage);
  };
  static_cast<void>(loss);
  const Array g =
      pmap(body, {.mesh = mesh, .in = {sharded("stage"), sharded("data")}, .out = {sharded("stage")}})(w, x);
  check_arrays(g, grad([&](const Array& v) { return sum(square(through(v, x))) * sum(v); })(w));
}

TEST_CASE("a pipeline costs one send a step and one sum") {
  const Array w = drawn(1, {pipeline_layers, pipeline_features, pipeline_features}, float32),
              x = drawn(2, {pipeline_rows, pipeline_features}, float32);
  const auto mapped = pmap(
      [&](const Array& of_stage, const Array& y) { return piped(of_stage, y, {.axis = "stage", .microbatches = 4}); },
      along_stages({4, 2}, {replicated}));
  const std::int64_t before = collectives_executed();
  static_cast<void>(mapped(w, x));
  CHECK(collectives_executed() - before == 7 + 1);
}

TEST_CASE("what a pipeline refuses") {
  const Array w = ones({4, pipeline_features, pipeline_features}), x = ones({pipeline_rows, pipeline_features});
  const auto refused = [&](const auto& body, const Layout& of_x = replicated) {
    return [&, of_x] {
      pmap(body, {.mesh = tests::mesh_along("stage", {4, 1}), .in = {sharded("stage"), of_x}, .out = {replicated}})(w,
                                                                                                                    x);
    };
  };
  const auto with = [](const PipelineOptions& options) {
    return [options](const Array& v, const Array& y) { return piped(v, y, options); };
  };
  expect_error<MeshError>(refused(with({})), "pipeline: no axis given");
  expect_error<MeshError>(refused(with({.axis = "layers"})), "\"layers\"", "stage");
  expect_error<MeshError>(refused(with({.axis = "stage"}), sharded("stage")),
                          "the input, f32[2,5]{stage}, varies along", "the same rows");
  expect_error<ShapeError>(refused(with({.axis = "stage", .microbatches = 3})), "f32[8,5]", "3 microbatches");
  expect_error<ShapeError>(refused(with({.axis = "stage", .microbatches = 0})), "0 microbatches");
  expect_error<ShapeError>(
      refused([](const Array& v, const Array& y) {
        return pipeline([&](const Array& h) { return matmul(h, sum(v, Axes{0, 2}, true)[0]); }, y, {.axis = "stage"});
      }),
      "a stage is given f32[8,5]{stage} and returns f32[8,1]{stage}", "what they are given");
}
