#include <doctest/doctest.h>

#include <lockstep/error.h>
#include <lockstep/layout_map.h>

#include "tests/support/expect_error.h"

namespace lockstep::tests {
namespace {

TEST_CASE("a path itself goes before patterns; a path without a rule is replicated") {
  const LayoutMap map({{"dense/kernel", sharded("a")}, {"dense.*kernel.*", sharded("b")}, {".*bias", sharded("c")}});
  CHECK(map.at("dense/kernel") == sharded("a"));
  CHECK(map.at("dense_1/kernel") == sharded("b"));
  CHECK(map.at("dense_1/bias") == sharded("c"));
  CHECK(map.at("conv/scale") == replicated);
}

TEST_CASE("patterns match all of a path, or not at all") {
  const LayoutMap map({{"dense", sharded("a")}, {"kernel", sharded("b")}});
  CHECK(map.at("dense_1/kernel") == replicated);
  CHECK(map.at("dense/kernel") == replicated);
  CHECK(map.at("dense") == sharded("a"));
}

TEST_CASE("two patterns that match one path are an error") {
  const LayoutMap map({{".*kernel", sharded("a")}, {"dense.*", sharded("b")}});
  expect_error<MeshError>([&] { map.at("dense/kernel"); }, "\"dense/kernel\" matches multiple layouts",
                          "\".*kernel\" and of \"dense.*\"", "add the path itself");
}

TEST_CASE("a pattern is a regular expression, and stands in a map once") {
  expect_error<ValueError>([] { LayoutMap({{"dense(", sharded("a")}}); }, "\"dense(\" is no regular expression");
  expect_error<ValueError>([] { LayoutMap({{"a", sharded("a")}, {"a", sharded("b")}}); }, "\"a\" stands there twice");
}

TEST_CASE("one layout for every leaf") {
  const LayoutMap map = sharded("data");
  CHECK(map.holds_for_all());
  CHECK(map.at("anything") == sharded("data"));
}

}  // namespace
}  // namespace lockstep::tests
