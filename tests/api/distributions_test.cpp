#include <numbers>

#include <doctest/doctest.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/random.h>

#include "tests/api/kolmogorov_smirnov.h"
#include "tests/support/expect_error.h"

// Draws of every continuous distribution against its distribution function.
using namespace lockstep;
using tests::check_distribution;
using tests::expect_error;
using tests::many;

namespace {

double normal_cdf(double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; }

/// P(a, x) by its series, for the moderate arguments of tests.
double gamma_cdf(double a, double x) {
  if (x <= 0) return 0;
  double term = 1, sum = 1;
  for (int n = 1; n < 10000 && term > 1e-17 * sum; ++n) sum += term *= x / (a + n);
  return std::min(1.0, sum * std::exp(a * std::log(x) - x - std::lgamma(a + 1)));
}

/// The integral of `density` from 0 to x by Simpson's rule.
double integral(const std::function<double(double)>& density, double x, int steps = 2000) {
  const double h = x / steps;
  double sum = density(0) + density(x);
  for (int i = 1; i < steps; ++i) sum += (i % 2 == 1 ? 4 : 2) * density(i * h);
  return sum * h / 3;
}

/// I_x(a, b) for a, b >= 1.
double beta_cdf(double a, double b, double x) {
  const double scale = std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b));
  return std::clamp(integral([&](double y) { return scale * std::pow(y, a - 1) * std::pow(1 - y, b - 1); }, x, 200),
                    0.0, 1.0);
}

}  // namespace

TEST_CASE("uniforms of every dtype") {
  for (const DType dtype : {float32, float64}) {
    check_distribution(random::uniform(random::key(1), many(), dtype), [](double x) { return x; });
  }
  // One step of the grid is allowed for: the values are k / 2^mantissa.
  for (const auto& [dtype, step] : {std::pair(float16, 0x1p-10), std::pair(bfloat16, 0x1p-7)}) {
    const Array u = random::uniform(random::key(2), many(), dtype);
    const Array inside = convert(u, float64) + random::uniform(random::key(3), many(), float64) * step;
    check_distribution(inside, [](double x) { return x; });
  }
}

TEST_CASE("functions of one uniform") {
  const auto none = random::Placement{};
  for (const DType dtype : {float32, float64}) {
    CAPTURE(name(dtype));
    check_distribution(random::normal(random::key(1), many(), dtype), normal_cdf);
    check_distribution(random::lognormal(random::key(2), 0.5, many(), dtype),
                       [](double x) { return normal_cdf(std::log(x) / 0.5); });
    check_distribution(random::truncated_normal(random::key(3), -1.0, 2.0, many(), dtype),
                       [](double x) { return (normal_cdf(x) - normal_cdf(-1)) / (normal_cdf(2) - normal_cdf(-1)); });
    check_distribution(random::exponential(random::key(4), many(), dtype), [](double x) { return 1 - std::exp(-x); });
    check_distribution(random::laplace(random::key(5), many(), dtype),
                       [](double x) { return x < 0 ? std::exp(x) / 2 : 1 - std::exp(-x) / 2; });
    check_distribution(random::logistic(random::key(6), many(), dtype),
                       [](double x) { return 1 / (1 + std::exp(-x)); });
    check_distribution(random::gumbel(random::key(7), many(), dtype), [](double x) { return std::exp(-std::exp(-x)); });
    check_distribution(random::cauchy(random::key(8), many(), dtype),
                       [](double x) { return 0.5 + std::atan(x) / std::numbers::pi; });
    check_distribution(random::pareto(random::key(9), 2.5, many(), dtype),
                       [](double x) { return 1 - std::pow(x, -2.5); });
    check_distribution(random::rayleigh(random::key(10), 1.5, many(), dtype),
                       [](double x) { return 1 - std::exp(-x * x / 4.5); });
    check_distribution(random::weibull_min(random::key(11), 2.0, 0.7, many(), dtype),
                       [](double x) { return 1 - std::exp(-std::pow(x / 2, 0.7)); });
    check_distribution(random::triangular(random::key(12), -1.0, 0.5, 2.0, many(), dtype, none),
                       [](double x) { return x < 0.5 ? (x + 1) * (x + 1) / 4.5 : 1 - (2 - x) * (2 - x) / 4.5; });
  }
}

TEST_CASE("functions of several draws") {
  const auto maxwell_cdf = [](double x) {
    return std::erf(x / std::numbers::sqrt2) - std::sqrt(2 / std::numbers::pi) * x * std::exp(-x * x / 2);
  };
  check_distribution(random::maxwell(random::key(1), many()), maxwell_cdf);
  check_distribution(random::double_sided_maxwell(random::key(2), 1.0, 2.0, many()), [&](double x) {
    const double z = (x - 1) / 2;
    return z < 0 ? (1 - maxwell_cdf(-z)) / 2 : (1 + maxwell_cdf(z)) / 2;
  });
  check_distribution(random::wald(random::key(3), 1.5, many(), float64), [](double x) {
    const double root = std::sqrt(1 / x);
    return normal_cdf(root * (x / 1.5 - 1)) + std::exp(2 / 1.5) * normal_cdf(-root * (x / 1.5 + 1));
  });
}

TEST_CASE("gammas of shapes from far below 1 to far above") {
  for (const double a : {0.05, 0.5, 1.0, 3.0, 40.0}) {
    CAPTURE(a);
    for (const DType dtype : {float32, float64}) {
      const auto cdf = [a](double x) { return gamma_cdf(a, x); };
      // A float32 below the smallest is 0: its share of the distribution is there, but not spread.
      if (a > 0.1 || dtype == float64) check_distribution(random::gamma(random::key(1), a, many(), dtype), cdf);
      check_distribution(random::loggamma(random::key(2), a, many(), dtype),
                         [&](double x) { return x < -600 ? std::exp(a * x - std::lgamma(a + 1)) : cdf(std::exp(x)); });
    }
  }
  check_distribution((random::gamma(random::key(3), 1e4, many()) - 1e4) / 100,
                     [](double z) { return normal_cdf(z - (z * z - 1) / 300); });
}

TEST_CASE("distributions made of gammas") {
  check_distribution(random::beta(random::key(1), 2.0, 3.5, many()), [](double x) { return beta_cdf(2, 3.5, x); });
  check_distribution(random::chisquare(random::key(2), 3.0, many()), [](double x) { return gamma_cdf(1.5, x / 2); });
  check_distribution(random::f(random::key(3), 4.0, 6.0, many()),
                     [](double x) { return beta_cdf(2, 3, 4 * x / (4 * x + 6)); });
  check_distribution(random::t(random::key(4), 3.0, many()), [](double x) {
    const double z = x / std::sqrt(3.0);
    return 0.5 + (z / (1 + z * z) + std::atan(z)) / std::numbers::pi;
  });
  check_distribution(random::generalized_normal(random::key(5), 1.5, many()), [](double x) {
    const double half = gamma_cdf(1 / 1.5, std::pow(std::abs(x), 1.5)) / 2;
    return x < 0 ? 0.5 - half : 0.5 + half;
  });
  const Array point = random::dirichlet(random::key(6), array({2.f, 1.f, 2.5f}), many());
  tests::check_close(sum(point, {{-1}}), many(), std::vector<double>(20000, 1), 1e-6);
  check_distribution(squeeze(slice_in_dim(point, 0, 1, 1), {1}), [](double x) { return beta_cdf(2, 3.5, x); });
  const Array inside = random::ball(random::key(7), 3, 2, many());
  check_distribution(sqrt(sum(square(inside), {{-1}})), [](double r) { return r * r * r; });
  check_distribution(sum(abs(random::ball(random::key(8), 2, 1, many())), {{-1}}), [](double r) { return r * r; });
}

TEST_CASE("normal vectors and orthogonal matrices") {
  const Array covariance = array({{2., .5}, {.5, 1.}});
  const Array x = random::multivariate_normal(random::key(1), array({1., -1.}), covariance, many(), float64);
  // Any direction is normal: (x - mean) . (1, 2) of variance 2 + 4 * 0.5 + 4.
  const Array along = sum((x - array({1., -1.})) * array({1., 2.}), {{-1}}) / std::sqrt(8.0);
  check_distribution(along, normal_cdf);
  expect_error<ShapeError>(
      [] {
        random::multivariate_normal(random::key(1), ones({2}), ones({3, 3}), {});
      },
      "multivariate_normal", "[2]", "[3,3]");
  const Array q = random::orthogonal(random::key(2), 3, {5000});
  const Array product = matmul(q, swapaxes(q, -1, -2));
  tests::check_close(max(abs(product - eye(3))) < 1e-5, {}, {1});
  // An element is a coordinate of a point on the sphere, which is uniform on [-1, 1] in three dimensions.
  for (std::int64_t i = 0; i < 3; ++i) {
    check_distribution(slice(q, {0, i, 2 - i}, {5000, i + 1, 3 - i}), [](double c) { return (c + 1) / 2; });
  }
  CHECK(random::orthogonal(random::key(3), 2, {4}, float64, 5).shape() == Shape{4, 2, 5});
  CHECK(random::orthogonal(random::key(3), 5, {}, float32, 2).shape() == Shape{5, 2});
  expect_error<ValueError>([] { random::orthogonal(random::key(3), 0); }, "random::orthogonal", "at least 1");
}

TEST_CASE("parameters broadcast to the draw") {
  const Array mixed = random::gamma(random::key(9), array({0.5f, 3.f}), {20000, 2});
  check_distribution(slice_in_dim(mixed, 0, 1, 1), [](double x) { return gamma_cdf(0.5, x); });
  check_distribution(slice_in_dim(mixed, 1, 2, 1), [](double x) { return gamma_cdf(3, x); });
}
