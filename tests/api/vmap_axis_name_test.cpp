#include <functional>
#include <tuple>
#include <utility>

#include <doctest/doctest.h>

#include <lockstep/control_flow.h>
#include <lockstep/custom_derivatives.h>
#include <lockstep/error.h>
#include <lockstep/function.h>
#include <lockstep/layers.h>
#include <lockstep/model.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>
#include <lockstep/random.h>
#include <lockstep/scientific/solvers.h>
#include <lockstep/transforms.h>

#include "tests/support/array_values.h"
#include "tests/support/counted.h"
#include "tests/support/expect_error.h"
#include "tests/support/replicas.h"

// Collectives over the batch of a vmap, against formulas on the whole batch.
using namespace lockstep;
using tests::check_close;
using tests::check_equal;
using tests::check_same_bits;
using tests::counted;
using tests::expect_error;
using tests::values;

namespace {

Array repeated(const Array& x, std::int64_t count) {
  return broadcast_to(expand_dims(x, 0), x.shape().insert(0, count));
}

/// Three examples of four rows of six numbers.
constexpr std::int64_t examples = 3;

}  // namespace

TEST_CASE("collectives over the batch's name") {
  const Array x = counted({examples, 6, 2});
  struct Row {
    const char* what;
    std::function<Array(const Array&)> body;
    Array expected;
  };
  const Array joined = reshape(x, {examples * 6, 2});
  const Array columns = reshape(swapaxes(x, 0, 1), {6, examples * 2});
  const std::vector<Row> rows = {
      {"psum", [](const Array& v) { return psum(v, {"i"}); }, repeated(sum(x, Axes{0}), examples)},
      {"pmean", [](const Array& v) { return v - pmean(v, {"i"}); }, x - mean(x, Axes{0})},
      {"pmax", [](const Array& v) { return v * pmax(v, {"i"}); }, x * max(x, Axes{0})},
      {"pmin", [](const Array& v) { return pmin(v, {"i"}) + v; }, min(x, Axes{0}) + x},
      {"all_gather", [](const Array& v) { return all_gather(v, "i"); }, repeated(joined, examples)},
      {"all_gather of columns", [](const Array& v) { return all_gather(v, "i", 1); }, repeated(columns, examples)},
      {"all_gather_invariant", [](const Array& v) { return all_gather_invariant(v, "i", -2); },
       repeated(joined, examples)},
      {"psum_scatter", [](const Array& v) { return psum_scatter(v, "i"); }, reshape(sum(x, Axes{0}), {examples, 2, 2})},
      {"axis_index", [](const Array& v) { return v * axis_index("i"); },
       x * reshape(convert(arange(examples), float64), {examples, 1, 1})},
      {"axis_size", [](const Array& v) { return v * static_cast<double>(axis_size("i")); }, x * 3},
      {"pvary of what is not batched", [](const Array&) { return psum(pvary(ones({2}, float64), {"i"}), {"i"}); },
       full({examples, 2}, 3.0, float64)},
      {"pmax of what is not batched", [](const Array&) { return pmax(pvary(ones({2}, float64), {"i"}), {"i"}); },
       ones({examples, 2}, float64)},
      {"all_gather of what is not batched", [](const Array&) { return all_gather(pvary(ones({2}), {"i"}), "i"); },
       ones({examples, 6})},
      {"psum_scatter of what is not batched", [](const Array&) { return psum_scatter(pvary(ones({6}), {"i"}), "i"); },
       full({examples, 2}, 3.F)},
      {"integers", [](const Array& v) { return psum(convert(v > 0, int32), {"i"}); },
       repeated(sum(convert(x > 0, int32), Axes{0}), examples)},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const auto f = vmap(row.body, {.axis_name = "i"});
    check_equal(f(x), row.expected);
    check_equal(jit([&](const Array& v) { return f(v); })(x), row.expected);
    const Function traced = trace_function([&](const Array& v) { return f(v); }, x);
    check_equal(traced.eval({x})[0], row.expected);
  }
}

TEST_CASE("names nest") {
  const Array x = counted({2, examples, 4});
  const auto inner = [](const Array& v) {
    return std::tuple(psum(v, {"i"}), psum(v, {"j"}), psum(v, {"i", "j"}), v * axis_index("j") + axis_index("i"));
  };
  const auto f = vmap([&](const Array& v) { return vmap(inner, {.axis_name = "i"})(v); }, {.axis_name = "j"});
  const auto [over_i, over_j, over_both, numbers] = f(x);
  check_equal(over_i, broadcast_to(sum(x, Axes{1}, true), x.shape()));
  check_equal(over_j, broadcast_to(sum(x, Axes{0}, true), x.shape()));
  check_equal(over_both, broadcast_to(sum(x, Axes{0, 1}, true), x.shape()));
  const Array j = reshape(convert(arange(2), float64), {2, 1, 1}), i = reshape(convert(arange(3), float64), {1, 3, 1});
  check_equal(numbers, x * j + i);
}

TEST_CASE("a named vmap inside a map, and one axis of each in a psum") {
  const Array x = counted({8, examples, 2});
  for (const tests::Replicas& replicas : tests::replica_counts) {
    const auto body = [](const Array& rows) {
      return vmap(
          [](const Array& v) {
            return std::pair(psum(sum(v), {"i", "batch"}), v - pmean(pmean(mean(v, Axes{0}), {"i"}), {"batch"}));
          },
          {.in_axes = {1}, .out_axis = 0, .axis_name = "i"})(rows);
    };
    const auto [total, centered] =
        pmap(body,
             {.mesh = tests::mesh_of(replicas), .in = {sharded("batch")}, .out = {replicated, sharded("batch", 1)}})(x);
    check_equal(total, repeated(sum(x), examples));
    check_equal(centered, moveaxis(x - mean(x, Axes{0, 1}), 1, 0));
  }
}

TEST_CASE("derivatives through a psum over the batch") {
  const Array x = counted({examples, 4}), w = counted({4}) + 2;
  const auto shared = [](const Array& weights, const Array& v) {
    const Array y = tanh(weights * v);
    return y - pmean(y, {"i"}) * psum(sum(square(v)), {"i"});
  };
  const auto formula = [](const Array& weights, const Array& all) {
    const Array y = tanh(weights * all);
    return sum(pow(y - mean(y, Axes{0}) * sum(square(all)), 3));
  };
  const auto loss = [&](const Array& weights, const Array& all) {
    return sum(pow(vmap(shared, {.in_axes = {std::nullopt, 0}, .axis_name = "i"})(weights, all), 3));
  };
  check_equal(loss(w, x), formula(w, x));
  check_equal(grad<0>(loss)(w, x), grad<0>(formula)(w, x));
  check_equal(grad<1>(loss)(w, x), grad<1>(formula)(w, x));

  // Inside: the gradient of the whole batch's loss, once for all examples.
  const auto total = [](const Array& weights, const Array& v) { return psum(sum(square(tanh(weights * v))), {"i"}); };
  const Array inside = vmap([&](const Array& weights, const Array& v) { return grad<0>(total)(weights, v); },
                            {.in_axes = {std::nullopt, 0}, .axis_name = "i"})(w, x);
  const Array whole = grad([&](const Array& weights) { return sum(square(tanh(weights * x))); })(w);
  check_equal(inside, repeated(whole, examples));
  const Array of_rows = vmap([&](const Array& v) { return grad<1>(total)(w, v); }, {.axis_name = "i"})(x);
  check_equal(of_rows, grad([&](const Array& all) { return sum(square(tanh(w * all))); })(x));
  const auto largest = [](const Array& v) { return psum(sum(v * pmax(v, {"i"})), {"i"}); };
  check_equal(vmap([&](const Array& v) { return grad(largest)(v); }, {.axis_name = "i"})(x),
              grad([](const Array& all) { return sum(all * max(all, Axes{0})); })(x));
}

TEST_CASE("BatchNorm over a named batch is synchronized BatchNorm") {
  const Model model([](Scope& scope, const Array& x) { return batch_norm(scope["norm"], x, {}); });
  const Array x = convert(counted({8, 3}), float32);
  const auto [trainable, state] = model.init(random::key(1), x.type());
  const auto whole = model.stateless_call(trainable, state, x, true);
  const Array blocks = reshape(x, {4, 2, 3});
  const auto [y, next] = vmap([&](const Array& v) { return model.stateless_call(trainable, state, v, true); },
                              {.axis_name = "replicas"})(blocks);
  check_close(y, {4, 2, 3}, values(whole.first), 1e-6);
  for (const std::string& path : whole.second.paths()) {
    const Array& expected = whole.second.at(path).array();
    CAPTURE(path);
    check_close(next.at(path).array(), expected.shape().insert(0, 4), values(repeated(expected, 4)), 1e-6);
  }
}

TEST_CASE("a backward rule gives the cotangent of what all examples share once, whatever made that") {
  const auto product = custom_vjp([](const Array& a, const Array& b) { return a * b; },
                                  [](const Array& a, const Array& b) { return std::pair(a * b, std::pair(a, b)); },
                                  [](const std::pair<Array, Array>& kept, const Array& cotangent) {
                                    return std::tuple(cotangent * kept.second, psum(cotangent * kept.first, {"i"}));
                                  });
  const auto total = custom_vjp([](const Array& a, const Array& b) { return psum(a, {"i"}) * b; },
                                [](const Array& a, const Array& b) {
                                  const Array s = psum(a, {"i"});
                                  return std::pair(s * b, std::pair(s, b));
                                },
                                [](const std::pair<Array, Array>& kept, const Array& cotangent) {
                                  return std::tuple(pvary(cotangent * kept.second, {"i"}), cotangent * kept.first);
                                });
  // What makes the shared factor of v, and its derivative; x is 0.5, 1, 2.
  using Maker = std::function<Array(const Array& x, const Array& v)>;
  const std::vector<std::pair<Maker, double>> makers = {
      {[](const Array&, const Array& v) { return v * 2.0; }, 2},
      {[](const Array& x, const Array& v) {
         return cond(
             v > 0.0, [](const Array&, const Array& b) { return b * 2.0; },
             [](const Array& a, const Array& b) { return b + psum(a, {"i"}); }, x, v);
       },
       2},
      {[](const Array& x, const Array& v) {
         return fori_loop(
             0, 3, [&](const Array&, const Array& b) { return b * psum(x, {"i"}); }, v);
       },
       3.5 * 3.5 * 3.5},
      {[&](const Array& x, const Array& v) { return total(x, v); }, 3.5},
      {[](const Array& x, const Array& v) { return cg([](const Array& b) { return b * 4.0; }, v * psum(x, {"i"})); },
       3.5 / 4}};
  const Array x = array({0.5, 1.0, 2.0});
  for (std::size_t i = 0; i < makers.size(); ++i) {
    CAPTURE(i);
    const auto loss = [&](const Array& v) {
      const auto f = [&](const Array& a) { return psum(product(a, makers[i].first(a, v)), {"i"}); };
      return sum(vmap(f, {.axis_name = "i"})(x)) / 3.0;
    };
    check_close(grad(loss)(array(1.5)), Shape{}, {3.5 * makers[i].second}, 1e-9);
    check_close(jit(grad(loss))(array(1.5)), Shape{}, {3.5 * makers[i].second}, 1e-9);
  }
}

TEST_CASE("a draw cut along the batch's name is a block of the whole draw") {
  const Array key = random::key(3);
  const Array whole = random::uniform(key, {6, 2});
  const auto block = [&](const Array&) {
    return random::uniform(key, {2, 2}, float32, 0, 1, {.cut = random::Cut{.dim = 0, .axes = {"i"}}});
  };
  check_same_bits(reshape(vmap(block, {.axis_name = "i"})(ones({3})), {6, 2}), whole);
  expect_error<MeshError>(
      [&] { vmap([&](const Array&) { return random::uniform(key, {2}); }, {.axis_name = "i"})(ones({3})); },
      "must say how replicas differ");
}

TEST_CASE("what named batches refuse") {
  const Array x = ones({3});
  const VmapOptions named{.axis_name = "i"};
  expect_error<MeshError>([&] { vmap([](const Array& v) { return psum(v, {"j"}); }, named)(x); }, "unbound axis",
                          "\"j\"", "i=3", "vmap with this axis_name");
  expect_error<MeshError>([&] { vmap([](const Array&) { return psum(ones({2}), {"i"}); }, named)(x); }, "psum",
                          "invariant along i", "axis_size");
  expect_error<MeshError>([&] { vmap([](const Array& v) { return psum(psum(v, {"i"}), {"i"}); }, named)(x); },
                          "invariant along i");
  expect_error<MeshError>(
      [&] {
        vmap([&](const Array& v) { return vmap([](const Array& u) { return u; }, named)(v); }, named)(ones({3, 3}));
      },
      "axis 'i' is bound already");
  const Array w = ones({});
  expect_error<MeshError>(
      [&] { vmap([&](const Array& v) { return grad([&](const Array& u) { return u * v; })(w); }, named)(x); },
      "varies along \"i\"", "psum the loss");
  const auto mapped =
      pmap([](const Array& v) { return v; }, {.mesh = tests::mesh_of({1, 1}), .in = {replicated}, .out = {replicated}});
  expect_error<MeshError>([&] { vmap([&](const Array& v) { return mapped(v); }, named)(x); },
                          "a map inside a map over i", "vmap inside the map");
}
