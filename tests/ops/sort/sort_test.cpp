#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/non_finite.h"
#include "tests/support/op_functions.h"
#include "tests/support/run_reference.h"

// Sorting where drawn samples do not reach: NaN, signed zeros, ties.
namespace lockstep::tests {
namespace {

Attrs by_keys(std::int64_t num_keys) { return {{"axis", std::int64_t{0}}, {"num_keys", num_keys}}; }

ir::ReferenceArray vector(DType dtype, const std::vector<double>& x) {
  return reference_array({dtype, Shape{static_cast<std::int64_t>(x.size())}, {}}, x);
}

}  // namespace

TEST_CASE("NaN stands last and zeros of both signs keep their order") {
  const ir::ReferenceArray places = vector(int32, {0, 1, 2, 3, 4, 5});
  const auto results =
      run_reference("sort", {vector(float64, {3, not_a_number, 0.0, -0.0, -infinity, infinity}), places}, by_keys(1));
  const std::vector<double>& x = results[0].floats();
  CHECK(x[0] == -infinity);
  CHECK(!std::signbit(x[1]));
  CHECK(std::signbit(x[2]));
  CHECK(x[3] == 3);
  CHECK(x[4] == infinity);
  CHECK(std::isnan(x[5]));
  CHECK(results[1].integers() == std::vector<std::int64_t>{4, 2, 3, 0, 5, 1});
}

TEST_CASE("equal keys keep their order, and later keys decide among them") {
  const ir::ReferenceArray first = vector(uint8, {1, 0, 1, 0}), second = vector(float32, {2, 5, 1, 5});
  const ir::ReferenceArray places = vector(int32, {0, 1, 2, 3});
  CHECK(run_reference("sort", {first, places}, by_keys(1))[1].integers() == std::vector<std::int64_t>{1, 3, 0, 2});
  CHECK(run_reference("sort", {first, second, places}, by_keys(2))[2].integers() ==
        std::vector<std::int64_t>{1, 3, 2, 0});
}

TEST_CASE("tangents follow the elements that are sorted") {
  const ArrayType type{float64, Shape{3}, {}};
  const ir::Sample sample{{{type}, {type}}, by_keys(1), {}};
  const auto results = evaluate(jvp_function(ops::primitives::sort(), sample, {true, true}),
                                {{2, 3, 1}, {7, 8, 9}, {10, 20, 30}, {1, 2, 3}});
  CHECK(results[0] == std::vector<double>{30, 10, 20});
  CHECK(results[1] == std::vector<double>{3, 1, 2});
}

}  // namespace lockstep::tests
