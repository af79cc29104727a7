#include <doctest/doctest.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>
#include <lockstep/random.h>
#include <lockstep/transforms.h>

#include "tests/support/array_values.h"
#include "tests/support/expect_error.h"

// A layout a leaf: by path, or by a path above.
using namespace lockstep;
using tests::check_same_bits;
using tests::expect_error;

namespace {

const Mesh& mesh() {
  static const Mesh grid({{"data", 2}, {"model", 2}}, devices("cpu:0-1"));
  return grid;
}

Tree nested_weights() {
  const auto layer = [](std::uint64_t seed) {
    return Tree::dict({{"kernel", Tree(random::normal(random::key(seed), {4, 4}))},
                       {"bias", Tree(random::normal(random::key(seed + 9), {4}))}});
  };
  return Tree::dict({{"layers", Tree::list({layer(1), layer(2)})}, {"scale", Tree(array(2.0F))}});
}

}  // namespace

TEST_CASE("each leaf has the layout of the path that it lies below") {
  const Tree w = nested_weights();
  const LeafLayouts layouts = {
      {"layers/*/kernel", sharded("model", 1)}, {"layers/*/bias", sharded({"data", "model"})}, {"scale", replicated}};
  CHECK(layouts.of("layers/1/kernel", "w") == sharded("model", 1));
  CHECK(LeafLayouts(sharded("data")).of("layers/1/kernel", "w") == sharded("data"));
  CHECK(LeafLayouts{{"", sharded("data")}}.of("layers/1/kernel", "w") == sharded("data"));
  CHECK(LeafLayouts{{"layers", sharded("data")}}.of("layers/1/kernel", "w") == sharded("data"));
  std::vector<std::string> seen;
  const auto f = pmap(
      [&](const Tree& v) {
        for (const Array& leaf : v.leaves()) seen.push_back(to_string(leaf.type()));
        return std::pair(v, psum(sum(v.at("layers/0/kernel").array()), {"model"}));
      },
      {.mesh = mesh(), .in = {layouts}, .out = {layouts, replicated}});
  const auto [same, total] = f(w);
  CHECK(seen == std::vector<std::string>{"f32[1]{data,model}", "f32[4,2]{model}", "f32[1]{data,model}",
                                         "f32[4,2]{model}", "f32[]"});
  for (const std::string& path : w.paths()) check_same_bits(same.at(path).array(), w.at(path).array());
  tests::check_equal(total, sum(w.at("layers/0/kernel").array()), 1e-5);
}

TEST_CASE("a leaf without a layout, one with two, and a layout without a leaf are errors that name them") {
  const auto on = [](const LeafLayouts& in, const LeafLayouts& out) {
    pmap([](const Tree& v) { return v; }, {.mesh = mesh(), .in = {in}, .out = {out}})(nested_weights());
  };
  const LeafLayouts all = replicated;
  expect_error<MeshError>(
      [&] {
        on({{"layers", replicated}}, all);
      },
      "pmap: argument 0/scale: no layout", "\"layers\"", "{\"scale\", replicated}");
  expect_error<MeshError>(
      [&] {
        on({{"", replicated}, {"layers/0", sharded("data")}}, all);
      },
      "pmap: argument 0/layers/0/bias: two layouts", "replicated by \"\"", "dimension 0 along data by \"layers/0\"");
  expect_error<MeshError>(
      [&] {
        on({{"layers", replicated}, {"scale", replicated}, {"head", replicated}}, all);
      },
      "pmap: argument 0: the layout replicated is given for \"head\"", "layers/0/bias");
  expect_error<MeshError>([&] { on(all, {{"layers", replicated}}); }, "pmap: result/scale: no layout");
  expect_error<MeshError>(
      [&] {
        on(all, {{"", replicated}, {"scales", replicated}});
      },
      "pmap: result: the layout", "\"scales\"");
  expect_error<MeshError>([] { LeafLayouts({{"a", replicated}, {"a", sharded("data")}}); }, "\"a\" is named twice");
}

TEST_CASE("a tree lies cut leaf by leaf") {
  const Tree w = nested_weights();
  const Tree cut = reshard(
      w, mesh(), {{"layers/*/kernel", sharded("model", 1)}, {"layers/*/bias", replicated}, {"scale", replicated}});
  CHECK(is_cut(cut.at("layers/0/kernel").array()));
  CHECK_FALSE(is_cut(cut.at("layers/0/bias").array()));
  const Tree back = gather(cut);
  for (const std::string& path : w.paths()) check_same_bits(back.at(path).array(), w.at(path).array());
  expect_error<MeshError>([&] { reshard(w, mesh(), {{"layers", replicated}}); }, "reshard/scale: no layout");
}
