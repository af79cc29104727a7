#include <cmath>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/activations.h>
#include <lockstep/ops.h>
#include <lockstep/reductions.h>
#include <lockstep/transforms.h>

#include "tests/support/array_values.h"
#include "tests/support/gradient_checks.h"

// What measures how elements differ is 0 where they do not, whatever they are and however many.
using namespace lockstep;

namespace {

bool all_zero(const Array& x) {
  for (const double element : tests::values(x)) {
    if (element != 0) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("equal elements have no variance") {
  for (const DType dtype : {float64, float32, float16, bfloat16}) {
    for (const double value : {1234.5677, 1e10, 3e38, -0.1, 1e-30, 0.0}) {
      if (dtype == float16 && std::abs(value) > 65504) continue;
      for (const std::int64_t n : {1, 3, 33, 257, 1000, 100'003}) {
        CAPTURE(name(dtype));
        CAPTURE(value);
        CAPTURE(n);
        const Array row = full({1, n}, value, dtype), column = full({n, 1}, value, dtype), all = full({n}, true, bool_);
        CHECK(all_zero(var(row, Axes{1})));
        CHECK(all_zero(var(column, Axes{0})));
        CHECK(all_zero(var(row)));
        CHECK(all_zero(stddev(row, Axes{1})));
        CHECK(all_zero(variance(row, Axes{1}, n > 1 ? 1 : 0)));
        CHECK(all_zero(var(row, Where(all), Axes{1})));
        CHECK(all_zero(nanvar(column, Axes{0})));
        if (n > 1) CHECK(all_zero(cov(row)));
        CHECK(all_zero(standardize(row, -1, 1e-12)));
        CHECK(all_zero(grad([](const Array& x) { return sum(convert(var(x, Axes{1}), float32)); })(row)));
        CHECK(all_zero(grad([](const Array& x) { return sum(convert(stddev(x, Axes{1}), float32)); })(row)));
        CHECK(all_zero(grad([](const Array& x) { return sum(convert(nanstd(x, Axes{1}), float32)); })(row)));
      }
    }
  }
}

TEST_CASE("variances and their derivatives beside a large mean") {
  // 10^4 + k / 1024, k = 0 ... 63, exact in float32: the variance is (64^2 - 1) / 12 / 2^20.
  const Array x = 1e4 + convert(arange(64), float32) / 1024;
  CHECK(var(x).item<float>() / (4095.0 / 12 / 1048576) == doctest::Approx(1).epsilon(1e-6));
  CHECK(variance(x, std::nullopt, 1).item<float>() / (4095.0 / 12 / 1048576 * 64 / 63) ==
        doctest::Approx(1).epsilon(1e-6));
  const Array wave = tests::wavy({3, 7});
  tests::check_gradient([](const Array& v) { return var(v, Axes{1}); }, wave, 2);
  tests::check_gradient([](const Array& v) { return variance(v, Axes{0}, 1); }, wave, 2);
  tests::check_gradient([](const Array& v) { return standardize(v, 1); }, wave, 2);
  tests::check_gradient([&](const Array& v) { return var(v, Where(greater(wave, -0.4)), Axes{1}); }, wave, 2);
}

TEST_CASE("statistics of narrow dtypes are taken in float32") {
  const Array x = array({300.F, -300.F, 300.F, -300.F}).astype(float16);
  CHECK(stddev(x).astype(float32).item<float>() == 300);  // its square is beyond float16
  CHECK(average(full({4096}, 1.0, float16), full({4096}, 100.0, float16)).astype(float32).item<float>() == 1);
  CHECK(mean(full({100'000}, 3.0, float16)).astype(float32).item<float>() == 3);
  CHECK(mean(full({100'000}, 3.0, bfloat16)).astype(float32).item<float>() == 3);
  const Array halves = softmax(zeros({100'000}, float16));
  CHECK(halves.dtype() == float16);
  CHECK(halves[0].astype(float64).item<double>() == full({}, 1e-5, float16).astype(float64).item<double>());
  CHECK(log_softmax(zeros({100'000}, float16))[7].astype(float32).item<float>() ==
        doctest::Approx(-11.5129).epsilon(1e-3));
  CHECK(logsumexp(zeros({100'000}, float16)).astype(float32).item<float>() == doctest::Approx(11.5129).epsilon(1e-3));
}

TEST_CASE("places of quantiles are as exact as the count needs") {
  // Elements are their own places, all exact in bfloat16 and float16.
  const Array few = convert(arange(201), bfloat16);
  CHECK(quantile(few, 0.995, 0, Quantile::lower).astype(float32).item<float>() == 199);
  CHECK(percentile(few, array({99.5F, 0.5F}), 0, Quantile::higher).astype(float32).to_vector<float>() ==
        std::vector<float>{199, 1});
  const Array many =
      convert(floor(convert(arange(10'001), float32) / 5000), float16);  // 0, then 1 from 5000 on, then 2
  CHECK(median(many).astype(float32).item<float>() == 1);
  CHECK(quantile(many, 0.49995, 0, Quantile::lower).astype(float32).item<float>() == 0);
  CHECK(median(full({2}, 60000.0, float16)).astype(float32).item<float>() == 60000);
  CHECK(nanmedian(full({2}, 3e38, float32)).item<float>() == 3e38F);
}
