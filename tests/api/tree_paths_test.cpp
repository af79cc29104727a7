#include <random>
#include <string>

#include <doctest/doctest.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/tree.h>

#include "tests/support/expect_error.h"
#include "tests/support/odd_trees.h"

// A path names one leaf, whatever the keys are.
using namespace lockstep;
using tests::expect_error;
using tests::random_tree;

TEST_CASE("keys that a path would read as something else are escaped, all others stand as they are") {
  struct Row {
    const char* key;
    const char* path;
  };
  const Row rows[] = {{"kernel", "kernel"}, {"a b", "a b"}, {"a~b", "a~b"}, {"~a", "~a"},    {"a~", "a~"},
                      {"~~", "~~"},         {"~3", "~3"},   {"", "~"},      {"~", "~0"},     {"a/b", "a~1b"},
                      {"/", "~1"},          {"~1", "~01"},  {"~0", "~00"},  {"~2x", "~02x"}, {"a~/b", "a~~1b"}};
  for (const Row& row : rows) {
    CAPTURE(row.key);
    const Tree tree = Tree::dict({{row.key, Tree(array(1))}});
    CHECK(tree.paths() == std::vector<std::string>{row.path});
    CHECK(tree.at(row.path).array().item<int>() == 1);
    const Tree made = Tree().with(row.path, Tree(array(1)));
    CHECK(made.same_structure(tree));
    const Tree below = Tree::dict({{"x", tree}, {"y", Tree::list({tree})}});
    CHECK(below.at(std::string("x/") + row.path).array().item<int>() == 1);
    CHECK(below.at(std::string("y/0/") + row.path).array().item<int>() == 1);
  }
}

TEST_CASE("a key with a slash and a nested dict are two leaves") {
  const Tree tree = Tree::dict({{"a/b", Tree(array(1))}, {"a", Tree::dict({{"b", Tree(array(2))}})}});
  CHECK(tree.at("a/b").array().item<int>() == 2);
  CHECK(tree.at("a~1b").array().item<int>() == 1);
  CHECK(tree.paths().size() == 2);
}

TEST_CASE("any tree of dicts is what its paths and leaves say") {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    CAPTURE(seed);
    const Tree tree = random_tree(seed);
    CAPTURE(to_string(tree));
    const std::vector<std::string> paths = tree.paths();
    const std::vector<Array> leaves = tree.leaves();
    REQUIRE(paths.size() == leaves.size());
    Tree again = Tree::dict({});
    for (std::size_t i = 0; i < paths.size(); ++i) {
      CHECK(tree.at(paths[i]).array().item<int>() == leaves[i].item<int>());
      CHECK_FALSE(again.contains(paths[i]));
      again = again.with(paths[i], Tree(leaves[i]));
    }
    CHECK(again.same_structure(tree));
  }
}

TEST_CASE("a dict that is given one key twice is refused") {
  expect_error<StateError>(
      [] {
        Tree::dict({{"w", Tree(array(1))}, {"b", Tree(array(2))}, {"w", Tree(array(3))}});
      },
      "the key \"w\" is given twice");
}
