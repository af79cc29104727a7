#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/control_flow.h>
#include <lockstep/elementwise.h>
#include <lockstep/ops.h>
#include <lockstep/reductions.h>
#include <lockstep/transforms.h>

#include "tests/support/array_values.h"

// Long prefix sums, whose errors must not grow with their length. Expected are closed forms, and sums in long double of the
// elements as their dtype has them.
using namespace lockstep;

namespace {

/// |given - expected| / |expected|, the largest of all elements.
double largest_error(const std::vector<double>& given, const std::vector<long double>& expected) {
  REQUIRE(given.size() == expected.size());
  long double largest = 0;
  for (std::size_t i = 0; i < given.size(); ++i) {
    largest = std::max(largest, std::abs(given[i] - expected[i]) / std::abs(expected[i]));
  }
  return static_cast<double>(largest);
}

/// y[i] = step(y[i-1], i) from y[0] on, forward or from the end.
template <class Step>
std::vector<long double> running(std::size_t n, bool reverse, Step step) {
  std::vector<long double> y(n);
  long double carried = 0;
  for (std::size_t k = 0; k < n; ++k) {
    const std::size_t i = reverse ? n - 1 - k : k;
    y[i] = carried = step(carried, i, k == 0);
  }
  return y;
}

/// Rounding once gives half of this at most, but for what the expected value itself has lost on so long a way.
double unit_of(DType dtype, std::int64_t length) {
  const double unit = dtype == float64 ? 0x1p-52 : dtype == float32 ? 0x1p-23 : dtype == float16 ? 0x1p-10 : 0x1p-7;
  return unit + static_cast<double>(length) * static_cast<double>(std::numeric_limits<long double>::epsilon()) / 2;
}

}  // namespace

TEST_CASE("the end of a long running sum is the sum") {
  const std::int64_t n = 10'000'000;
  const Array tenths = cumsum(full({n}, 0.1, float32));
  CHECK(tenths[n - 1].item<float>() == doctest::Approx(1'000'000.0149).epsilon(1e-7));  // 10^7 times 0.1F
  CHECK(cumsum(full({n}, 0.1, float64))[n - 1].item<double>() == 1'000'000);
  const std::int64_t beyond = (1 << 24) + (1 << 20);
  CHECK(cumsum(ones({beyond}, float32))[beyond - 1].item<float>() == static_cast<float>(beyond));
  CHECK(cumsum(ones({beyond}, float32), 0, true)[0].item<float>() == static_cast<float>(beyond));
  CHECK(cumsum(ones({4096}, float16))[4095].astype(float32).item<float>() == 4096);
  CHECK(cumsum(ones({32768}, bfloat16))[32767].astype(float32).item<float>() == 32768);
  const auto total = [](const Array& x) { return sum(cumsum(x) * full_like(x, 0.1)); };
  CHECK(grad(total)(ones({n}, float32))[0].item<float>() == doctest::Approx(1'000'000.0149).epsilon(1e-7));
}

TEST_CASE("every prefix is as exact as its dtype, in each direction and each place of the axis") {
  const std::int64_t n = 20000;
  const Array wave = sin(convert(arange(n), float64) * 0.37);
  for (const DType dtype : {float64, float32, float16, bfloat16}) {
    for (const bool reverse : {false, true}) {
      CAPTURE(name(dtype));
      CAPTURE(reverse);
      const auto check = [&](const char* what, const Array& x, Array (*op)(const ArrayOperand&, std::int64_t, bool),
                             auto step) {
        CAPTURE(what);
        const std::vector<double> elements = tests::values(x);
        const auto expected = running(elements.size(), reverse, [&](long double y, std::size_t i, bool first) {
          return first ? static_cast<long double>(elements[i]) : step(y, static_cast<long double>(elements[i]));
        });
        CHECK(largest_error(tests::values(op(x, 0, reverse)), expected) <= unit_of(dtype, n));
        const Array pair = op(stack(std::vector<Array>{x, x}, 1), 0, reverse);
        CHECK(tests::values(squeeze(slice_in_dim(pair, 1, 2, 1), {1})) == tests::values(op(x, 0, reverse)));
      };
      check("sum", convert(wave + 1.5, dtype), cumsum, [](long double y, long double x) { return y + x; });
      check("product", convert(1 + wave * (dtype == bfloat16 ? 0.02 : 0.004), dtype), cumprod,
            [](long double y, long double x) { return y * x; });
      check("logsumexp", convert(wave * 3 + 2, dtype), cumlogsumexp,
            [](long double y, long double x) { return std::max(x, y) + std::log1p(std::exp(-std::abs(x - y))); });
    }
  }
}

TEST_CASE("a linear recurrence and its derivatives do not lose what is added") {
  const std::int64_t n = 300'000;
  for (const DType dtype : {float64, float32}) {
    CAPTURE(name(dtype));
    const Array decay = full({n}, 1 - 0x1p-16, dtype), added = full({n}, 0.1, dtype);
    const double a = 1 - 0x1p-16, b = added[0].astype(float64).item<double>();
    const auto expected =
        running(static_cast<std::size_t>(n), false, [&](long double y, std::size_t, bool) { return a * y + b; });
    CHECK(largest_error(tests::values(linear_recurrence(decay, added)), expected) <= unit_of(dtype, n));
    const auto total = [&](const Array& x) { return sum(linear_recurrence(decay, x)); };
    const auto slopes =
        running(static_cast<std::size_t>(n), true, [&](long double y, std::size_t, bool) { return a * y + 1; });
    CHECK(largest_error(tests::values(grad(total)(added)), slopes) <= unit_of(dtype, n));
  }
}

TEST_CASE("derivatives of running products and logarithms of sums stay exact over long axes") {
  const std::int64_t n = 100'000;
  const Array x = convert(sin(convert(arange(n), float64) * 0.37), float32);
  // d y[n-1] / d x[0] of both in closed form.
  const auto last = [n](const Array& y) { return y[n - 1]; };
  const Array factors = 1 + x * 0.0001;
  const Array slope = grad([&](const Array& v) { return last(cumprod(v)); })(factors);
  const std::vector<double> f = tests::values(factors);
  long double product = 1;
  for (std::size_t i = 1; i < f.size(); ++i) product *= f[i];
  CHECK(slope[0].item<float>() == doctest::Approx(static_cast<double>(product)).epsilon(1e-6));
  const Array shares = grad([&](const Array& v) { return last(cumlogsumexp(v)); })(x);
  const std::vector<double> e = tests::values(x), given = tests::values(shares);
  long double total = 0;
  for (const double element : e) total += std::exp(static_cast<long double>(element));
  std::vector<long double> expected;
  for (const double element : e) expected.push_back(std::exp(static_cast<long double>(element)) / total);
  CHECK(largest_error(given, expected) <= 1e-6);
}

TEST_CASE("a running logarithm of sums keeps what is small beside a zero") {
  // log(1 + exp(-40)) by mpmath
  CHECK(cumlogsumexp(array({0.0, -40.0}))[1].item<double>() / 4.248354255291589e-18 ==
        doctest::Approx(1).epsilon(1e-15));
  CHECK(cumlogsumexp(array({-40.F, 0.F}))[1].item<float>() / 4.248354255291589e-18 == doctest::Approx(1).epsilon(1e-7));
}

TEST_CASE("a scan adds up what it has for a constant of 16 bits in float32") {
  const std::int64_t n = 4096;
  for (const DType dtype : {bfloat16, float16}) {
    CAPTURE(name(dtype));
    const Array x = full({n, 2}, 0.25, dtype);
    const auto f = [&](const Array& w) {
      const auto body = [&](const Array& carry, const Array& row) {
        return std::pair(carry * 0.5 + convert(sum(w * row), float32), row);
      };
      return scan(body, zeros({}, float32), x).first;
    };
    const auto g = [&](const Array& w) {
      const auto body = [&](const Array& carry, const Array& row) {
        return std::pair(carry + convert(sum(w * row), float32), row);
      };
      return scan(body, zeros({}, float32), x).first;
    };
    // One by one in the dtype, such a sum ends at 64 in bfloat16 and at 512 in float16.
    CHECK(tests::values(grad(g)(ones({2}, dtype))) == std::vector<double>{1024, 1024});
    CHECK(tests::values(grad(f)(ones({2}, dtype))) == std::vector<double>{0.5, 0.5});
  }
}
