#include <sstream>

#include <doctest/doctest.h>

#include <lockstep/error.h>
#include <lockstep/function.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>
#include <lockstep/random.h>
#include <lockstep/transforms.h>

#include "tests/support/arange_of.h"
#include "tests/support/array_values.h"
#include "tests/support/expect_error.h"

using namespace lockstep;
using tests::arange_of;
using tests::check_close;
using tests::check_same_bits;
using tests::expect_error;

namespace {

struct Affine {
  Array w, b;
};
LOCKSTEP_TREE(Affine, w, b);

/// One axis "batch" of `shards`, on the first `count` processors.
Mesh batch_mesh(std::int64_t shards, int count = 1) {
  std::vector<Device> list;
  for (int i = 0; i < count; ++i) list.push_back({DeviceKind::cpu, i});
  return Mesh({{"batch", shards}}, list);
}

/// Every (V, D) that the tests run under.
std::vector<Mesh> meshes() {
  std::vector<Mesh> list;
  for (const int shards : {1, 2, 4, 8}) {
    for (const int count : {1, 2}) {
      if (count <= shards) list.push_back(batch_mesh(shards, count));
    }
  }
  return list;
}

std::string replicas_text(const Mesh& mesh) {
  return "V=" + std::to_string(mesh.shards()) + " D=" + std::to_string(mesh.devices().size());
}

/// The lines of a printed program that hold a text.
std::vector<std::string> lines_with(const Function& function, std::string_view part) {
  std::vector<std::string> lines;
  std::istringstream stream(function.to_string());
  for (std::string line; std::getline(stream, line);) {
    if (line.find(part) != std::string::npos) lines.push_back(line);
  }
  return lines;
}

}  // namespace

TEST_CASE("axes that cut one dimension number its blocks in their order") {
  const Mesh mesh({{"data", 2}, {"model", 4}}, devices("cpu:0-1"));
  const Array x = arange_of({16, 8});
  const auto blocks = [&](const Layout& layout) {
    return pmap([](const Array& v) { return v * 0.0 + axis_index("data") * 10.0 + axis_index("model"); },
                {.mesh = mesh, .in = {layout}, .out = {layout}})(x);
  };
  const Array by_data = blocks(sharded({"data", "model"}));
  const Array by_model = blocks(sharded({"model", "data"}, 1));
  for (std::int64_t i = 0; i < 8; ++i) {
    CHECK(by_data[2 * i][0].item<float>() == static_cast<float>(i / 4 * 10 + i % 4));
    CHECK(by_model[0][i].item<float>() == static_cast<float>(i % 2 * 10 + i / 2));
  }
  // Cut one way in and another way out, a gradient through both.
  const auto turned = pmap([](const Array& v) { return all_gather(all_gather(sin(v), "model", 1), "data", 1)[0]; },
                           {.mesh = mesh, .in = {sharded({"data", "model"}, 1)}, .out = {sharded({"model", "data"})}});
  const Array w = arange_of({64});
  CHECK(turned(x).shape() == Shape{64});
  const Array gradient = grad([&](const Array& v) { return sum(turned(v) * w, 0); })(x);
  CHECK(gradient.shape() == x.shape());
  expect_error<ShapeError>([&] { blocks(sharded({"data", "model"}, 5)); }, "argument 0", "\"data\", \"model\"");
}

TEST_CASE("collectives mean the same on any mesh") {
  const Array x = arange_of({16, 3});
  for (const Mesh& mesh : meshes()) {
    CAPTURE(replicas_text(mesh));
    const std::int64_t shards = mesh.shards();
    struct Row {
      const char* what;
      std::function<Array(const Array&)> body;
      Layout out;
      Array expected;
    };
    const std::vector<Row> rows = {
        {"identity", [](const Array& v) { return v * 2 + 1; }, sharded("batch"), x * 2 + 1},
        {"psum", [](const Array& v) { return psum(sum(v, Axes{0}), {"batch"}); }, replicated, sum(x, Axes{0})},
        {"pmean", [](const Array& v) { return pmean(mean(v), {"batch"}); }, replicated, mean(x)},
        {"pmax", [](const Array& v) { return pmax(max(v, Axes{0}), {"batch"}); }, replicated, max(x, Axes{0})},
        {"pmin", [](const Array& v) { return pmin(min(v, Axes{0}), {"batch"}); }, replicated, min(x, Axes{0})},
        {"all_gather", [](const Array& v) { return all_gather(v, "batch"); }, sharded("batch"),
         concatenate(std::vector<Array>(static_cast<std::size_t>(shards), x), 0)},
        {"all_gather_invariant", [](const Array& v) { return all_gather_invariant(v, "batch"); }, replicated, x},
        {"all_gather_invariant of columns",
         [](const Array& v) { return all_gather_invariant(transpose(v), "batch", -1); }, replicated, transpose(x)},
        {"psum_scatter",
         [](const Array& v) {
           return psum_scatter(broadcast_to(sum(v, Axes{0}, true), {8, 3}), "batch");
         },
         sharded("batch"), broadcast_to(sum(x, Axes{0}, true), {8, 3})},
        {"axis_index", [](const Array&) { return expand_dims(axis_index("batch"), 0); }, sharded("batch"),
         arange(shards)},
        {"axis_size", [](const Array& v) { return v * static_cast<double>(axis_size("batch")); }, sharded("batch"),
         x * static_cast<double>(shards)},
        {"integers", [](const Array& v) { return psum(sum(convert(v, int32)), {"batch"}); }, replicated,
         sum(convert(x, int32))},
        {"bool", [](const Array& v) { return psum(any(v > 40), {"batch"}); }, replicated,
         sum(any(reshape(x, {shards, -1}) > 40, Axes{1}))},
        {"an invariant result, cut", [](const Array&) { return ones({2}); }, sharded("batch"), ones({2 * shards})},
    };
    for (const Row& row : rows) {
      CAPTURE(row.what);
      const auto f = pmap(row.body, {.mesh = mesh, .in = {sharded("batch")}, .out = {row.out}});
      check_same_bits(f(x), row.expected);
      check_same_bits(jit([&](const Array& v) { return f(v); })(x), row.expected);
      const Function traced = trace_function([&](const Array& v) { return f(v); }, x);
      check_same_bits(traced.eval({x})[0], row.expected);
    }
  }
}

TEST_CASE("the sum over shards is a fixed tree, whatever devices run it") {
  const Array x = sin(convert(arange(64), float32)) * 1e3;
  const auto total = [](const Array& v) { return psum(sum(v), {"batch"}); };
  const Array one = pmap(total, {.mesh = batch_mesh(8, 1), .in = {sharded("batch")}, .out = {replicated}})(x);
  for (const int count : {2, 4, 8}) {
    check_same_bits(pmap(total, {.mesh = batch_mesh(8, count), .in = {sharded("batch")}, .out = {replicated}})(x), one);
  }
  std::vector<float> parts;
  for (const Array& part : split(x, 8, 0)) parts.push_back(sum(part).item<float>());
  const float expected =
      ((parts[0] + parts[1]) + (parts[2] + parts[3])) + ((parts[4] + parts[5]) + (parts[6] + parts[7]));
  CHECK(one.item<float>() == expected);
}

TEST_CASE("psum_scatter gives replica i its column") {
  const Array x = arange_of({4, 4});
  const auto f = pmap([](const Array& v) { return psum_scatter(reshape(v, {4}), "batch"); },
                      {.mesh = batch_mesh(4, 2), .in = {sharded("batch")}, .out = {sharded("batch")}});
  check_close(f(x), {4}, {24, 28, 32, 36});
}

TEST_CASE("trees and scalars in a map; a scalar in a cut argument is replicated") {
  const auto body = [](const std::map<std::string, Array>& batch, const std::vector<Array>& w) {
    return std::tuple(std::map<std::string, Array>{{"y", batch.at("x") * batch.at("scale") + w[0]}},
                      psum(sum(batch.at("x")), {"batch"}));
  };
  for (const Mesh& mesh : meshes()) {
    const auto f =
        pmap(body, {.mesh = mesh, .in = {sharded("batch"), replicated}, .out = {sharded("batch"), replicated}});
    const auto [y, total] = f(std::map<std::string, Array>{{"x", arange_of({8, 2})}, {"scale", array(3.f)}},
                              std::vector<Array>{array({1.f, 2.f})});
    check_same_bits(y.at("y"), arange_of({8, 2}) * 3 + array({1.f, 2.f}));
    check_close(total, {}, {120});
  }
}

TEST_CASE("a map captures arrays") {
  const Array w = array({2.f});
  const auto f = pmap([&](const Array& x) { return x * w; },
                      {.mesh = batch_mesh(4, 2), .in = {sharded("batch")}, .out = {sharded("batch")}});
  check_close(f(arange_of({4})), {4}, {0, 2, 4, 6});
  const auto g = jit([](const Array& x, const Array& v) {
    return pmap([&](const Array& y) { return y * v; },
                {.mesh = batch_mesh(4, 2), .in = {sharded("batch")}, .out = {sharded("batch")}})(x + 1);
  });
  check_close(g(arange_of({4}), array({3.f})), {4}, {3, 6, 9, 12});
}

TEST_CASE("several axes") {
  const Array x = arange_of({4, 4});
  const Mesh mesh({{"batch", 4}, {"model", 2}}, devices("cpu:0-1"));
  const Layout both({{0, "batch"}, {1, "model"}});
  const auto map_with = [&](auto body, const Layout& out) {
    return pmap(body, {.mesh = mesh, .in = {both}, .out = {out}})(x);
  };
  check_same_bits(map_with([](const Array& v) { return v + 1; }, both), x + 1);
  check_close(map_with([](const Array& v) { return psum(sum(v), {"batch", "model"}); }, replicated), {}, {120});
  check_same_bits(map_with([](const Array& v) { return psum(v, {"model"}); }, sharded("batch")),
                  sum(reshape(x, {4, 2, 2}), Axes{1}));
  check_same_bits(map_with([](const Array& v) { return psum(v, {"batch"}); }, sharded("model", 1)),
                  sum(x, Axes{0}, true));
}

TEST_CASE("the gradient of a psum inside a map is counted once") {
  const Array data = array({0.f, 1.f});
  const auto f =
      pmap([](const Array& w,
              const Array& x) { return grad([&](const Array& v) { return psum(sum(v * x), {"batch"}); })(w); },
           {.mesh = batch_mesh(2, 2), .in = {replicated, sharded("batch")}, .out = {replicated}});
  check_close(f(array(1.f), data), {}, {1});
}

TEST_CASE("gradients inside a map equal those of the whole batch, with one reduction a weight") {
  const Affine p{array({0.5f, -1.f, 2.f}), array(0.25f)};
  const Array x = arange_of({16, 3}) * 0.01;
  const auto square_loss = [](const Affine& q, const Array& rows) {
    const Array h = tanh(matmul(rows, q.w) + q.b);
    return sum(square(h)) + sum(rows * q.w) + sum(exp(q.w) * matmul(transpose(rows), h));
  };
  const Affine expected = grad(square_loss)(p, x);
  for (const Mesh& mesh : meshes()) {
    CAPTURE(replicas_text(mesh));
    const auto step = [&](const Affine& q, const Array& rows) {
      return pmap(
          [&](const Affine& r, const Array& shard) {
            return grad([&](const Affine& s) { return psum(square_loss(s, shard), {"batch"}); })(r);
          },
          {.mesh = mesh, .in = {replicated, sharded("batch")}, .out = {replicated}})(q, rows);
    };
    const Affine g = step(p, x);
    check_close(g.w, {3}, tests::values(expected.w), 1e-5);
    check_close(g.b, {}, tests::values(expected.b), 1e-5);
    const Function traced = trace_function(step, p, x);
    CHECK(traced.count("psum") == 4);                  // of the loss, and of the gradients of w, exp(w) and b
    CHECK(traced.plan().collectives.at("psum") == 3);  // nobody asks for the loss
    for (const std::string& line : lines_with(traced, "= psum")) {
      CHECK_MESSAGE((line.find(":f32[] ") != std::string::npos || line.find(":f32[3] ") != std::string::npos), line);
    }
    const std::int64_t before = collectives_executed();
    traced({p.b, p.w, x});
    CHECK(collectives_executed() - before == 3);
  }
}

TEST_CASE("the transpose of a fan-out is one psum, that of a psum none") {
  const auto fan_out = [](const Array& w, const Array& x) {
    return pmap(
        [](const Array& v, const Array& shard) {
          const auto [y, back] = vjp([&](const Array& u) { return shard * u; }, v);
          return std::get<0>(back(y));
        },
        {.mesh = batch_mesh(4), .in = {replicated, sharded("batch")}, .out = {replicated}})(w, x);
  };
  CHECK(trace_function(fan_out, array(1.f), arange_of({4})).count("psum") == 1);
  check_close(fan_out(array(2.f), arange_of({4})), {}, {28});
  const auto fan_in = [](const Array& x) {
    return pmap(
        [](const Array& shard) {
          const auto [y, back] = vjp([](const Array& u) { return psum(u, {"batch"}); }, shard);
          return std::get<0>(back(ones_like(y)));
        },
        {.mesh = batch_mesh(4), .in = {sharded("batch")}, .out = {sharded("batch")}})(x);
  };
  const Function traced = trace_function(fan_in, arange_of({4}));
  CHECK(traced.plan().collectives.count("psum_scatter") == 0);
  CHECK(traced.count("psum") == 1);  // the forward one
  check_close(fan_in(arange_of({4})), {4}, {1, 1, 1, 1});
}

TEST_CASE("derivatives of collectives inside a map") {
  struct Row {
    const char* what;
    std::function<Array(const Array&)> function;
    std::vector<double> expected;
  };
  const Array x = array({1.f, 4.f, 2.f, 3.f});
  const Array weights = array({1.f, 10.f, 100.f, 1000.f});
  const std::vector<Row> rows = {
      {"pmean", [](const Array& v) { return pmean(sum(v * v), {"batch"}); }, {0.5, 2, 1, 1.5}},
      {"pmax", [](const Array& v) { return pmax(max(v), {"batch"}); }, {0, 1, 0, 0}},
      {"pmin", [](const Array& v) { return pmin(min(v), {"batch"}); }, {1, 0, 0, 0}},
      {"all_gather",
       [&](const Array& v) { return psum(sum(all_gather(v, "batch") * weights), {"batch"}); },
       {4, 40, 400, 4000}},
      {"all_gather_invariant",
       [&](const Array& v) { return sum(all_gather_invariant(v, "batch") * weights); },
       {1, 10, 100, 1000}},
      {"psum_scatter",
       [&](const Array& v) { return psum(sum(psum_scatter(broadcast_to(v, {4}) * weights, "batch")), {"batch"}); },
       {1111, 1111, 1111, 1111}},
  };
  for (const int count : {1, 2}) {
    for (const Row& row : rows) {
      CAPTURE(row.what);
      const auto f = pmap([&](const Array& v) { return grad(row.function)(v); },
                          {.mesh = batch_mesh(4, count), .in = {sharded("batch")}, .out = {sharded("batch")}});
      check_close(f(x), {4}, row.expected);
    }
  }
}

TEST_CASE("a varying loss of invariant weights is an error before anything runs") {
  const auto f =
      pmap([](const Array& w, const Array& x) { return grad([&](const Array& v) { return sum(v * x); })(w); },
           {.mesh = batch_mesh(2), .in = {replicated, sharded("batch")}, .out = {replicated}});
  expect_error<MeshError>([&] { f(array(1.f), ones({2})); }, "f32[]{batch}", "argument 0", "psum the loss", "Weighted");
}

TEST_CASE("what a map refuses") {
  const auto identity = [](const Array& x) { return x; };
  const auto mapped = [](auto body, const Layout& in, const Layout& out) {
    return pmap(body, {.mesh = batch_mesh(4), .in = {in}, .out = {out}});
  };
  expect_error<ShapeError>(
      [&] {
        mapped(identity, sharded("batch"), sharded("batch"))(ones({6, 2}));
      },
      "argument 0", "extent 6", "4 shards", "pad it to 8");
  expect_error<ShapeError>([&] { mapped(identity, sharded("batch", 3), replicated)(ones({4})); }, "argument 0",
                           "dimension 3");
  expect_error<MeshError>([&] { mapped(identity, sharded("rows"), replicated)(ones({4})); }, "\"rows\"", "batch=4");
  expect_error<MeshError>([&] { mapped(identity, sharded("batch"), replicated)(ones({4})); }, "result", "f32[1]{batch}",
                          "\"batch\"", "psum", "sharded(\"batch\")");
  expect_error<MeshError>(
      [&] {
        pmap([](const Array& x) { return std::pair(psum(x, {"batch"}), x); },
             {.mesh = batch_mesh(4), .in = {sharded("batch")}, .out = {replicated, replicated}})(ones({4}));
      },
      "result 1", "{batch}");
  expect_error<MeshError>(
      [&] {
        pmap(identity, {.mesh = batch_mesh(4), .in = {sharded("batch")}, .out = {replicated, replicated}})(ones({4}));
      },
      "2 layouts in `out`");
  expect_error<MeshError>([&] { pmap(identity, {.mesh = batch_mesh(4), .out = {replicated}})(ones({4})); },
                          "0 layouts in `in` for 1 arguments");
  expect_error<MeshError>([&] { pmap(identity, {.mesh = batch_mesh(4), .in = {replicated}})(ones({4})); },
                          "`out` is empty");
  expect_error<MeshError>([&] { pmap(identity, {.in = {replicated}, .out = {replicated}})(ones({4})); }, "no mesh");
  expect_error<MeshError>(
      [&] {
        mapped([&](const Array& x) { return mapped([](const Array& y) { return y; }, replicated, replicated)(x); },
               sharded("batch"), sharded("batch"))(ones({4}));
      },
      "a map inside a map", "batch", "Give one pmap a mesh with the axes of both", "Mesh({{\"outer\", n}",
      "call the inner function in place of its map");
}

TEST_CASE("what collectives refuse") {
  const auto in_map = [](auto body) {
    pmap(body, {.mesh = batch_mesh(4), .in = {sharded("batch")}, .out = {replicated}})(ones({4, 4}));
  };
  expect_error<MeshError>([&] { in_map([](const Array& x) { return psum(psum(x, {"batch"}), {"batch"}); }); }, "psum",
                          "invariant", "axis_size");
  expect_error<MeshError>([&] { in_map([](const Array&) { return pmax(ones({2}), {"batch"}); }); }, "pmax",
                          "invariant");
  expect_error<MeshError>([&] { in_map([](const Array&) { return pmean(ones({2}), {"batch"}); }); }, "invariant");
  expect_error<MeshError>([&] { in_map([](const Array& x) { return psum(x, {"rows"}); }); }, "psum", "\"rows\"",
                          "batch");
  expect_error<MeshError>([&] { in_map([](const Array& x) { return all_gather(x, "rows"); }); }, "rows", "batch");
  expect_error<ShapeError>([&] { in_map([](const Array& x) { return all_gather(x, "batch", 2); }); }, "all_gather");
  expect_error<ShapeError>([&] { in_map([](const Array& x) { return psum_scatter(x, "batch"); }); }, "psum_scatter");
}

TEST_CASE("what is not reduced yet is not taken for the whole") {
  const Array x = ones({4});
  const auto of_part = [](const Array& v) { return sin(sum(v)); };
  expect_error<MeshError>(
      [&] { pmap(of_part, {.mesh = batch_mesh(4), .in = {sharded("batch")}, .out = {replicated}})(x); },
      "f32[]{batch}, made by sin", "replicas along \"batch\" may differ", "Reduce it (psum");
  const auto slope = [&](const Array& w, const Array& v) {
    return grad([&](const Array& u) { return of_part(u * v); })(w);
  };
  expect_error<MeshError>(
      [&] {
        pmap(slope, {.mesh = batch_mesh(4), .in = {replicated, sharded("batch")}, .out = {replicated}})(array(1.f), x);
      },
      "value_and_grad: the loss f32[]{batch} varies along", "psum the loss");
}

TEST_CASE("a result that is promised to be the same but varies along two axes") {
  const Mesh mesh({{"x", 2}, {"y", 2}, {"z", 2}}, devices("cpu:0"));
  const auto f = pmap([](const Array& v) { return psum(v, {"x"}); },
                      {.mesh = mesh, .in = {Layout({{0, "x"}, {1, "y"}, {2, "z"}})}, .out = {replicated}});
  expect_error<MeshError>(
      [&] {
        f(ones({2, 2, 2}));
      },
      "made by psum", "along \"y,z\" may differ", "cuts it along no axis, promises");
}

TEST_CASE("a collective outside of any map names the axis and what to do") {
  expect_error<MeshError>([] { psum(ones({2}), {"x"}); }, "psum", "\"x\"", "pmap");
  expect_error<MeshError>([] { jit([](const Array& v) { return psum(v, {"x"}); })(ones({2})); }, "psum", "\"x\"",
                          "pmap");
  expect_error<MeshError>([] { axis_index("x"); }, "\"x\"", "pmap");
  expect_error<MeshError>([] { axis_size("x"); }, "axis_size", "\"x\"", "pmap");
  expect_error<MeshError>([] { pmean(ones({2}), {"x"}); }, "\"x\"");
  CHECK(bound_axes().empty());
  check_close(psum(ones({2}), {}), {2}, {1, 1});
  check_close(pmean(array({3, 4}), {}), {2}, {3, 4});
}

TEST_CASE("draws in a map") {
  const Array key = random::key(21);
  for (const Mesh& mesh : meshes()) {
    CAPTURE(replicas_text(mesh));
    const random::Placement cut{.cut = random::Cut{0, {"batch"}}};
    const auto map_with = [&](auto body, const Layout& out) {
      return pmap(body, {.mesh = mesh, .in = {replicated}, .out = {out}})(key);
    };
    const std::int64_t rows = 16 / mesh.shards();
    check_same_bits(map_with(
                        [&](const Array& k) {
                          return random::uniform(k, {rows, 3}, float32, 0.0, 1.0, cut);
                        },
                        sharded("batch")),
                    random::uniform(key, {16, 3}));
    check_same_bits(map_with(
                        [&](const Array& k) {
                          return random::bernoulli(k, 0.3, {rows, 3}, cut);
                        },
                        sharded("batch")),
                    random::bernoulli(key, 0.3, {16, 3}));
    check_same_bits(
        map_with([&](const Array& k) { return random::normal(k, {4}, float32, random::same_on_all); }, replicated),
        random::normal(key, {4}));
    const Array folded = map_with(
        [](const Array& k) {
          return random::bits(random::fold_in(k, axis_index("batch")), {1, 4});
        },
        sharded("batch"));
    for (std::int64_t i = 0; i < mesh.shards(); ++i) {
      check_same_bits(slice_in_dim(folded, i, i + 1, 0), random::bits(random::fold_in(key, i), {1, 4}));
    }
  }
}

TEST_CASE("blocks of every kind of draw are those of the whole") {
  const Array key = random::key(23);
  const random::Placement cut{.cut = random::Cut{0, {"batch"}}};
  const Array logits = log(array({0.1f, 0.2f, 0.7f}));
  const auto check = [&](const auto& draw) {
    for (const Mesh& mesh : meshes()) {
      CAPTURE(replicas_text(mesh));
      const std::int64_t rows = 16 / mesh.shards();
      const auto mapped = pmap(
          [&](const Array& k) {
            return draw(k, Shape{rows, 3}, cut);
          },
          {.mesh = mesh, .in = {replicated}, .out = {sharded("batch")}});
      check_same_bits(mapped(key), draw(key, Shape{16, 3}, random::Placement{}));
    }
  };
  using Place = random::Placement;
  check([](const Array& k, const Shape& s, const Place& p) { return random::gamma(k, 0.7, s, float32, p); });
  check([](const Array& k, const Shape& s, const Place& p) { return random::beta(k, 2.0, 0.5, s, float32, p); });
  check([](const Array& k, const Shape& s, const Place& p) { return random::poisson(k, 12.0, s, int32, p); });
  check([](const Array& k, const Shape& s, const Place& p) { return random::binomial(k, 30, 0.4, s, float32, p); });
  check([](const Array& k, const Shape& s, const Place& p) { return random::randint(k, s, 0, 100, int32, p); });
  check([](const Array& k, const Shape& s, const Place& p) { return random::maxwell(k, s, float32, p); });
  check([](const Array& k, const Shape& s, const Place& p) { return random::t(k, 3.0, s, float32, p); });
  check(
      [&](const Array& k, const Shape& s, const Place& p) { return random::categorical(k, logits, {.shape = s}, p); });
  check([&](const Array& k, const Shape& s, const Place& p) {
    return random::dirichlet(k, array({2.f, 1.f}), s, float32, p);
  });
  check([&](const Array& k, const Shape& s, const Place& p) {
    return random::choice(k, 3, s, {.p = array({1.f, 2.f, 3.f})}, p);
  });
}

TEST_CASE("a cut of an inner dimension and of several axes") {
  const Array key = random::key(22);
  const Mesh mesh({{"batch", 2}, {"model", 4}}, devices("cpu:0-1"));
  const random::Placement inner{.cut = random::Cut{1, {"model"}}};
  const auto f = pmap(
      [&](const Array& k) {
        return random::bits(k, {3, 2}, 32, inner);
      },
      {.mesh = mesh, .in = {replicated}, .out = {sharded("model", 1)}});
  // The cut dimension counts as the outermost one.
  check_same_bits(f(key), transpose(random::bits(key, {8, 3})));
  const random::Placement both{.cut = random::Cut{0, {"batch", "model"}}};
  const auto g = pmap(
      [&](const Array& k) {
        return all_gather_invariant(all_gather(random::bits(k, {2}, 32, both), "model"), "batch");
      },
      {.mesh = mesh, .in = {replicated}, .out = {sharded("model")}});
  check_same_bits(slice_in_dim(g(key), 0, 16, 0), random::bits(key, {16}));
}

TEST_CASE("a draw in a map must say how replicas differ") {
  const auto draw_with = [](const random::Placement& placement) {
    pmap([&](const Array& k) { return random::uniform(k, {2}, float32, 0.0, 1.0, placement); },
         {.mesh = batch_mesh(2), .in = {replicated}, .out = {sharded("batch")}})(random::key(1));
  };
  expect_error<MeshError>([&] { draw_with({}); }, "random::uniform", "batch", "Cut", "same_on_all", "axis_index");
  expect_error<MeshError>([&] { draw_with({.cut = random::Cut{0, {"rows"}}}); }, "\"rows\"");
  expect_error<MeshError>([&] { draw_with({.cut = random::Cut{0, {"batch"}}, .same_on_all = true}); }, "not both");
  expect_error<MeshError>(
      [] {
        random::uniform(random::key(1), {2}, float32, 0.0, 1.0, {.cut = random::Cut{0, {"batch"}}});
      },
      "\"batch\"", "pmap");
}
