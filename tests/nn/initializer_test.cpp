#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/error.h>
#include <lockstep/initializers.h>
#include <lockstep/ops.h>
#include <lockstep/random.h>

#include "tests/support/expect_error.h"

using namespace lockstep;

namespace {

struct Moments {
  double mean = 0;
  double variance = 0;
  double low = 0;
  double high = 0;
};

Moments moments(const Initializer& initializer, const Shape& shape) {
  const std::vector<float> x = initializer(random::key(11), shape, float32).to_vector<float>();
  Moments m{0, 0, x[0], x[0]};
  for (const float v : x) m.mean += v / static_cast<double>(x.size());
  for (const float v : x) {
    m.variance += (v - m.mean) * (v - m.mean) / static_cast<double>(x.size());
    m.low = std::min<double>(m.low, v);
    m.high = std::max<double>(m.high, v);
  }
  return m;
}

/// A variance has a relative standard error of about sqrt(2 / n); the samples below are 4 to 5 of them wide.
constexpr double tolerance = 0.02;

}  // namespace

TEST_CASE("constants, in the shape and dtype asked for") {
  for (const DType dtype : {float32, float64, int32}) {
    for (const auto& [initializer, value] :
         {std::pair{initializers::zeros(), 0.0}, {initializers::ones(), 1.0}, {initializers::constant(3), 3.0}}) {
      const Array x = initializer(random::key(0), {2, 3}, dtype);
      CHECK(to_string(x.type()) == to_string(ArrayType{dtype, {2, 3}, {}}));
      CHECK(convert(x, float64).to_vector<double>() == std::vector<double>(6, value));
    }
  }
  CHECK(initializers::constant(0.5)(random::key(0), {}, float32).item<double>() == 0.5);
}

TEST_CASE("normal, truncated normal and uniform have the moments and bounds they name") {
  const Shape shape{400, 100};
  const Moments normal = moments(initializers::normal(0.3), shape);
  CHECK(std::abs(normal.mean) < 0.01);
  CHECK(normal.variance == doctest::Approx(0.09).epsilon(tolerance));
  CHECK(normal.high > 0.9);  // beyond three deviations

  // The standard deviation is that of the result; what is cut off lies beyond two deviations of the wider normal.
  const Moments cut = moments(initializers::truncated_normal(0.3), shape);
  CHECK(std::abs(cut.mean) < 0.01);
  CHECK(cut.variance == doctest::Approx(0.09).epsilon(tolerance));
  const double bound = 2 * 0.3 / 0.87962566103423978;
  CHECK(cut.high <= bound + 1e-6);
  CHECK(cut.low >= -bound - 1e-6);
  CHECK(cut.high > 0.98 * bound);

  const Moments uniform = moments(initializers::uniform(-1, 3), shape);
  CHECK(uniform.mean == doctest::Approx(1).epsilon(tolerance));
  CHECK(uniform.variance == doctest::Approx(16.0 / 12).epsilon(tolerance));
  CHECK(uniform.low >= -1);
  CHECK(uniform.high < 3);
}

TEST_CASE("the scaled families: variance = scale / fan, for dense and convolution kernels") {
  struct Case {
    std::string name;
    Initializer initializer;
    double scale;
    bool average;  ///< Of fan in and fan out, else fan in.
    bool uniform;
  };
  const std::vector<Case> cases = {
      {"glorot_uniform", initializers::glorot_uniform(), 1, true, true},
      {"glorot_normal", initializers::glorot_normal(), 1, true, false},
      {"he_uniform", initializers::he_uniform(), 2, false, true},
      {"he_normal", initializers::he_normal(), 2, false, false},
      {"lecun_uniform", initializers::lecun_uniform(), 1, false, true},
      {"lecun_normal", initializers::lecun_normal(), 1, false, false},
  };
  struct Filter {
    Shape shape;
    double fan_in;
    double fan_out;
  };
  const std::vector<Filter> kernels = {{{100, 400}, 100, 400}, {{3, 5, 20, 150}, 300, 2250}, {{40000}, 40000, 40000}};
  for (const Case& c : cases) {
    for (const Filter& k : kernels) {
      CAPTURE(c.name);
      CAPTURE(to_string(k.shape));
      const double variance = c.scale / (c.average ? (k.fan_in + k.fan_out) / 2 : k.fan_in);
      const Moments m = moments(c.initializer, k.shape);
      CHECK(m.variance == doctest::Approx(variance).epsilon(tolerance));
      CHECK(std::abs(m.mean) < 0.03 * std::sqrt(variance));
      const double bound = c.uniform ? std::sqrt(3 * variance) : 2 * std::sqrt(variance) / 0.87962566103423978;
      CHECK(m.high <= bound * (1 + 1e-6));
      CHECK(m.high > 0.98 * bound);
      CHECK(m.low < -0.98 * bound);
    }
  }
}

TEST_CASE("orthogonal kernels: columns or rows, whichever are fewer, are orthonormal") {
  for (const Shape& shape : {Shape{3, 2, 4}, Shape{3, 5}}) {
    const std::int64_t columns = shape[shape.rank() - 1], rows = shape.size() / columns;
    const Array w = reshape(initializers::orthogonal(2)(random::key(5), shape, float64), {rows, columns});
    const Array products = rows < columns ? matmul(w, transpose(w)) : matmul(transpose(w), w);
    CHECK(max(abs(products - 4 * eye(std::min(rows, columns), float64))).item<double>() < 1e-12);
  }
  CHECK(initializers::orthogonal()(random::key(5), {0, 3}, float32).size() == 0);
  tests::expect_error<ShapeError>([] { initializers::orthogonal()(random::key(5), {3}, float32); },
                                  "initializers::orthogonal", "[3]", "rank 2 or more");
}

TEST_CASE("a scalar has fans of 1; sizes of 0 are no error") {
  CHECK(std::abs(initializers::he_uniform()(random::key(1), {}, float64).item<double>()) <= std::sqrt(6.0));
  CHECK(initializers::glorot_normal()(random::key(1), {0, 4}, float32).size() == 0);
}

TEST_CASE("the same key gives the same values, another key others") {
  const auto draw = [](std::uint64_t seed) {
    return initializers::he_normal()(random::key(seed), {3, 4}, float32).to_bytes();
  };
  CHECK(draw(1) == draw(1));
  CHECK(draw(1) != draw(2));
}
