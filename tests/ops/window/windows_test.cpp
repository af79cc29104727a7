#include <vector>

#include <doctest/doctest.h>

#include "engine/ops/values.h"
#include "tests/ops/numbers.h"
#include "tests/support/non_finite.h"
#include "tests/support/run_reference.h"

namespace lockstep::tests {
namespace {

Attrs windows(const ops::Dims& window, const ops::Dims& strides, const std::vector<ops::Dims>& padding) {
  return {{"window", window}, {"strides", strides}, {"padding", padding}};
}

ir::ReferenceArray window_floats(const Shape& shape, const Numbers& values) {
  return reference_array({float64, shape, {}}, values);
}

}  // namespace

TEST_CASE("window_max takes the first of equal ones and points into the plane") {
  const ir::ReferenceArray x = window_floats({1, 2, 4, 1}, {1, 5, 2, 2, 5, 0, 2, 1});
  const auto results = run_reference("window_max", {x}, windows({2, 2}, {2, 2}, {{0, 0}, {0, 0}}));
  CHECK(results[0].floats() == Numbers{5, 2});
  CHECK(results[1].type == ArrayType{int32, {1, 1, 2, 1}, {}});
  CHECK(results[1].integers() == Integers{1, 2});
}

TEST_CASE("padding of window_max is never chosen, NaN always is") {
  const ir::ReferenceArray x = window_floats({1, 3, 1}, {-infinity, -7, -8});
  const auto padded = run_reference("window_max", {x}, windows({2}, {1}, {{1, 1}}));
  CHECK(padded[0].floats() == Numbers{-infinity, -7, -7, -8});
  CHECK(padded[1].integers() == Integers{0, 1, 1, 2});
  const auto with_nan = run_reference("window_max", {window_floats({1, 3, 1}, {infinity, not_a_number, not_a_number})},
                                      windows({3}, {1}, {{0, 0}}));
  CHECK(with_nan[0].floats()[0] != with_nan[0].floats()[0]);
  CHECK(with_nan[1].integers() == Integers{1});
}

TEST_CASE("window_max keeps rows and features apart") {
  const ir::ReferenceArray x = window_floats({2, 2, 2}, {1, 8, 2, 7, 6, 3, 5, 4});
  const auto results = run_reference("window_max", {x}, windows({2}, {1}, {{0, 0}}));
  CHECK(results[0].floats() == Numbers{2, 8, 6, 4});
  CHECK(results[1].integers() == Integers{1, 0, 0, 1});
}

TEST_CASE("window_sum and window_spread") {
  const Attrs attrs = windows({2}, {1}, {{1, 0}});
  CHECK(run_reference("window_sum", {window_floats({1, 3, 1}, {1, 10, 100})}, attrs)[0].floats() ==
        Numbers{1, 11, 110});
  CHECK(run_reference("window_spread", {window_floats({1, 3, 1}, {1, 10, 100})}, attrs.with("spatial", ops::Dims{3}))[0]
            .floats() == Numbers{11, 110, 100});
  CHECK(run_reference("window_sum", {window_floats({1, 1, 1}, {5})}, windows({1}, {2}, {{1, 1}}))[0].floats() ==
        Numbers{0, 0});
}

TEST_CASE("window_gather and window_scatter clamp, and scatter adds") {
  const ir::ReferenceArray indices = reference_array({int32, {1, 4, 1}, {}}, {2, 2, -5, 9});
  CHECK(run_reference("window_gather", {window_floats({1, 3, 1}, {1, 2, 3}), indices}, {})[0].floats() ==
        Numbers{3, 3, 1, 3});
  CHECK(run_reference("window_scatter", {indices, window_floats({1, 4, 1}, {1, 10, 100, 1000})},
                      {{"spatial", ops::Dims{3}}})[0]
            .floats() == Numbers{100, 0, 1011});
}

}  // namespace lockstep::tests
