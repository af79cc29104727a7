#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>
#include <lockstep/scientific.h>

#include "tests/support/expect_error.h"

namespace lockstep::tests {
namespace {

using Costs = std::vector<std::vector<double>>;

constexpr double inf = std::numeric_limits<double>::infinity();

/// How many rows have a column, and what it costs, negated: the larger the better.
std::pair<int, double> worth(const Costs& costs, const std::vector<int>& columns) {
  int pairs = 0;
  double sum = 0;
  for (std::size_t i = 0; i < costs.size(); ++i) {
    if (columns[i] < 0 || !std::isfinite(costs[i][static_cast<std::size_t>(columns[i])])) continue;
    ++pairs;
    sum += costs[i][static_cast<std::size_t>(columns[i])];
  }
  return {pairs, -sum};
}

/// By trying all orders of as many columns as there are, and as many more as rows lack.
std::pair<int, double> best(const Costs& costs) {
  const std::size_t rows = costs.size(), columns = costs[0].size();
  std::vector<int> order(std::max(rows, columns));
  std::iota(order.begin(), order.end(), 0);
  std::pair<int, double> found{-1, 0};
  do {
    std::vector<int> taken(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(rows));
    for (int& c : taken) c = c < static_cast<int>(columns) ? c : -1;
    found = std::max(found, worth(costs, taken));
  } while (std::next_permutation(order.begin(), order.end()));
  return found;
}

Array cost_matrix(const Costs& costs, DType dtype = float64) {
  std::vector<double> all;
  for (const auto& row : costs) all.insert(all.end(), row.begin(), row.end());
  return convert(reshape(array(all), {static_cast<std::int64_t>(costs.size()), -1}), dtype);
}

std::vector<int> columns_of(const Array& result) {
  const std::vector<std::int32_t> values = result.to_vector<std::int32_t>();
  return {values.begin(), values.end()};
}

Costs drawn_costs(std::uint64_t seed, int rows, int columns, int kinds) {
  const Array key = random::key(seed);
  const std::vector<std::int32_t> numbers =
      random::randint(key, {static_cast<std::int64_t>(rows) * columns}, -9, 10).to_vector<std::int32_t>();
  const std::vector<std::int32_t> missing =
      random::randint(random::fold_in(key, 1), {static_cast<std::int64_t>(rows) * columns}, 0, 4)
          .to_vector<std::int32_t>();
  Costs costs(static_cast<std::size_t>(rows), std::vector<double>(static_cast<std::size_t>(columns)));
  std::size_t at = 0;
  for (auto& row : costs) {
    for (double& c : row) {
      c = kinds != 0 && missing[at] == 0 ? (kinds == 1 ? inf : std::nan("")) : numbers[at] / 4.0;
      ++at;
    }
  }
  return costs;
}

}  // namespace

TEST_CASE("assignments that Optax' page publishes") {
  const Costs tall = {{8, 4, 7}, {5, 2, 3}, {9, 6, 7}, {9, 4, 8}};
  CHECK(worth(tall, columns_of(linear_sum_assignment(cost_matrix(tall, int32)))) == std::pair(3, -15.0));
  const Costs taller = {{90, 80, 75, 70}, {35, 85, 55, 65}, {125, 95, 90, 95}, {45, 110, 95, 115}, {50, 100, 90, 100}};
  CHECK(worth(taller, columns_of(linear_sum_assignment(cost_matrix(taller)))) == std::pair(4, -265.0));
}

TEST_CASE("drawn assignments are as many and as cheap as the best of all, in jit and vmap too") {
  const auto compiled = jit(linear_sum_assignment);
  const auto in_batches = vmap(linear_sum_assignment);
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const int rows = 1 + static_cast<int>(seed % 5), columns = 1 + static_cast<int>(seed / 5 % 5);
    const Costs costs = drawn_costs(seed, rows, columns, static_cast<int>(seed % 3));
    CAPTURE(seed);
    const std::pair<int, double> expected = best(costs);
    const std::vector<int> found = columns_of(linear_sum_assignment(cost_matrix(costs)));
    CHECK(worth(costs, found) == expected);
    std::vector<int> taken;
    for (const int c : found) {
      if (c >= 0) taken.push_back(c);
    }
    std::sort(taken.begin(), taken.end());
    CHECK(std::unique(taken.begin(), taken.end()) == taken.end());
    CHECK(static_cast<int>(taken.size()) == expected.first);
    CHECK(columns_of(compiled(cost_matrix(costs, float32))) == found);
    const Array both = stack({cost_matrix(drawn_costs(seed + 100, rows, columns, 0)), cost_matrix(costs)}, 0);
    CHECK(columns_of(in_batches(both)[1]) == found);
  }
}

TEST_CASE("assignments of no rows or columns, of costs alike and of large integers") {
  CHECK(to_string(linear_sum_assignment(zeros({0, 3})).type()) == "i32[0]");
  CHECK(columns_of(linear_sum_assignment(zeros({2, 0}))) == std::vector<int>{-1, -1});
  CHECK(worth({{0, 0}, {0, 0}}, columns_of(linear_sum_assignment(zeros({2, 2})))) == std::pair(2, 0.0));
  const std::int64_t large = (std::int64_t{1} << 40);
  const Array close = reshape(array(std::vector<std::int64_t>{large, large + 1, large, large}), {2, 2});
  CHECK(columns_of(linear_sum_assignment(close)) == std::vector<int>{0, 1});
}

TEST_CASE("a loss of the pairs found is differentiated by its costs") {
  const auto loss = [](const Array& cost) {
    const Array columns = linear_sum_assignment(cost);
    return sum(take_along_axis(cost, expand_dims(columns, {1}), 1));
  };
  const Array cost = cost_matrix({{4, 1, 3}, {2, 0, 5}, {3, 2, 2}});
  CHECK(grad(loss)(cost).to_vector<double>() == std::vector<double>{0, 1, 0, 1, 0, 0, 0, 0, 1});
}

TEST_CASE("what cannot be assigned is named") {
  expect_error<ShapeError>([] { static_cast<void>(linear_sum_assignment(zeros({3}))); },
                           "linear_sum_assignment: cost is f32[3]; expected [rows, columns]; vmap takes batches");
  expect_error<DtypeError>(
      [] {
        static_cast<void>(linear_sum_assignment(full({2, 2}, true, bool_)));
      },
      "linear_sum_assignment: cost is bool[2,2]; expected real numbers");
}

}  // namespace lockstep::tests
