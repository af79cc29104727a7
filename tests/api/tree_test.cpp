#include <doctest/doctest.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/tree.h>

#include "tests/support/array_values.h"
#include "tests/support/expect_error.h"

using namespace lockstep;
using tests::check_close;
using tests::expect_error;

namespace trees {

struct Layer {
  Array w, b;
};
LOCKSTEP_TREE(Layer, w, b);

struct Network {
  std::vector<Layer> layers;
  std::map<std::string, Array> named;
  std::pair<Array, int> scaled;
  std::tuple<Array, bool, std::string> mixed;
  std::optional<Array> extra;
  Layer head;
};
LOCKSTEP_TREE(Network, layers, named, scaled, mixed, extra, head);

struct Nothing {};
LOCKSTEP_TREE(Nothing);

struct Wide {
  Array m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21, m22, m23,
      m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37, m38, m39, m40, m41, m42, m43, m44, m45, m46,
      m47, m48, m49, m50, m51, m52, m53, m54, m55, m56, m57, m58, m59, m60, m61, m62, m63;
};
LOCKSTEP_TREE(Wide, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21,
              m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37, m38, m39, m40, m41, m42,
              m43, m44, m45, m46, m47, m48, m49, m50, m51, m52, m53, m54, m55, m56, m57, m58, m59, m60, m61, m62, m63);

#define LOCKSTEP_TEST_TEN(m) m##0, m##1, m##2, m##3, m##4, m##5, m##6, m##7, m##8, m##9
#define LOCKSTEP_TEST_HUNDRED(m)                                                                          \
  LOCKSTEP_TEST_TEN(m##0), LOCKSTEP_TEST_TEN(m##1), LOCKSTEP_TEST_TEN(m##2), LOCKSTEP_TEST_TEN(m##3),     \
      LOCKSTEP_TEST_TEN(m##4), LOCKSTEP_TEST_TEN(m##5), LOCKSTEP_TEST_TEN(m##6), LOCKSTEP_TEST_TEN(m##7), \
      LOCKSTEP_TEST_TEN(m##8), LOCKSTEP_TEST_TEN(m##9)
struct Widest {
  int LOCKSTEP_TEST_HUNDRED(a), LOCKSTEP_TEST_TEN(b0), LOCKSTEP_TEST_TEN(b1), c0, c1, c2, c3, c4, c5, c6, c7;
};
LOCKSTEP_TREE(Widest, LOCKSTEP_TEST_HUNDRED(a), LOCKSTEP_TEST_TEN(b0), LOCKSTEP_TEST_TEN(b1), c0, c1, c2, c3, c4, c5,
              c6, c7);
#undef LOCKSTEP_TEST_TEN
#undef LOCKSTEP_TEST_HUNDRED

Network network() {
  return {{{array(1.f), array(2.f)}, {array(3.f), array(4.f)}},
          {{"z", array(6.f)}, {"a", array(5.f)}},
          {array(7.f), 8},
          {array(9.f), true, "tanh"},
          std::nullopt,
          {array(10.f), array(11.f)}};
}

Tree dict() {
  return Tree::dict({{"conv", Tree::dict({{"kernel", Tree(ones({3, 3}))}, {"bias", Tree(zeros({3}))}})},
                     {"rate", Tree(StaticValue(0.5))},
                     {"list", Tree::list({Tree(array(1)), Tree()})}});
}

}  // namespace trees

TEST_CASE("C++ types flatten to trees and back") {
  const Tree tree = to_tree(trees::network());
  CHECK(tree.size() == 10);
  CHECK(tree.paths() == std::vector<std::string>{"head/b", "head/w", "layers/0/b", "layers/0/w", "layers/1/b",
                                                 "layers/1/w", "mixed/0", "named/a", "named/z", "scaled/0"});
  CHECK(tree.at("layers/1/w").array().item<float>() == 3);
  CHECK(tree.at("extra").kind() == Tree::Kind::none);
  const auto back = from_tree<trees::Network>(tree);
  CHECK(back.layers.size() == 2);
  CHECK(back.layers[1].b.item<float>() == 4);
  CHECK(back.named.at("a").item<float>() == 5);
  CHECK(back.scaled.second == 8);
  CHECK(std::get<1>(back.mixed) == true);
  CHECK(std::get<2>(back.mixed) == "tanh");
  CHECK(!back.extra.has_value());
  CHECK(back.head.w.item<float>() == 10);
  const Tree full = to_tree(std::optional<Array>(array(1.f)));
  CHECK(from_tree<std::optional<Array>>(full).has_value());
}

TEST_CASE("structs with no member, with 64 and with as many as there may be") {
  CHECK(to_tree(trees::Nothing()).size() == 0);
  CHECK(to_tree(trees::Nothing()).kind() == Tree::Kind::dict);
  trees::Wide wide;
  float number = 0;
  lockstep_visit_members(wide, [&](const char*, Array& member) { member = array(number++); });
  const Tree tree = to_tree(wide);
  CHECK(tree.size() == 64);
  check_close(tree.at("m63").array(), {}, {63});
  const auto back = from_tree<trees::Wide>(tree);
  check_close(back.m22, {}, {22});
  check_close(back.m63, {}, {63});
  trees::Widest widest{};
  widest.c7 = 5;
  const Tree most = to_tree(widest);
  CHECK(most.entries().size() == 128);
  CHECK(from_tree<trees::Widest>(most).c7 == 5);
}

TEST_CASE("the structure of a tree") {
  const Tree tree = trees::dict();
  CHECK(tree.structure() == R"({"conv": {"bias": *, "kernel": *}, "list": [*, none], "rate": 0.5})");
  CHECK(to_string(tree) == R"({"conv": {"bias": f32[3], "kernel": f32[3,3]}, "list": [i32[], none], "rate": 0.5})");
  CHECK(tree.same_structure(trees::dict()));
  CHECK(tree.structure_hash() == trees::dict().structure_hash());
  const std::vector<Tree> others = {tree.with("rate", Tree(StaticValue(0.25))),
                                    tree.with("rate", Tree(StaticValue(std::string("0.5")))),
                                    tree.with("list/1", Tree(array(1))),
                                    tree.with("conv/scale", Tree(array(1))),
                                    tree.with("list", Tree::list({Tree(array(1))})),
                                    Tree(array(1)),
                                    Tree()};
  for (const Tree& other : others) {
    CAPTURE(other.structure());
    CHECK(!tree.same_structure(other));
    CHECK(tree.structure() != other.structure());
    CHECK(tree.structure_hash() != other.structure_hash());
  }
  CHECK(tree.same_structure(tree.with("conv/bias", Tree(array({1, 2})))));
}

TEST_CASE("paths find and set sub-trees") {
  const Tree tree = trees::dict();
  CHECK(tree.at("conv/kernel").array().shape() == Shape{3, 3});
  CHECK(tree.at("list/0").array().item<int>() == 1);
  CHECK(tree.at("").kind() == Tree::Kind::dict);
  CHECK(tree.contains("conv/bias"));
  CHECK(!tree.contains("conv/bias/0"));
  CHECK(Tree().with("a/b", Tree(array(1))).structure() == R"({"a": {"b": *}})");
  expect_error<StateError>([&] { tree.at("conv/kernl"); }, "\"conv/kernl\"", "nearest", "\"conv/kernel\"");
  expect_error<StateError>([&] { Tree().at("a"); }, "\"a\"", "empty");
  expect_error<StateError>([&] { tree.with("list/2", Tree()); }, "\"2\"", "2 items");
  expect_error<StateError>([&] { tree.with("rate/x", Tree()); }, "\"x\"", "a static value");
}

TEST_CASE("reading another kind than a tree is says which it is") {
  expect_error<StateError>([] { trees::dict().array(); }, "expected a leaf", "a dict");
  expect_error<StateError>([] { Tree(array(1)).fixed(); }, "expected a static value", "a leaf");
  expect_error<StateError>([] { Tree(array(1)).items(); }, "expected a list", "a leaf");
  expect_error<StateError>([] { Tree().entries(); }, "expected a dict", "nothing");
}

TEST_CASE("leaves come out and go in by order of path") {
  const Tree tree = trees::dict();
  std::vector<Array> leaves = tree.leaves();
  REQUIRE(leaves.size() == 3);
  CHECK(leaves[0].shape() == Shape{3});
  CHECK(leaves[2].dtype() == int32);
  const Tree same = tree.unflatten(leaves);
  CHECK(same.same_structure(tree));
  check_close(same.at("list/0").array(), {}, {1});
  leaves.pop_back();
  expect_error<StateError>([&] { tree.unflatten(leaves); }, "2 leaves", "structure of 3");
  Tree gone = Tree(ones({2}));
  const std::vector<Array> taken = std::move(gone).take_leaves();
  CHECK(taken[0].state().use_count() == 1);
}

TEST_CASE("functions on leaves") {
  const Tree a = trees::dict();
  check_close(map([](const Array& x) { return x + 1; }, a).at("conv/bias").array(), {3}, {1, 1, 1});
  check_close(map([](const Array& x, const Array& y) { return x + y; }, a, a).at("list/0").array(), {}, {2});
  std::vector<std::string> seen;
  map_with_path([&](const std::string& path, const Array& x) { return seen.push_back(path), x; }, a);
  CHECK(seen == a.paths());
  const auto keep = [](const Array& x, const Array&) { return x; };
  expect_error<StateError>([&] { map(keep, a, a.with("list/1", Tree(array(1)))); }, "\"list/1\"", "nothing", "a leaf");
  expect_error<StateError>([&] { map(keep, a, a.with("rate", Tree(StaticValue(2.0)))); }, "\"rate\"", "0.5", "2.0");
  expect_error<StateError>([&] { map(keep, a, a.with("conv/scale", Tree(array(1)))); }, "\"conv/scale\"", "missing");
  expect_error<StateError>([&] { map(keep, a, a.with("list", Tree::list({}))); }, "\"list\"", "2 items", "0 items");
}

TEST_CASE("leaves are compared with what is expected") {
  const Tree expected = trees::dict();
  CHECK_NOTHROW(check_same_types(expected, expected, "weights"));
  expect_error<StateError>([&] { check_same_types(expected.with("extra", Tree(array(1))), expected, "weights"); },
                           "weights", "\"extra\" is missing", "i32[]");
  expect_error<StateError>([&] { check_same_types(expected, expected.with("conv/bias2", Tree(array(1))), "weights"); },
                           "weights", "surplus leaf \"conv/bias2\"", "\"conv/bias\"");
  expect_error<StateError>([&] { check_same_types(expected, expected.with("conv/bias", Tree(ones({4}))), "weights"); },
                           "weights", "\"conv/bias\" is f32[4], expected f32[3]");
  expect_error<StateError>(
      [&] { check_same_types(expected, expected.with("conv/bias", Tree(ones({3}, float64))), "weights"); },
      "\"conv/bias\" is f64[3], expected f32[3]");
}

TEST_CASE("moving a C++ value into a tree keeps one owner") {
  trees::Layer layer{ones({2}), ones({3})};
  std::vector<Array> leaves = to_tree(std::move(layer)).take_leaves();
  for (const Array& leaf : leaves) CHECK(leaf.state().use_count() == 1);
  trees::Layer kept{ones({2}), ones({3})};
  leaves = to_tree(kept).take_leaves();
  for (const Array& leaf : leaves) CHECK(leaf.state().use_count() == 2);
}
