#include <numbers>

#include <doctest/doctest.h>

#include <lockstep/error.h>
#include <lockstep/function.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>
#include <lockstep/transforms.h>

#include "tests/support/arange_of.h"
#include "tests/support/array_values.h"
#include "tests/support/expect_error.h"
#include "tests/support/replicas.h"

// all_to_all, ppermute and pshuffle: over the replicas of a map, and over a named batch, against plain loops.
using namespace lockstep;
using tests::arange_of;
using tests::check_close;
using tests::check_same_bits;
using tests::expect_error;
using tests::Replicas;
using tests::values;

namespace {

using Routes = std::vector<std::pair<std::int64_t, std::int64_t>>;

/// The blocks [replicas, ...] through `body`, as a map and as a named batch; both give [replicas, ...].
template <class Body>
void check_on_replicas(const Array& blocks, const Body& body, const Array& expected) {
  const auto mapped = [&](int devices) {
    return pmap(
        [&](const Array& v) { return expand_dims(body(squeeze(v, Axes{0})), 0); },
        {.mesh = tests::mesh_of({blocks.dim(0), devices}), .in = {sharded("batch")}, .out = {sharded("batch")}});
  };
  for (const int devices : {1, 2}) {
    if (devices > blocks.dim(0)) continue;
    check_same_bits(mapped(devices)(blocks), expected);
    const auto f = mapped(devices);
    const Function traced = trace_function([&](const Array& v) { return f(v); }, blocks);
    check_same_bits(traced.eval({blocks})[0], expected);
  }
  check_same_bits(vmap([&](const Array& v) { return body(v); }, {.axis_name = "batch"})(blocks), expected);
}

/// all_to_all of blocks [n, rows, columns], element by element.
Array exchanged(const Array& blocks, int split, int concat) {
  const std::int64_t n = blocks.dim(0);
  Shape part = blocks.shape().erase(0);
  part = part.with(split, part[split] / n);
  const Shape whole = part.with(concat, part[concat] * n);
  const std::vector<double> x = values(blocks);
  std::vector<double> y;
  for (std::int64_t r = 0; r < n; ++r) {
    for (std::int64_t i = 0; i < whole[0]; ++i) {
      for (std::int64_t j = 0; j < whole[1]; ++j) {
        std::int64_t at[2] = {i, j};
        const std::int64_t sender = at[concat] / part[concat];
        at[concat] %= part[concat];
        at[split] += r * part[split];
        y.push_back(x[static_cast<std::size_t>((sender * blocks.dim(1) + at[0]) * blocks.dim(2) + at[1])]);
      }
    }
  }
  return array(y, whole.insert(0, n));
}

}  // namespace

TEST_CASE("all_to_all sends every replica its block") {
  for (const std::int64_t n : {1, 2, 4, 8}) {
    const Array blocks = arange_of({n, 8, 16}, float64);
    for (const int split : {0, 1}) {
      for (const int concat : {0, 1}) {
        CAPTURE(n);
        CAPTURE(split);
        CAPTURE(concat);
        const auto body = [&](const Array& v) { return all_to_all(v, "batch", split, concat); };
        check_on_replicas(blocks, body, exchanged(blocks, split, concat));
        const auto there_and_back = [&](const Array& v) {
          return all_to_all(all_to_all(v, "batch", split, concat), "batch", concat, split);
        };
        check_on_replicas(blocks, there_and_back, blocks);
      }
    }
  }
}

TEST_CASE("ppermute sends along the pairs, zeros elsewhere") {
  const Array blocks = arange_of({4, 3}, float64) + 1;
  const auto rows = [&](const std::vector<int>& senders) {
    std::vector<Array> list;
    for (const int sender : senders) {
      list.push_back(sender < 0 ? zeros({3}, float64) : squeeze(slice_in_dim(blocks, sender, sender + 1, 0), Axes{0}));
    }
    return stack(list, 0);
  };
  const auto check = [&](const Routes& pairs, const std::vector<int>& senders) {
    check_on_replicas(
        blocks, [&](const Array& v) { return ppermute(v, "batch", pairs); }, rows(senders));
  };
  check({{0, 1}, {1, 2}, {2, 3}, {3, 0}}, {3, 0, 1, 2});
  check({{0, 1}, {1, 2}, {2, 3}}, {-1, 0, 1, 2});
  check({{3, 0}, {1, 1}}, {3, 1, -1, -1});
  check({{2, 2}}, {-1, -1, 2, -1});
  check({}, {-1, -1, -1, -1});
  check_on_replicas(
      blocks,
      [](const Array& v) {
        return pshuffle(v, "batch", {2, 3, 1, 0});
      },
      rows({2, 3, 1, 0}));
  check_on_replicas(
      arange_of({1, 3}, float64), [](const Array& v) { return ppermute(v, "batch", {}); }, zeros({1, 3}, float64));
  check_on_replicas(
      convert(blocks, int32),
      [](const Array& v) {
        return ppermute(v, "batch", {{0, 3}});
      },
      convert(rows({-1, -1, -1, 0}), int32));
  check_on_replicas(
      blocks > 3,
      [](const Array& v) {
        return ppermute(v, "batch", {{1, 0}});
      },
      rows({1, -1, -1, -1}) > 3);
}

TEST_CASE("the gradient of a shift is the shift back") {
  const Array y = array({0., 1., 2., 3.}) + std::numbers::pi;
  const auto shift = [](const Array& v) { return ppermute(v, "batch", {{0, 1}, {1, 2}, {2, 3}}); };
  const std::vector<double> expected = {std::numbers::pi + 1, std::numbers::pi + 2, std::numbers::pi + 3, 0};
  for (const int devices : {1, 2, 4}) {
    const Mesh mesh = tests::mesh_of({4, devices});
    const auto mapped = pmap(shift, {.mesh = mesh, .in = {sharded("batch")}, .out = {sharded("batch")}});
    check_close(grad([&](const Array& v) { return sum(y * mapped(v)); })(ones({4}, float64)), {4}, expected, 1e-15);
    const auto inside = pmap(
        [&](const Array& weight, const Array& v) {
          return grad([&](const Array& u) { return psum(sum(weight * shift(u)), {"batch"}); })(v);
        },
        {.mesh = mesh, .in = {sharded("batch"), sharded("batch")}, .out = {sharded("batch")}});
    check_close(inside(y, ones({4}, float64)), {4}, expected, 1e-15);
  }
  const auto named = vmap(shift, {.axis_name = "batch"});
  check_close(grad([&](const Array& v) { return sum(y * named(v)); })(ones({4}, float64)), {4}, expected, 1e-15);
}

TEST_CASE("gradients through all_to_all") {
  const Array x = sin(arange_of({4, 8, 4}, float64) * 3), weights = cos(arange_of({4, 2, 16}, float64));
  const auto loss_of = [&](const auto& f) { return [&, f](const Array& v) { return sum(weights * square(f(v))); }; };
  const auto exchange = [](const Array& v) { return all_to_all(v, "batch", 0, 1); };
  const auto named = vmap(exchange, {.axis_name = "batch"});
  const auto plain = [](const Array& v) {
    return reshape(transpose(reshape(v, {4, 4, 2, 4}), Axes{1, 2, 0, 3}), {4, 2, 16});
  };
  const Array expected = grad(loss_of(plain))(x);
  check_same_bits(named(x), plain(x));
  check_close(grad(loss_of(named))(x), x.shape(), values(expected), 1e-12);
  const auto mapped = pmap([&](const Array& v) { return expand_dims(exchange(squeeze(v, Axes{0})), 0); },
                           {.mesh = tests::mesh_of({4, 2}), .in = {sharded("batch")}, .out = {sharded("batch")}});
  check_close(grad(loss_of(mapped))(x), x.shape(), values(expected), 1e-12);
}

TEST_CASE("psum_scatter of a square leaves replica i the sum of column i") {
  for (const std::int64_t n : {2, 4, 8}) {
    const Array rows = arange_of({n, n}, float64);
    check_on_replicas(
        rows, [](const Array& v) { return psum_scatter(v, "batch"); }, reshape(sum(rows, Axes{0}), {n, 1}));
  }
}

TEST_CASE("what exchanges refuse") {
  const auto on_four = [](auto body) {
    return [body] {
      pmap(body, {.mesh = tests::mesh_of({4, 1}), .in = {sharded("batch")}, .out = {sharded("batch")}})(ones({8, 6}));
    };
  };
  expect_error<MeshError>(on_four([](const Array& v) {
                            return pshuffle(v, "batch", {1, 1, 2, 3});
                          }),
                          "pshuffle", "[1, 1, 2, 3] does not represent a permutation", "4 replicas of batch",
                          "ppermute");
  expect_error<MeshError>(on_four([](const Array& v) {
                            return pshuffle(v, "batch", {0, 1});
                          }),
                          "does not represent a permutation");
  expect_error<MeshError>(on_four([](const Array& v) {
                            return ppermute(v, "batch", {{0, 1}, {0, 2}});
                          }),
                          "ppermute", "at most once as a sender");
  expect_error<MeshError>(on_four([](const Array& v) {
                            return ppermute(v, "batch", {{0, 4}});
                          }),
                          "replicas in [0, 4)", "4 is none");
  expect_error<MeshError>(on_four([](const Array& v) { return ppermute(v, "rows", {{0, 1}}); }), "unbound axis");
  expect_error<MeshError>(on_four([](const Array&) {
                            return ppermute(ones({4}), "batch", {{0, 1}});
                          }),
                          "invariant along batch");
  expect_error<ShapeError>(on_four([](const Array& v) { return all_to_all(v, "batch", 1, 0); }), "all_to_all",
                           "multiple of 4");
  expect_error<MeshError>(on_four([](const Array& v) { return all_to_all(v, "rows", 0, 0); }), "unbound axis");
}
