#include <algorithm>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/error.h>
#include <lockstep/losses.h>
#include <lockstep/metrics.h>
#include <lockstep/ops.h>
#include <lockstep/transforms.h>

#include "tests/nn/weighted_means.h"
#include "tests/support/expect_error.h"

using namespace lockstep;
using tests::mean_of;
using tests::Values;

TEST_CASE("cross entropy of integer and dense labels, by hand") {
  const Array logits = array(Values{1, 2, 3, 0, 0, 0}, {2, 3});
  const double z = std::log(std::exp(1.0) + std::exp(2.0) + std::exp(3.0));
  const double first = z - 2;
  const double second = std::log(3.0);
  CHECK(mean_of(softmax_cross_entropy(logits, array({1, 2}))) == doctest::Approx((first + second) / 2));
  const Array dense = array(Values{0, 1, 0, 0, 0, 1}, {2, 3});
  CHECK(mean_of(softmax_cross_entropy(logits, dense)) == doctest::Approx((first + second) / 2));
  const Array smooth = array(Values{0.1, 0.8, 0.1, 1, 0, 0}, {2, 3});
  const double smoothed = 0.1 * (z - 1) + 0.8 * (z - 2) + 0.1 * (z - 3);
  CHECK(mean_of(softmax_cross_entropy(logits, smooth)) == doctest::Approx((smoothed + second) / 2));
  const Weighted weighted = softmax_cross_entropy(logits, array({1, 2}), array({1.0F, 0.0F}));
  CHECK(mean_of(weighted) == doctest::Approx(first));
  CHECK(weighted.weight.item<double>() == 1);
}

TEST_CASE("losses by hand") {
  const Array x = array(Values{2, -1, 0.5});
  const Array y = array(Values{1, 1, 0});
  const auto bce = [](double l, double t) { return std::max(l, 0.0) - l * t + std::log1p(std::exp(-std::abs(l))); };
  CHECK(mean_of(binary_cross_entropy(x, y)) == doctest::Approx((bce(2, 1) + bce(-1, 1) + bce(0.5, 0)) / 3));
  CHECK(mean_of(mean_squared_error(x, y)) == doctest::Approx((1 + 4 + 0.25) / 3));
  CHECK(mean_of(mean_absolute_error(x, y)) == doctest::Approx((1 + 2 + 0.5) / 3));
  CHECK(mean_of(huber(x, y)) == doctest::Approx((0.5 + 1.5 + 0.125) / 3));
  CHECK(mean_of(huber(x, y, {}, 0.5)) == doctest::Approx((0.5 * 0.25 + 0.5 * 0.5 + 0.125 + 0.5 * 1.5 + 0.125) / 3));
  const Array rows = array(Values{1, 2, 3, 6}, {2, 2});
  CHECK(mean_of(mean_squared_error(rows, zeros_like(rows), array({1.0F, 3.0F}))) ==
        doctest::Approx((2.5 + 3 * 22.5) / 4));
}

TEST_CASE("integer predictions are numbers: float targets keep their fractions, unsigned differences do not wrap") {
  const auto mean_of = [](const Weighted& loss) { return loss.sum.item<float>() / loss.weight.item<float>(); };
  // By hand: errors 0.5, -2.5 and, of unsigned integers, -2.
  const Array targets = array<float>({0.5F, 4.5F});
  CHECK(mean_of(mean_squared_error(array<std::int32_t>({1, 2}), targets)) == doctest::Approx(3.25));
  CHECK(mean_of(mean_absolute_error(array<std::int32_t>({1, 2}), targets)) == doctest::Approx(1.5));
  CHECK(mean_of(mean_squared_error(array<std::uint8_t>({1}), array<std::uint8_t>({3}))) == 4);
  CHECK(mean_of(huber(array<std::uint8_t>({1}), array<std::uint8_t>({3}))) == doctest::Approx(1.5));
}

TEST_CASE("extreme logits give finite losses and gradients") {
  for (const double big : {1e4, -1e4, 1e30, -1e30, 1e38, -1e38}) {
    CAPTURE(big);
    const auto big_f = static_cast<float>(big);
    const Array logits = array(std::vector<float>{big_f, 0, -big_f, 1}, {2, 2});
    const auto loss = [&](const Array& l) { return value(softmax_cross_entropy(l, array({1, 0}))); };
    const auto [v, g] = value_and_grad(loss)(logits);
    CHECK(std::isfinite(v.item<float>()));
    for (const float x : g.to_vector<float>()) CHECK(std::isfinite(x));
    const auto bce = [&](const Array& l) { return value(binary_cross_entropy(l, zeros_like(l))); };
    for (const float x : grad(bce)(logits).to_vector<float>()) CHECK(std::isfinite(x));
  }
}

TEST_CASE("rows of weight 0 are masked, NaN and all") {
  const Array predictions = array(std::vector<float>{1, NAN, 3});
  const Array weight = array({1.0F, 0.0F, 1.0F});
  const auto loss = [&](const Array& p) { return value(mean_squared_error(p, zeros_like(p), weight)); };
  const auto [v, g] = value_and_grad(loss)(predictions);
  CHECK(v.item<float>() == 5);
  CHECK(g.to_vector<float>()[0] == 1);
  CHECK(g.to_vector<float>()[2] == 3);
}

TEST_CASE("a total weight of 0 gives 0") {
  const Array none = array({0.0F, 0.0F});
  CHECK(mean_of(mean_squared_error(array({1.0F, 2.0F}), array({0.0F, 0.0F}), none)) == 0);
}

TEST_CASE("the metric Mean: no weights, partial weights, signed weights, Sum") {
  const Array x = array({1.0F, 3.0F, 5.0F, 7.0F});
  CHECK(mean_of(mean_metric(x)) == 4);
  CHECK(mean_of(mean_metric(x, array({1.0F, 1.0F, 0.0F, 0.0F}))) == 2);
  CHECK(mean_of(mean_metric(x, array({-1.0F, -1.0F, 0.0F, 0.0F}))) == 2);
  CHECK(mean_metric(x).sum.item<float>() == 16);
  CHECK(mean_metric(x, array({1.0F, 1.0F, 0.0F, 0.0F})).sum.item<float>() == 4);
  Mean running;
  running.update(mean_metric(x));
  running.update(mean_metric(x, array({0.0F, 0.0F, 0.0F, 4.0F})));
  CHECK(running.result() == (16 + 28) / 8.0);
  running.reset();
  CHECK(running.result() == 0);
}

TEST_CASE("accuracy and top-k accuracy") {
  const Array logits = array(std::vector<float>{3, 2, 1, 1, 3, 2, 1, 2, 3}, {3, 3});
  CHECK(mean_of(accuracy(logits, array({0, 2, 1}))) == doctest::Approx(1.0 / 3));
  CHECK(mean_of(top_k_accuracy(logits, array({0, 2, 1}), 2)) == 1);
  CHECK(mean_of(top_k_accuracy(logits, array({2, 0, 0}), 2)) == 0);
  CHECK(mean_of(accuracy(logits, array({0, 2, 1}), array({1.0F, 0.0F, 0.0F}))) == 1);
  const Array dense = array(std::vector<float>{1, 0, 0, 0, 0, 1, 0, 1, 0}, {3, 3});
  CHECK(mean_of(accuracy(logits, dense)) == doctest::Approx(1.0 / 3));
}

TEST_CASE("penalties count parameters, not rows") {
  const Tree w = Tree::dict({{"a", Tree(array({1.0F, -2.0F}))}, {"n", Tree(array({5, 6}))}});
  CHECK(l1_penalty(w, 0.5).item<float>() == 1.5F);
  CHECK(l2_penalty(w, 0.5).item<float>() == 2.5F);
  const Loss loss = mean_squared_error(array({1.0F}), array({0.0F})) + l2_penalty(w, 1.0);
  CHECK(loss.terms.size() == 1);
  CHECK(loss.penalties.size() == 1);
  CHECK((2.0 * loss).penalties[0].item<float>() == 10);
}

TEST_CASE("losses refuse what does not fit") {
  const Array logits = zeros({4, 3});
  tests::expect_error<ShapeError>(
      [&] {
        static_cast<void>(softmax_cross_entropy(zeros({2, 0}), array({0, 0})));
      },
      "[softmax_cross_entropy] logits are f32[2,0]", "at least one class");
  tests::expect_error<ShapeError>([&] { static_cast<void>(softmax_cross_entropy(zeros({3}), array({1}))); },
                                  "rows of class scores");
  tests::expect_error<ShapeError>(
      [&] {
        static_cast<void>(softmax_cross_entropy(logits, array({1, 2, 3})));
      },
      "labels of shape [4]");
  tests::expect_error<ShapeError>(
      [&] {
        static_cast<void>(softmax_cross_entropy(logits, zeros({4, 2})));
      },
      "give integer labels of shape [4], or dense ones of the logits' shape");
  tests::expect_error<ShapeError>([&] { static_cast<void>(mean_squared_error(logits, zeros({4}))); },
                                  "give both one shape");
  tests::expect_error<ShapeError>([&] { static_cast<void>(weighted(zeros({4}), zeros({3}))); }, "one weight per row");
  tests::expect_error<ShapeError>([&] { static_cast<void>(weighted(zeros({}))); }, "one value per row");
  tests::expect_error<ValueError>([&] { static_cast<void>(huber(zeros({2}), zeros({2}), {}, 0)); }, "above 0");
  tests::expect_error<ShapeError>([&] { static_cast<void>(accuracy(zeros({3}), array({1}))); }, "rows of class scores");
}
