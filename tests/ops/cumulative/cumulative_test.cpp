#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/non_finite.h"
#include "tests/support/op_functions.h"
#include "tests/support/run_reference.h"

// Accumulations where drawn samples do not reach: ties, NaN, infinities.
namespace lockstep::tests {
namespace {

Attrs along(bool reverse) { return {{"axis", std::int64_t{0}}, {"reverse", reverse}}; }

bool same_cumulated(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i] && !(std::isnan(a[i]) && std::isnan(b[i]))) return false;
  }
  return true;
}

std::vector<double> accumulated(std::string_view op, const std::vector<double>& x, bool reverse = false) {
  const ArrayType type{float64, Shape{static_cast<std::int64_t>(x.size())}, {}};
  return run_reference(op, {reference_array(type, x)}, along(reverse))[0].floats();
}

std::vector<double> cumulated_tangent(const ir::Primitive& op, const std::vector<double>& x,
                                      const std::vector<double>& dx, bool reverse = false) {
  const ArrayType type{float64, Shape{static_cast<std::int64_t>(x.size())}, {}};
  const ir::Sample sample{{{type}}, along(reverse), {}};
  return evaluate(jvp_function(op, sample, {true}), {x, dx})[0];
}

}  // namespace

TEST_CASE("accumulations of NaN and infinities") {
  CHECK(same_cumulated(accumulated("cummax", {1, not_a_number, 3}), {1, not_a_number, not_a_number}));
  CHECK(same_cumulated(accumulated("cummin", {1, not_a_number, 3}, true), {not_a_number, not_a_number, 3}));
  CHECK(same_cumulated(accumulated("cumsum", {1, infinity, 2}), {1, infinity, infinity}));
  CHECK(same_cumulated(accumulated("cumlogsumexp", {-infinity, -infinity, 0, infinity}),
                       {-infinity, -infinity, 0, infinity}));
  CHECK(same_cumulated(accumulated("cumlogsumexp", {not_a_number, 0}), {not_a_number, not_a_number}));
}

TEST_CASE("a running extremum's derivative goes to the element that first reached it") {
  CHECK(cumulated_tangent(ops::primitives::cummax(), {1, 3, 3, 2, 5}, {1, 2, 3, 4, 5}) ==
        std::vector<double>{1, 2, 2, 2, 5});
  CHECK(cumulated_tangent(ops::primitives::cummin(), {1, 3, 3, 2, 5}, {1, 2, 3, 4, 5}, true) ==
        std::vector<double>{1, 4, 4, 4, 5});
}

TEST_CASE("derivatives of products with zeros and of sums of nothing") {
  CHECK(cumulated_tangent(ops::primitives::cumprod(), {2, 0, 3}, {1, 1, 1}) == std::vector<double>{1, 2, 6});
  CHECK(cumulated_tangent(ops::primitives::cumprod(), {0, 0, 3}, {1, 1, 1}) == std::vector<double>{1, 0, 0});
  CHECK(same_cumulated(cumulated_tangent(ops::primitives::cumlogsumexp(), {-infinity, 0, 0}, {1, 2, 4}), {0, 2, 3}));
}

}  // namespace lockstep::tests
