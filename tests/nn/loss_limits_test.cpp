#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/derivatives.h>
#include <lockstep/losses.h>
#include <lockstep/metrics.h>
#include <lockstep/ops.h>
#include <lockstep/transforms.h>

using namespace lockstep;

// Losses where the functions they are made of have kinks or infinities. The right values are limits, by hand.
namespace {

const double infinity = std::numeric_limits<double>::infinity();

Array row(std::vector<double> x, DType dtype) {
  const auto n = static_cast<std::int64_t>(x.size());
  return convert(array(std::move(x), {1, n}), dtype);
}
std::vector<double> numbers(const Array& x) { return convert(x, float64).to_vector<double>(); }

void are_near(const std::vector<double>& given, const std::vector<double>& expected, double bound) {
  REQUIRE(given.size() == expected.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i] == expected[i]) continue;
    CHECK_MESSAGE(std::abs(given[i] - expected[i]) <= bound * std::max(1.0, std::abs(expected[i])),
                  "element " << i << " is " << given[i] << ", not " << expected[i]);
  }
}

double unit(DType dtype) {
  return dtype == float16 ? 0x1p-9 : dtype == bfloat16 ? 0x1p-6 : dtype == float32 ? 0x1p-21 : 0x1p-50;
}

}  // namespace

TEST_CASE("binary cross entropy at logit 0 has the gradient 0.5 - y and the second derivative 0.25") {
  for (const DType dtype : {float16, bfloat16, float32, float64}) {
    for (const double y : {0.0, 0.25, 1.0}) {
      CAPTURE(name(dtype));
      CAPTURE(y);
      const Array label = convert(array(std::vector<double>{y}), dtype), zero = zeros({1}, dtype);
      const auto loss = [&](const Array& x) { return binary_cross_entropy(x, label).sum; };
      are_near(numbers(grad(loss)(zero)), {0.5 - y}, unit(dtype));
      const auto slope = [&](const Array& x) { return sum(grad(loss)(x)); };
      are_near(numbers(grad(slope)(zero)), {0.25}, unit(dtype));
      const auto tangent = [&](const Array& x) { return jvp(loss, std::tuple(x), std::tuple(ones_like(x))).second; };
      are_near(numbers(grad(tangent)(zero)), {0.25}, unit(dtype));
    }
  }
}

TEST_CASE("binary cross entropy at infinite logits is 0 or infinite, and its gradient a number") {
  struct Case {
    double logit, label, loss, slope;
  };
  for (const DType dtype : {float16, bfloat16, float32, float64}) {
    for (const Case& c : {Case{infinity, 1, 0, 0}, Case{-infinity, 0, 0, 0}, Case{infinity, 0, infinity, 1},
                          Case{-infinity, 1, infinity, -1}}) {
      CAPTURE(c.logit);
      CAPTURE(c.label);
      const Array label = convert(array(std::vector<double>{c.label}), dtype);
      const auto loss = [&](const Array& x) { return binary_cross_entropy(x, label).sum; };
      const auto [v, g] = value_and_grad(loss)(convert(array(std::vector<double>{c.logit}), dtype));
      CHECK(numbers(v)[0] == c.loss);
      CHECK(numbers(g)[0] == c.slope);
    }
  }
}

TEST_CASE("huber is a square around 0: its second derivative there is 1") {
  for (const DType dtype : {float32, float64}) {
    const auto loss = [](const Array& x) { return huber(x, zeros_like(x)).sum; };
    const Array x = convert(array({0.0, 0.5, -2.0, infinity}), dtype);
    are_near(numbers(grad(loss)(x)), {0, 0.5, -1, 1}, unit(dtype));
    const auto slope = [&](const Array& v) { return sum(grad(loss)(v)); };
    are_near(numbers(grad(slope)(x)), {1, 1, 0, 0}, unit(dtype));
    const auto tangent = [&](const Array& v) { return jvp(loss, std::tuple(v), std::tuple(ones_like(v))).second; };
    are_near(numbers(grad(tangent)(x)), {1, 1, 0, 0}, unit(dtype));
  }
}

TEST_CASE("cross entropy is finite where an infinite logit says what the label says") {
  struct Case {
    std::vector<double> logits, labels, gradient;
    double loss;
  };
  const double ln2 = std::log(2.0);
  const std::vector<Case> cases = {{{0, 0, -infinity}, {1, 0, 0}, {-0.5, 0.5, 0}, ln2},
                                   {{0, -infinity, 0}, {0.5, 0, 0.5}, {0, 0, 0}, ln2},
                                   {{0, infinity, 3}, {0, 1, 0}, {0, 0, 0}, 0},
                                   {{0, infinity, -infinity}, {1, 0, 0}, {-1, 1, 0}, infinity},
                                   {{0, 0, -infinity}, {0, 0, 1}, {0.5, 0.5, -1}, infinity}};
  for (const DType dtype : {float16, bfloat16, float32, float64}) {
    for (const Case& c : cases) {
      CAPTURE(name(dtype));
      CAPTURE(c.logits[2]);
      const Array dense = row(c.labels, dtype);
      const auto loss = [&](const Array& x) { return softmax_cross_entropy(x, dense).sum; };
      const auto [v, g] = value_and_grad(loss)(row(c.logits, dtype));
      are_near(numbers(v), {c.loss}, unit(dtype));
      are_near(numbers(g), c.gradient, unit(dtype));
      if (c.labels[0] == 0.5) continue;
      const Array integer = argmax(dense, -1);
      const auto of_integer = [&](const Array& x) { return softmax_cross_entropy(x, integer).sum; };
      const auto [w, h] = value_and_grad(of_integer)(row(c.logits, dtype));
      are_near(numbers(w), {c.loss}, unit(dtype));
      are_near(numbers(h), c.gradient, unit(dtype));
    }
  }
}

TEST_CASE("a class that is almost certain still has its loss and its gradient") {
  const double rest = 2 * std::exp(-20.0);
  for (const DType dtype : {float32, float64}) {
    const Array logits = row({20, 0, 0}, dtype), dense = row({1, 0, 0}, dtype);
    for (const Array& labels : {dense, zeros({1}, int32)}) {
      const auto loss = [&](const Array& x) { return softmax_cross_entropy(x, labels).sum; };
      const auto [v, g] = value_and_grad(loss)(logits);
      CHECK(numbers(v)[0] == doctest::Approx(std::log1p(rest)).epsilon(1e-6));
      CHECK(numbers(g)[0] == doctest::Approx(-rest / (1 + rest)).epsilon(1e-6));
    }
  }
}

TEST_CASE("sparsemax and its loss of large elements: only differences count") {
  const auto values = [](const Array& x) { return convert(x, float64).to_vector<double>(); };
  const Array x = array({0.5F, 0.75F, 0.25F});
  for (const float shift : {1e3F, 1e6F}) CHECK(values(sparsemax(x + shift)) == values(sparsemax(x + shift - shift)));
  const std::vector<double> second = {0, 1, 0};
  for (const float scale : {1e8F, 1e30F}) {
    CHECK(values(sparsemax(x * scale)) == second);
    const Array rows = expand_dims(x * scale, 0);
    const auto loss = [](const Array& v) { return value(sparsemax_loss(v, array({2}))); };
    CHECK(loss(rows).item<double>() == doctest::Approx(0.5 * scale).epsilon(1e-6));
    CHECK(values(grad(loss)(rows)) == std::vector<double>{0, 1, -1});
  }
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(values(sparsemax(array({1.0F, -infinity, 0.5F}))) == std::vector<double>{0.75, 0, 0.25});
  CHECK(value(sparsemax_loss(array({{1.0F, -infinity, 0.5F}}), array({0}))).item<double>() == doctest::Approx(0.0625));
  for (const float bad : {infinity, std::numeric_limits<float>::quiet_NaN()}) {
    CHECK(all(isnan(sparsemax(array({1.0F, bad, 0.5F})))).item<bool>());
  }
}
