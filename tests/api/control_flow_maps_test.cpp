#include <algorithm>

#include <doctest/doctest.h>

#include <lockstep/control_flow.h>
#include <lockstep/error.h>
#include <lockstep/function.h>
#include <lockstep/transforms.h>

#include "tests/support/arange_of.h"
#include "tests/support/array_values.h"
#include "tests/support/expect_error.h"

// Loops and branches inside maps.
using namespace lockstep;
using tests::check_close;
using tests::check_equal;
using tests::check_same_bits;
using tests::expect_error;
using tests::wave;

namespace {

Mesh mesh_of_shards(std::int64_t shards, int devices = 1) {
  std::vector<Device> list;
  for (int i = 0; i < devices; ++i) list.push_back({DeviceKind::cpu, i});
  return Mesh({{"batch", shards}}, list);
}

/// Eager, compiled and evaluated alike, bit for bit, on one device and on two.
template <class MakeF, class... Args>
Array run_on_devices(const MakeF& make, std::int64_t shards, const Args&... args) {
  const auto f = make(mesh_of_shards(shards));
  const Array eager = f(args...);
  check_same_bits(jit(f)(args...), eager);
  check_same_bits(trace_function(f, args...).eval({args...})[0], eager);
  if (shards > 1) check_same_bits(make(mesh_of_shards(shards, 2))(args...), eager);
  return eager;
}

/// The gradient of a loss summed over microbatches in a scan, each shard its own rows.
auto microbatched(const Mesh& mesh) {
  return pmap(
      [](const Array& w, const Array& x) {
        const auto loss = [&](const Array& v) {
          const auto step = [&](const Array& total, const Array& rows) {
            return std::pair(total + sum(tanh(matmul(rows, v))), Tree());
          };
          const Array parts = reshape(x, {4, -1, 3});
          return psum(scan(step, zeros({}, float64), parts).first, {"batch"});
        };
        return grad(loss)(w);
      },
      {.mesh = mesh, .in = {replicated, sharded("batch")}, .out = {replicated}});
}

}  // namespace

TEST_CASE("a weight that a loop of microbatches captures costs one psum a gradient, none in the loop") {
  const Array w = wave({3, 2}), x = wave({32, 3}, 1);
  const Array expected = grad([&](const Array& v) { return sum(tanh(matmul(x, v))); })(w);
  for (const std::int64_t shards : {1, 2, 4}) {
    CAPTURE(shards);
    check_equal(run_on_devices(microbatched, shards, w, x), expected);
  }
  const Function traced = trace_function(microbatched(mesh_of_shards(4)), w, x);
  CHECK(traced.count("psum") <= 2);  // The loss and the gradient; nobody needs the loss.
  CHECK(traced.plan().collectives.at("psum") == 1);
  const auto compiled = jit(microbatched(mesh_of_shards(4)));
  compiled(w, x);
  const std::int64_t before = collectives_executed();
  compiled(w, x);
  CHECK(collectives_executed() - before == 1);
}

TEST_CASE("what a loop makes of a captured weight alone is made varying outside, too") {
  const auto f = [](const Mesh& mesh) {
    return pmap(
        [](const Array& w, const Array& x) {
          const auto loss = [&](const Array& v) {
            const auto step = [&](const Array& c, const Array& row) { return std::pair(c + row * exp(v), c); };
            return psum(sum(scan(step, zeros({3}, float64), x).first), {"batch"});
          };
          return grad(loss)(w);
        },
        {.mesh = mesh, .in = {replicated, sharded("batch")}, .out = {replicated}});
  };
  const Array w = wave({3}), x = wave({8, 3}, 1);
  check_equal(run_on_devices(f, 4, w, x), sum(x, Axes{0}) * exp(w));
  CHECK(trace_function(f(mesh_of_shards(4)), w, x).plan().collectives.at("psum") == 1);
}

TEST_CASE("collectives in a loop: as often as it runs, the same on every mesh") {
  const Array x = wave({8, 3});
  const auto f = [](const Mesh& mesh) {
    return pmap(
        [](const Array& rows) {
          const auto step = [&](const Array& c) {
            const Array mean = psum(sum(c, Axes{0}), {"batch"}) / 8.0;
            return std::pair(c * 0.5 + mean, mean);
          };
          const auto [last, means] = scan(step, rows, {.length = 3});
          return last + sum(means);
        },
        {.mesh = mesh, .in = {sharded("batch")}, .out = {sharded("batch")}});
  };
  const Array one = run_on_devices(f, 1, x);
  for (const std::int64_t shards : {2, 4}) check_equal(run_on_devices(f, shards, x), one);
}

TEST_CASE("a carry that starts invariant becomes varying where the body makes it so") {
  const auto f = [](const Mesh& mesh) {
    return pmap(
        [](const Array& rows) {
          return scan([](const Array& c, const Array& r) { return std::pair(c + r, c); }, zeros({3}, float64), rows)
              .second;
        },
        {.mesh = mesh, .in = {sharded("batch")}, .out = {sharded("batch")}});
  };
  const Array x = wave({8, 3});
  const Array result = run_on_devices(f, 2, x);
  check_close(slice_in_dim(result, 4, 5, 0), {1, 3}, {0, 0, 0});
  check_equal(slice_in_dim(result, 7, 8, 0), sum(slice_in_dim(x, 4, 7, 0), Axes{0}, true));
}

TEST_CASE("cond in a map: each shard takes its own branch") {
  const auto f = [](const Mesh& mesh) {
    return pmap(
        [](const Array& w, const Array& x) {
          const auto loss = [&](const Array& v) {
            const Array mine = cond(
                sum(x) > 0, [&](const Array& r) { return sum(exp(r) * v); },
                [&](const Array& r) { return sum(r * v * v); }, x);
            return psum(mine, {"batch"});
          };
          return grad(loss)(w);
        },
        {.mesh = mesh, .in = {replicated, sharded("batch")}, .out = {replicated}});
  };
  const Array w = wave({3}), x = wave({4, 3}, 0.4);
  const std::vector<double> sums = tests::values(sum(x, Axes{1}));
  const auto whole = [&](const Array& v) {
    Array total = zeros({}, float64);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const Array r = slice_in_dim(x, static_cast<std::int64_t>(i), static_cast<std::int64_t>(i) + 1, 0);
      total = total + (sums[i] > 0 ? sum(exp(r) * v) : sum(r * v * v));
    }
    return total;
  };
  CHECK(std::ranges::any_of(sums, [](double s) { return s > 0; }));
  CHECK(std::ranges::any_of(sums, [](double s) { return s < 0; }));
  check_equal(run_on_devices(f, 4, w, x), grad(whole)(w));
}

TEST_CASE("while_loop in a map: each shard leaves when it is done, or all together") {
  const auto own = [](const Mesh& mesh) {
    return pmap(
        [](const Array& x) {
          return while_loop([](const Array& c) { return sum(c) < 10; }, [](const Array& c) { return c * 2 + 1; }, x);
        },
        {.mesh = mesh, .in = {sharded("batch")}, .out = {sharded("batch")}});
  };
  check_close(run_on_devices(own, 4, array({0.f, 3.f, 20.f, 5.f})), {4}, {15, 15, 20, 11});
  const auto together = [](const Mesh& mesh) {
    return pmap(
        [](const Array& x) {
          return while_loop([](const Array& c) { return psum(sum(c), {"batch"}) < 100; },
                            [](const Array& c) { return c * 2; }, x);
        },
        {.mesh = mesh, .in = {sharded("batch")}, .out = {sharded("batch")}});
  };
  check_close(run_on_devices(together, 4, array({1.f, 3.f, 20.f, 5.f})), {4}, {4, 12, 80, 20});
  expect_error<MeshError>(
      [&] {
        pmap(
            [](const Array& x) {
              return while_loop([](const Array& c) { return sum(c) < 10; },
                                [](const Array& c) { return c + pvary(psum(c, {"batch"}), {"batch"}); }, x);
            },
            {.mesh = mesh_of_shards(4), .in = {sharded("batch")}, .out = {sharded("batch")}})(
            array({0.f, 3.f, 20.f, 5.f}));
      },
      "while_loop", "batch", "pmax");
}
