#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/random.h>

#include "tests/api/kolmogorov_smirnov.h"
#include "tests/support/array_values.h"
#include "tests/support/expect_error.h"
#include "tests/support/non_finite.h"

// Draws stay within their bounds, in every dtype and however far out, and no two numbers name one key.

using namespace lockstep;
using tests::expect_error;
using tests::infinity;
using tests::values;

namespace {

using Draws = std::vector<double>;

const std::vector<DType> float_dtypes = {float16, bfloat16, float32, float64};

struct Range {
  double low, high;
};

double rounded(double x, DType dtype) { return values(full({}, x, dtype))[0]; }

/// The standard normal of (low, high), by the tail's survival function.
double survival(double x) { return std::erfc(x / std::sqrt(2.0)) / 2; }

double conditioned(double x, const Range& range) {
  const double side = range.low > 0 ? 1 : -1;
  const double a = survival(side * range.low), b = survival(side * range.high);
  return std::clamp((a - survival(side * x)) / (a - b), 0.0, 1.0);
}

}  // namespace

TEST_CASE("a uniform on [low, high) is never high and never below low") {
  const std::vector<Range> ranges = {{1, 1.01}, {1, 1.5}, {-1, 1}, {0, 1e-4}, {-2, -1.99}, {100, 101}, {0.25, 4}};
  for (const DType dtype : float_dtypes) {
    for (const Range& range : ranges) {
      CAPTURE(name(dtype));
      CAPTURE(range.low);
      const double low = rounded(range.low, dtype), high = rounded(range.high, dtype);
      const Array fixed = random::uniform(random::key(1), {20000}, dtype, range.low, range.high);
      const Array given =
          random::uniform(random::key(1), {20000}, dtype, full({}, range.low, dtype), full({}, range.high, dtype));
      for (const Array& drawn : {fixed, given}) {
        for (const double x : values(drawn)) {
          if (low < high ? x >= low && x < high : x == low) continue;
          FAIL_CHECK(x);
          break;
        }
      }
    }
  }
}

TEST_CASE("a uniform may span more than the largest number") {
  for (const DType dtype : float_dtypes) {
    CAPTURE(name(dtype));
    const double most = dtype == float16 ? 65504 : dtype == float64 ? 1.7e308 : 3.3e38;
    const Array drawn = random::uniform(random::key(2), {4000}, dtype, -most, most);
    double total = 0;
    for (const double x : values(drawn)) {
      CHECK(std::abs(x) <= most * 1.01);
      total += x / most;
    }
    CHECK(std::abs(total / 4000) < 0.05);
  }
  const Array ends = random::uniform(random::key(2), {100}, float32, full({}, -3e38), full({}, 3e38));
  for (const double x : values(ends)) CHECK(std::isfinite(x));
}

TEST_CASE("a uniform without room is low, NaN bounds give NaN") {
  CHECK(values(random::uniform(random::key(1), {2}, float32, 2.0, 2.0)) == Draws{2, 2});
  CHECK(values(random::uniform(random::key(1), {2}, float32, 3.0, 2.0)) == Draws{3, 3});
  for (const double x : values(random::uniform(random::key(1), {2}, float32, 0.0, std::nan("")))) CHECK(std::isnan(x));
}

TEST_CASE("a truncated normal lies strictly between its bounds, on both sides and however far out") {
  const std::vector<Range> ranges = {{4, infinity},  {-infinity, -4},   {10, infinity},   {-infinity, -10},
                                     {40, infinity}, {-infinity, -1e4}, {1, infinity},    {-infinity, infinity},
                                     {2, 2.5},       {-2.5, -2},        {5, 5.5},         {-infinity, 1},
                                     {3, 60},        {-60, 60},         {1000, infinity}, {12, 13}};
  for (const DType dtype : float_dtypes) {
    for (const Range& range : ranges) {
      CAPTURE(name(dtype));
      CAPTURE(range.low);
      CAPTURE(range.high);
      const double low = rounded(range.low, dtype), high = rounded(range.high, dtype);
      const auto drawn = values(random::truncated_normal(random::key(3), range.low, range.high, {20000}, dtype));
      const double reach = std::max(std::isinf(low) ? 0 : std::abs(low), std::isinf(high) ? 0 : std::abs(high));
      for (const double x : drawn) {
        // Beyond a bound far out a normal reaches hardly farther.
        const bool is_near = std::abs(x) <= std::max(9.0, 1.01 * reach + 9);
        if (x > low && x < high && is_near) continue;
        FAIL_CHECK(x);
        break;
      }
    }
  }
}

TEST_CASE("a truncated normal has the tail's distribution") {
  const std::vector<Range> ranges = {{4, infinity}, {-infinity, -4}, {2, 3},        {-3, -2},
                                     {6, 6.2},      {12, infinity},  {30, infinity}};
  for (const DType dtype : {float32, float64}) {
    for (const Range& range : ranges) {
      CAPTURE(name(dtype));
      CAPTURE(range.low);
      const Array drawn = random::truncated_normal(random::key(4), range.low, range.high, {20000}, dtype);
      tests::check_distribution(drawn, [&](double x) { return conditioned(x, range); });
    }
  }
}

TEST_CASE("bounds that are arrays choose the tail element by element") {
  const Array low = array({-1.F, 4.F, -INFINITY, 2.F}), high = array({2.F, INFINITY, -10.F, 2.25F});
  const Array drawn = random::truncated_normal(random::key(5), low, high, {3000, 4});
  const Draws x = values(drawn), a = values(low), b = values(high);
  for (std::size_t i = 0; i < x.size(); ++i) CHECK((x[i] > a[i % 4] && x[i] < b[i % 4] && std::abs(x[i]) < 20));
  for (std::size_t c = 0; c < 4; ++c) {
    const Array one = random::truncated_normal(random::key(5), full({}, a[c]), full({}, b[c]), {3000, 4});
    const Draws same = values(one);
    for (std::size_t i = c; i < x.size(); i += 4) CHECK(x[i] == same[i]);
  }
}

TEST_CASE("draws are finite in every dtype") {
  for (const DType dtype : float_dtypes) {
    CAPTURE(name(dtype));
    const Array key = random::key(6);
    const Shape shape{100000};
    const std::vector<std::pair<std::string, Array>> draws = {
        {"normal", random::normal(key, shape, dtype)},
        {"exponential", random::exponential(key, shape, dtype)},
        {"laplace", random::laplace(key, shape, dtype)},
        {"logistic", random::logistic(key, shape, dtype)},
        {"gumbel", random::gumbel(key, shape, dtype)},
        {"cauchy", random::cauchy(key, shape, dtype)},
        {"rayleigh", random::rayleigh(key, 1.0, shape, dtype)},
        {"weibull_min", random::weibull_min(key, 1.0, 2.0, shape, dtype)},
        {"maxwell", random::maxwell(key, shape, dtype)},
        {"triangular", random::triangular(key, 0.0, 0.5, 1.0, shape, dtype)},
        {"beta", random::beta(key, 0.5, 0.5, {5000}, dtype)},
        {"beta of small a and b", random::beta(key, 1e-4, 1e-4, {5000}, dtype)},
        {"dirichlet of small weights", random::dirichlet(key, full({3}, 1e-4, dtype), {2000}, dtype)},
        {"gamma", random::gamma(key, 0.5, {5000}, dtype)},
        {"wald", random::wald(key, 1.0, shape, dtype)},
    };
    for (const auto& [what, drawn] : draws) {
      CAPTURE(what);
      CHECK(all(is_finite(drawn)).item<bool>());
    }
    for (const double x : values(random::beta(key, 1e-4, 1e-4, {5000}, dtype))) CHECK((x >= 0 && x <= 1));
  }
  // In float32 the difference of the two roots is 0 or less for many of these.
  CHECK(all(random::wald(random::key(7), 1e6, {100000}) > 0).item<bool>());
}

TEST_CASE("ratios of draws that vanish have their value") {
  // Each of the two is below float32 in 40 of 100 draws: their ratio was NaN or infinite.
  const Array ratio = random::f(random::key(11), 0.02, 0.02, {5000});
  CHECK(!any(isnan(ratio)).item<bool>());
  // Of one degree of freedom a value is beyond 65504 in one of 100000 draws; the gamma draw is below float16 in twenty.
  const Array heavy = random::t(random::key(12), 1.0, {100000}, float16);
  CHECK(sum(convert(is_finite(heavy), int32)).item<std::int32_t>() >= 100000 - 5);
  CHECK(!any(isnan(heavy)).item<bool>());
}

TEST_CASE("trials until a success end at the largest integer") {
  const Array rare = random::geometric(random::key(8), 1e-10, {1000});
  CHECK(all(rare > 0).item<bool>());
  CHECK(max(rare).item<std::int32_t>() == std::numeric_limits<std::int32_t>::max());
  CHECK(min(random::geometric(random::key(8), 0.001, {1000}, int8)).item<std::int8_t>() > 0);
  CHECK(values(random::geometric(random::key(8), 1.0, {3})) == Draws{1, 1, 1});
  CHECK(values(random::geometric(random::key(8), array({2.F, -1.F, NAN}), {3})) == Draws{0, 0, 0});
  expect_error<ValueError>([] { random::geometric(random::key(8), 0.0, {3}); }, "geometric", "(0, 1]");
}

TEST_CASE("randint reaches both ends of its range and neither passes") {
  for (const DType dtype : {int8, uint8, int16, int32, int64, uint32, uint64}) {
    CAPTURE(name(dtype));
    const Draws x = values(random::randint(random::key(9), {2000}, 3, 7, dtype));
    CHECK(*std::min_element(x.begin(), x.end()) == 3);
    CHECK(*std::max_element(x.begin(), x.end()) == 6);
  }
}

TEST_CASE("numbers beyond 32 bits are no data of fold_in") {
  const Array key = random::key(10);
  const auto folded = [&](const Operand& n) {
    return random::key_data(random::fold_in(key, n)).to_vector<std::uint32_t>();
  };
  for (const std::int64_t n : {std::int64_t{-1}, std::int64_t{1} << 32, std::int64_t{-4294967296}}) {
    expect_error<ValueError>([&] { random::fold_in(key, n); }, "random::fold_in", std::to_string(n), "4294967295",
                             "n >> 32");
  }
  CHECK(folded(std::int64_t{4294967295}) == folded(array<std::uint32_t>(4294967295U)));
  CHECK(folded(0) == folded(array<std::uint32_t>(0)));
  CHECK(folded(7) == folded(array(7)));
}
