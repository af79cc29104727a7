#include <cmath>
#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/function.h>
#include <lockstep/ops.h>
#include <lockstep/random.h>
#include <lockstep/reductions.h>
#include <lockstep/transforms.h>

#include "tests/support/array_values.h"
#include "tests/support/expect_error.h"
#include "tests/support/non_finite.h"
#include "tests/support/slopes.h"
#include "tests/support/value_rows.h"

using namespace lockstep;
using tests::check_close;
using tests::check_same_bits;
using tests::check_slopes;
using tests::expect_error;
using tests::infinity;
using tests::not_a_number;
using tests::ValueRow;

namespace {

void check_reductions(const std::vector<ValueRow>& rows) { tests::check_rows(rows, 1e-12); }

}  // namespace

TEST_CASE("a large sum has the same bits alone, in tiles, and behind what it sums") {
  for (const DType dtype : {float32, float64, bfloat16}) {
    for (const std::int64_t n : {16383, 16384, 16385, 3 * 16384, 65537, 100001, 40 * 16384 - 1}) {
      CAPTURE(to_string(dtype));
      CAPTURE(n);
      const Array x = convert(random::normal(random::key(3), {n}), dtype);
      check_same_bits(jit([](const Array& y) { return sum(y); })(x), sum(x));
      check_same_bits(jit([](const Array& y) { return sum(y * y + y); })(x), sum(x * x + x));
    }
  }
  const Array x = random::normal(random::key(4), {300, 200});
  const auto plan = trace_function([](const Array& y) { return sum(y); }, x).plan();
  CHECK(plan.text.find("join_sums") != std::string::npos);
  check_same_bits(jit([](const Array& y) { return sum(y, Axes{1}); })(x), sum(x, Axes{1}));
}

// Expected numbers are those of JAX 0.10 in float64.
TEST_CASE("reductions and statistics have JAX's values") {
  const Array m = array(std::vector<double>{1.5, -2.0, 0.25, 0.5, 3.0, -1.25}, {2, 3}),
              b = array(std::vector<int>{3, 1, 3, 0, 2, 1}, {2, 3});
  const Array n = array(std::vector<double>{1.5, not_a_number, -2.0, not_a_number, not_a_number, 4.0}, {2, 3});
  const Where some(array(std::vector<bool>{true, false, true, true, true, false}, {2, 3}));
  check_reductions({
      {"sum", sum(m, some, Axes{1}), {2}, {1.75, 3.5}},
      {"prod", prod(m, some), {}, {0.5625}},
      {"max", max(m, some, -9.0, Axes{0}), {3}, {1.5, 3, 0.25}},
      {"min", min(m, some, 0.5, Axes{1}, true), {2, 1}, {0.25, 0.5}},
      {"mean", mean(m, some, Axes{0}), {3}, {1, 3, 0.25}},
      {"var", var(m, some), {}, {1.16796875}},
      {"all", all(m, some, Axes{1}), {2}, {1, 1}},
      {"any", any(m, some, Axes{0}), {3}, {1, 1, 1}},
      {"logsumexp of some", logsumexp(m, some, Axes{1}), {2}, {1.751929081345373, 3.07888973429255}},
      {"logsumexp weighted", logsumexp(m, abs(m), Axes{1}), {2}, {1.989819103309692, 4.118046479373785}},
      {"logmeanexp", logmeanexp(m, Axes{1}), {2}, {0.6765179735795257, 1.993373491923859}},
      {"reduce_and", reduce_and(b, Axes{1}), {2}, {1, 0}},
      {"reduce_or", reduce_or(b), {}, {3}},
      {"reduce_xor", reduce_xor(b, Axes{0}, true), {1, 3}, {3, 3, 2}},
      {"variance", variance(m, Axes{1}, 1), {2}, {3.145833333333333, 4.5625}},
      {"stddev", stddev(m), {}, {1.656217242862649}},
      {"stddev, unbiased",
       stddev(m, Axes{0}, 1, true),
       {1, 3},
       {0.7071067811865476, 3.535533905932738, 1.060660171779821}},
      {"ptp", ptp(m, Axes{1}), {2}, {3.5, 4.25}},
      {"average", average(m, abs(m), Axes{1}), {2}, {-0.45, 1.618421052631579}},
      {"average by row", average(m, array({1.0, 3.0}), Axes{0}), {3}, {0.75, 1.75, -0.875}},
      {"count_nonzero", count_nonzero(b, Axes{1}), {2}, {3, 2}},
      {"nansum", nansum(n, Axes{1}), {2}, {-0.5, 4}},
      {"nanprod", nanprod(n), {}, {-12}},
      {"nanmean", nanmean(n, Axes{1}), {2}, {-0.25, 4}},
      {"nanvar", nanvar(n), {}, {6.055555555555556}},
      {"nanstd", nanstd(n, Axes{1}), {2}, {1.75, 0}},
      {"nanmax", nanmax(n, Axes{1}), {2}, {1.5, 4}},
      {"nanmin", nanmin(n, Axes{0}), {3}, {1.5, not_a_number, -2}},
      {"nanargmax", nanargmax(n, 1), {2}, {0, 2}},
      {"nanargmin", nanargmin(n, 0), {3}, {0, -1, 0}},
      {"quantile", quantile(m, 0.3), {}, {-0.5}},
      {"quantiles of an axis",
       quantile(m, array({0.0, 0.4, 1.0}), 1),
       {3, 2},
       {-2, -1.25, -0.1999999999999999, 0.1500000000000001, 1.5, 3}},
      {"quantile, lower", quantile(m, 0.3, 1, Quantile::lower), {2}, {-2, -1.25}},
      {"quantile, higher", quantile(m, 0.3, 1, Quantile::higher), {2}, {0.25, 0.5}},
      {"quantile, nearest", quantile(m, 0.3, 1, Quantile::nearest), {2}, {0.25, 0.5}},
      {"quantile, midpoint", quantile(m, 0.3, 1, Quantile::midpoint), {2}, {-0.875, -0.375}},
      {"quantile with NaN", quantile(n, 0.5, 1), {2}, {not_a_number, not_a_number}},
      {"percentile", percentile(m, array({25.0, 75.0}), 0), {2, 3}, {0.75, -0.75, -0.875, 1.25, 1.75, -0.125}},
      {"median", median(m), {}, {0.375}},
      {"median of an axis", median(m, 1), {2}, {0.25, 0.5}},
      {"nanmedian", nanmedian(n, 1), {2}, {-0.25, 4}},
      {"cov", cov(m), {2, 2}, {3.145833333333333, -2.6875, -2.6875, 4.5625}},
      {"corrcoef", corrcoef(m), {2, 2}, {0.9999999999999999, -0.7093803908152982, -0.7093803908152982, 1}},
  });
}

TEST_CASE("spreads and means whose squares or sums would overflow or vanish") {
  // Right values are numpy's in float64. JAX has inf, 0 and NaN.
  for (const float scale : {1e20F, 1e-30F, 1.F}) {
    CAPTURE(scale);
    const Array x = array({3.F, -1.F, 1.F}) * scale;
    CHECK(stddev(x).item<float>() / scale == doctest::Approx(std::sqrt(8.0 / 3)).epsilon(1e-6));
    CHECK(stddev(x, {}, 1, true).item<float>() / scale == doctest::Approx(2).epsilon(1e-6));
    const Array slope = grad([](const Array& v) { return stddev(v); })(x);
    CHECK(slope[0].item<float>() == doctest::Approx(2 / 3.0 / std::sqrt(8.0 / 3)).epsilon(1e-6));
    const Array pairs = corrcoef(stack(std::vector<Array>{x, array({1.F, 2.F, 4.F})}, 0));
    CHECK(pairs[0][1].item<float>() == doctest::Approx(-0.3273268).epsilon(1e-6));
    CHECK(pairs[0][0].item<float>() == doctest::Approx(1).epsilon(1e-6));
  }
  CHECK(average(array({1.F, 2.F}), array({1e38F, 3e38F})).item<float>() == 1.75F);
  CHECK(logsumexp(zeros({0})).item<float>() == -infinity);
  CHECK(logsumexp(zeros({2, 0}), Axes{1}, true).to_vector<float>() == std::vector<float>(2, -INFINITY));
}

TEST_CASE("rounding to decimals keeps what has none") {
  CHECK(round(array({1e38F, -1e38F, 2.345F}), 2)[0].item<float>() == 1e38F);
  // numpy.round: integers stay, or go to the even ten.
  const std::int64_t odd = (std::int64_t{1} << 53) + 1;
  CHECK(round(full({}, 1, int64) * odd, 3).item<std::int64_t>() == odd);
  CHECK(round(array({25, 35, 16777217, -7}), -1).to_vector<int>() == std::vector<int>{20, 40, 16777220, -10});
}

TEST_CASE("rounding to tens is exact in every dtype") {
  // Python's round(integer, -decimals), which is exact.
  const std::vector<std::int64_t> wide = {9007199254740995,
                                          9007199254740985,
                                          -9007199254740995,
                                          -9223372036854775807 - 1,
                                          9223372036854775807,
                                          25,
                                          15,
                                          5,
                                          -5,
                                          0};
  const Array w = array(wide);
  CHECK(round(w, -1).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{9007199254741000, 9007199254740980, -9007199254741000,
                                  9223372036854775806 /* -...810 wraps */, -9223372036854775806, 20, 20, 0, 0, 0});
  CHECK(round(w, -18).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{0, 0, 0, -9000000000000000000, 9000000000000000000, 0, 0, 0, 0, 0});
  CHECK(round(w, -40).to_vector<std::int64_t>() == std::vector<std::int64_t>(10, 0));
  const Array top = convert(array({std::int64_t{-1}}), uint64);  // 2^64 - 1, nearer to 2 * 10^19 than to 10^19
  CHECK(round(top, -10).to_vector<std::uint64_t>() == std::vector<std::uint64_t>{18446744070000000000u});
  CHECK(round(convert(array({44, -45, 55}), int8), -1).to_vector<std::int8_t>() ==
        std::vector<std::int8_t>{40, -40, 60});
  CHECK(round(convert(array({44, -45, 55}), int8), -3).to_vector<std::int8_t>() == std::vector<std::int8_t>(3, 0));
  CHECK(round(array({true, false}), -1).to_vector<bool>() == std::vector<bool>{false, false});
  // numpy.round; a unit beyond the dtype's numbers, and bfloat16, whose products would round once more.
  CHECK(round(array({35.0, -45.0, 1e22}), -1).to_vector<double>() == std::vector<double>{40, -40, 1e22});
  CHECK(round(array({3e38F, -1.F}), -39).to_vector<float>() == std::vector<float>{0, 0});
  CHECK(round(array({1e300, -infinity}), -400).to_vector<double>() == std::vector<double>{0, -infinity});
  CHECK(round(convert(array({3.34375F}), bfloat16), 1).astype(float32).item<float>() == 3.296875F);  // bfloat16's 3.3
}

TEST_CASE("quantiles outside of [0, 1] are an error or NaN") {
  const Array x = array({3.F, 1.F, 2.F});
  expect_error<ValueError>([&] { quantile(x, 1.5); }, "quantile: q is 1.5", "from 0 to 1");
  expect_error<ValueError>([&] { quantile(x, std::nan("")); }, "quantile: q is nan");
  expect_error<ValueError>([&] { percentile(x, -1); }, "percentile: q is -1", "from 0 to 100");
  const Array rows = stack(std::vector<Array>{x, -x}, 1);
  const Array drawn = quantile(rows, array({0.5F, -0.1F, 1.F, 1.1F, static_cast<float>(not_a_number)}), 0);
  CHECK(drawn.shape() == Shape{5, 2});
  const std::vector<float> values = drawn.to_vector<float>();
  CHECK(std::vector<float>{values[0], values[1], values[4], values[5]} == std::vector<float>{2, -2, 3, -1});
  for (const std::size_t i : {2, 3, 6, 7, 8, 9}) CHECK(std::isnan(values[i]));
  CHECK(percentile(x, array({100.F, 0.F})).to_vector<float>() == std::vector<float>{3, 1});
  CHECK(std::isnan(percentile(x, array({100.5F})).to_vector<float>().front()));
}

TEST_CASE("the worst number there is comes before NaN") {
  const double nan = not_a_number, inf = infinity;
  const Array low = array(std::vector<double>{nan, -inf, nan, -inf, nan, nan}, {2, 3});
  CHECK(nanargmax(low, 1).to_vector<int>() == std::vector<int>{1, 0});
  CHECK(nanargmin(low * -1.0, 1).to_vector<int>() == std::vector<int>{1, 0});
  CHECK(nanargmax(low, 0).to_vector<int>() == std::vector<int>{1, 0, -1});
  CHECK(nanargmax(array({2.0, nan, 3.0, 3.0}), 0).item<int>() == 2);
}

TEST_CASE("accumulations, orders and counts have JAX's values") {
  const Array m = array(std::vector<double>{1.5, -2.0, 0.25, 0.5, 3.0, -1.25}, {2, 3}),
              b = array(std::vector<int>{3, 1, 3, 0, 2, 1}, {2, 3});
  const Array n = array(std::vector<double>{1.5, not_a_number, -2.0, not_a_number, not_a_number, 4.0}, {2, 3});
  const Array sorted = array({1.0, 2.0, 2.0, 3.0, not_a_number}), wanted = array({2.0, 0.0, 9.0, not_a_number, 3.0});
  check_reductions({
      {"cumsum", cumsum(m, 1), {2, 3}, {1.5, -0.5, -0.25, 0.5, 3.5, 2.25}},
      {"cumsum, reverse", cumsum(m, 0, true), {2, 3}, {2, 1, -1, 0.5, 3, -1.25}},
      {"cumsum of bool", cumsum(greater(m, 0), 1), {2, 3}, {1, 1, 2, 1, 2, 2}},
      {"cumprod", cumprod(m, -1), {2, 3}, {1.5, -3, -0.75, 0.5, 1.5, -1.875}},
      {"cummax", cummax(m, 1), {2, 3}, {1.5, 1.5, 1.5, 0.5, 3, 3}},
      {"cummin, reverse", cummin(m, 1, true), {2, 3}, {-2, -2, 0.25, -1.25, -1.25, -1.25}},
      {"cummax with NaN",
       cummax(n, 1),
       {2, 3},
       {1.5, not_a_number, not_a_number, not_a_number, not_a_number, not_a_number}},
      {"cumlogsumexp",
       cumlogsumexp(m, 1),
       {2, 3},
       {1.5, 1.52975041827262, 1.775130262247635, 0.5, 3.07888973429255, 3.091985780591969}},
      {"cumlogsumexp of -inf",
       cumlogsumexp(array({-infinity, -infinity, 0.0, infinity})),
       {4},
       {-infinity, -infinity, 0, infinity}},
      {"nancumsum", nancumsum(n, 1), {2, 3}, {1.5, 1.5, -0.5, 0, 0, 4}},
      {"nancumprod", nancumprod(n, 1), {2, 3}, {1.5, 1.5, -3, 1, 1, 4}},
      {"linear_recurrence", linear_recurrence(array({9.0, 2.0, 3.0}), array({1.0, 1.0, -1.0})), {3}, {1, 3, 8}},
      {"linear_recurrence, reverse",
       linear_recurrence(array({2.0, 3.0, 9.0}), 1.0 + zeros({3}, float64), 0, true),
       {3},
       {9, 4, 1}},
      {"linear_recurrence of integers",
       linear_recurrence(array({1, 3, 16777217}), array({1, 0, 1})),
       {3},
       {1, 3, 50331652}},
      {"linear_recurrence of integers wraps",
       linear_recurrence(full({3}, 100, int8), ones({3}, int8)),
       {3},
       {1, 101, 117}},  // 100 * 101 + 1 = 10101 = 39 * 256 + 117
      {"linear_recurrence of bool", linear_recurrence(equal(arange(3), arange(3)), ones({3}, int32)), {3}, {1, 2, 3}},
      {"diff", diff(m), {2, 2}, {-3.5, 2.25, 2.5, -4.25}},
      {"diff twice", diff(m, 2, 1), {2, 1}, {5.75, -6.75}},
      {"diff of bool", diff(greater(m, 0), 1, 1), {2, 2}, {1, 1, 0, 1}},
      {"ediff1d", ediff1d(m), {5}, {-3.5, 2.25, 0.25, 2.5, -4.25}},
      {"gradient", gradient(m, 1, 0.5), {2, 3}, {-7, -1.25, 4.5, 5, -1.75, -8.5}},
      {"sort", sort(n), {2, 3}, {-2, 1.5, not_a_number, 4, not_a_number, not_a_number}},
      {"sort, descending", sort(n, -1, true), {2, 3}, {not_a_number, 1.5, -2, not_a_number, not_a_number, 4}},
      {"sort an axis", sort(m, 0), {2, 3}, {0.5, -2, -1.25, 1.5, 3, 0.25}},
      {"argsort", argsort(n, 1), {2, 3}, {2, 0, 1, 2, 0, 1}},
      {"argsort, descending", argsort(b, 1, true), {2, 3}, {0, 2, 1, 1, 2, 0}},
      {"argsort of ties", argsort(b, 1), {2, 3}, {1, 0, 2, 0, 2, 1}},
      {"lexsort", lexsort(std::vector<Array>{m, convert(b, float64)}, 1), {2, 3}, {1, 2, 0, 0, 2, 1}},
      {"searchsorted", searchsorted(sorted, wanted), {5}, {1, 0, 4, 4, 3}},
      {"searchsorted, right", searchsorted(sorted, wanted, Side::right), {5}, {3, 0, 4, 5, 4}},
      {"digitize", digitize(m, array({-1.0, 0.0, 1.0})), {2, 3}, {3, 0, 2, 2, 3, 0}},
      {"digitize, right", digitize(m, array({-1.0, 0.0, 1.0}), true), {2, 3}, {3, 0, 2, 2, 3, 0}},
      {"digitize, descending", digitize(m, array({1.0, 0.0, -1.0})), {2, 3}, {0, 3, 1, 1, 0, 3}},
      {"bincount", bincount(array({0, 5, 2, 2, -1}), 4), {4}, {2, 0, 2, 0}},
      {"bincount of a dtype that does not hold the length", bincount(array({1, 1}).astype(int8), 200)[1], {}, {2}},
      {"bincount with weights", bincount(ravel(b), 3, ravel(m)), {3}, {0.5, -3.25, 3}},
      {"histogram", histogram(m, 4).first, {4}, {2, 1, 2, 1}},
      {"histogram edges", histogram(m, 4).second, {5}, {-2, -0.75, 0.5, 1.75, 3}},
      {"histogram of a range", histogram(m, 3, std::pair(-1.0, 1.0)).first, {3}, {0, 1, 1}},
      {"histogram with weights", histogram(m, array({-3.0, 0.0, 3.0}), abs(m)), {2}, {3.25, 5.25}},
      {"nonzero", nonzero(b, 6, -1)[1], {6}, {0, 1, 2, 1, 2, -1}},
      {"flatnonzero", flatnonzero(b, 3), {3}, {0, 1, 2}},
      {"argwhere", argwhere(b, 5), {5, 2}, {0, 0, 0, 1, 0, 2, 1, 1, 1, 2}},
      {"unique", unique(b, 4).values, {4}, {0, 1, 2, 3}},
      {"unique, filled", unique(b, 5, array(-7)).values, {5}, {0, 1, 2, 3, -7}},
      {"unique of too many", unique(b, 2).values, {2}, {0, 1}},
      {"unique with NaN", unique(n, 8).values, {8}, {-2, 1.5, 4, not_a_number, -2, -2, -2, -2}},
      {"unique indices", slice_in_dim(unique(b, 3).indices, 0, 3, 0), {3}, {3, 1, 4}},
      {"unique inverse", flatten(unique(b, 4).inverse), {2, 3}, {3, 1, 3, 0, 2, 1}},
      {"unique counts", unique(b, 4).counts, {4}, {1, 2, 1, 2}},
      {"isin", isin(b, array({1, 7})), {2, 3}, {0, 1, 0, 0, 0, 1}},
  });
}

TEST_CASE("derivatives of reductions, accumulations and orders agree with differences") {
  const Array x = array(std::vector<double>{1.5, -2.0, 0.25, 0.5, 3.0, -1.25}, {2, 3});
  const Array y = array(std::vector<double>{0.7, 1.1, -0.4, 2.0, -1.7, 0.9}, {2, 3});
  using F = Array (*)(const Array&, const Array&);
  const std::vector<std::pair<std::string, F>> functions = {
      {"mean", [](const Array& a, const Array& b) { return mean(a, Where(greater(b, 0)), Axes{0}); }},
      {"max", [](const Array& a, const Array& b) { return max(a, Where(greater(b, 0)), -3.0, Axes{0}); }},
      {"stddev", [](const Array& a, const Array&) { return stddev(a, Axes{1}, 1); }},
      {"logsumexp", [](const Array& a, const Array& b) { return logsumexp(a, square(b), Axes{1}); }},
      {"average", [](const Array& a, const Array& b) { return average(a, square(b), Axes{1}); }},
      {"quantile",
       [](const Array& a, const Array&) {
         return quantile(a, array({0.2, 0.9}), 1);
       }},
      {"nanmedian", [](const Array& a, const Array&) { return nanmedian(a, 1); }},
      {"corrcoef",
       [](const Array& a, const Array& b) {
         return corrcoef(concatenate({a, b}, 0));
       }},
      {"cumsum", [](const Array& a, const Array& b) { return cumsum(a, 1) * b; }},
      {"cumprod", [](const Array& a, const Array& b) { return cumprod(a, 1, true) * b; }},
      {"cummax", [](const Array& a, const Array& b) { return cummax(a, 1) * b; }},
      {"cumlogsumexp", [](const Array& a, const Array& b) { return cumlogsumexp(a, 1) * b; }},
      {"linear_recurrence", [](const Array& a, const Array& b) { return linear_recurrence(a, b, 1); }},
      {"sort", [](const Array& a, const Array& b) { return sort(a) * b; }},
      {"gradient", [](const Array& a, const Array& b) { return gradient(a, 1, 0.5) * b; }},
      {"histogram",
       [](const Array& a, const Array& b) {
         return square(histogram(a, array({-3.0, 0.1, 4.0}), b));
       }},
  };
  for (const auto& [what, f] : functions) {
    CAPTURE(what);
    check_slopes([f = f](const Array& a, const Array& b) { return sum(f(a, b)); }, x, y);
  }
}

TEST_CASE("reductions refuse what they cannot take") {
  const Array m = ones({2, 3});
  expect_error<ShapeError>([&] { sum(m, Where(ones({2}, bool_))); }, "sum", "[2]");
  expect_error<ShapeError>([&] { logsumexp(m, ones({3})); }, "logsumexp", "[2,3]", "[3]");
  expect_error<ShapeError>([&] { average(m, ones({3}), Axes{0}); }, "average", "[3]");
  expect_error<ShapeError>([] { median(ones({0})); }, "median", "no elements");
  // As NumPy: no observations are left to divide by.
  CHECK(all(isnan(cov(ones({2, 1})))).item<bool>());
  CHECK(all(isnan(cov(arange(6, float32), 7))).item<bool>());
  expect_error<ShapeError>([] { cov(ones({1, 2, 3})); }, "cov", "[1,2,3]");
  expect_error<ShapeError>([&] { cumsum(m, 2); }, "cumsum");
  expect_error<ValueError>([&] { diff(m, -1); }, "diff", "-1");
  expect_error<ShapeError>([] { gradient(ones({1})); }, "gradient", "at least 2 points");
  expect_error<ShapeError>([&] { searchsorted(m, m); }, "searchsorted", "[2,3]");
  expect_error<ValueError>([] { sort(std::vector<Array>{}); }, "sort", "no arrays");
  expect_error<ValueError>([] { lexsort(std::vector<Array>{}); }, "lexsort", "no keys");
  expect_error<ValueError>([] { bincount(array({1}), -1); }, "bincount", "-1");
  expect_error<DtypeError>([] { bincount(ones({2}), 2); }, "bincount", "integers");
  expect_error<ShapeError>([] { bincount(array({1}), 2, ones({2})); }, "bincount", "weights");
  expect_error<ValueError>([] { histogram(ones({2}), 0); }, "histogram", "0 bins");
  expect_error<ShapeError>([] { histogram(ones({2}), ones({1})); }, "histogram", "at least 2");
  expect_error<ShapeError>([] { nonzero(array(1.f), 1); }, "nonzero", "scalar");
  expect_error<ValueError>([] { flatnonzero(ones({2}), -1); }, "flatnonzero", "-1");
  expect_error<ShapeError>([] { unique(ones({0}), 1); }, "unique", "no elements");
}

TEST_CASE("empty arrays") {
  check_close(cumsum(zeros({0, 2})), {0, 2}, {});
  check_close(sort(zeros({0})), {0}, {});
  check_close(bincount(zeros({0}, int32), 2), {2}, {0, 0});
  check_close(nonzero(zeros({0}), 2, 5)[0], {2}, {5, 5});
  check_close(searchsorted(zeros({0}), ones({2})), {2}, {0, 0});
  check_close(histogram(zeros({0}), 2).first, {2}, {0, 0});
  check_close(diff(zeros({0}, float32), 1), {0}, {});
}
