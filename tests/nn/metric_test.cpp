#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/error.h>
#include <lockstep/losses.h>
#include <lockstep/metrics.h>
#include <lockstep/ops.h>

#include "tests/nn/weighted_means.h"
#include "tests/support/expect_error.h"

// What Keras and Optax have no values for (those are in tests/golden/losses), by hand.

using namespace lockstep;
using tests::mean_of;
using tests::Values;

namespace {

/// Rows are labels 0, 0, 0, 1, 1, 2; columns what is predicted.
Weighted confusion() {
  const Array labels = array({0, 0, 0, 1, 1, 2}), predicted = array({0, 0, 1, 1, 1, 0});
  return confusion_matrix(one_hot(predicted, 4), labels);
}

}  // namespace

TEST_CASE("a confusion matrix and what is made of it") {
  const Weighted c = confusion();
  CHECK(c.sum.to_vector<float>() == std::vector<float>{2, 1, 0, 0, 0, 2, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0});
  CHECK(c.weight.item<float>() == 6);
  const auto near = [](const Array& x, const Values& expected) {
    const Values given = x.to_vector<double>();
    REQUIRE(given.size() == expected.size());
    for (std::size_t i = 0; i < given.size(); ++i) CHECK(given[i] == doctest::Approx(expected[i]));
  };
  near(class_precision(c), {2 / 3.0, 2 / 3.0, 0, 0});
  near(class_recall(c), {2 / 3.0, 1, 0, 0});
  near(class_f1(c), {2 / 3.0, 0.8, 0, 0});
  near(class_iou(c), {0.5, 2 / 3.0, 0, 0});
  CHECK(mean_iou(c).item<double>() == doctest::Approx((0.5 + 2 / 3.0) / 3));
  // 4 of 6 agree; 3 * 3 + 2 * 3 of 36 by chance.
  CHECK(cohen_kappa(c).item<double>() == doctest::Approx((4 / 6.0 - 15 / 36.0) / (1 - 15 / 36.0)));
  const double spread = std::sqrt(36.0 - 14) * std::sqrt(36.0 - 18);
  CHECK(matthews_correlation(c).item<double>() == doctest::Approx((6 * 4 - 15) / spread));
  CHECK(cohen_kappa(merged(c, c)).item<double>() == doctest::Approx(cohen_kappa(c).item<double>()));
}

TEST_CASE("labels that are no class make a confusion matrix NaN, those to ignore do not count") {
  const Array scores = one_hot(array({0, 1, 1}), 2), labels = array({0, 7, 1});
  CHECK(std::isnan(mean_iou(confusion_matrix(scores, labels)).item<double>()));
  const Weighted without = confusion_matrix(scores, labels, {}, {.ignore_index = 7});
  CHECK(without.sum.to_vector<float>() == std::vector<float>{1, 0, 0, 1});
  CHECK(without.weight.item<float>() == 2);
  const Weighted masked = confusion_matrix(scores, labels, array({1.0F, 0.0F, 1.0F}));
  CHECK(masked.sum.to_vector<float>() == std::vector<float>{1, 0, 0, 1});
}

TEST_CASE("perplexity, explained variance") {
  const Array logits = zeros({3, 5});
  CHECK(perplexity(softmax_cross_entropy(logits, array({0, 1, 2}))).item<double>() == doctest::Approx(5));
  const Array y = array(Values{1, 2, 4, 5}), p = array(Values{2, 3, 5, 6});
  CHECK(explained_variance(regression_sums(p, y)).item<double>() == doctest::Approx(1));
  CHECK(r2_score(regression_sums(p, y)).item<double>() == doctest::Approx(1 - 4 / 10.0));
  CHECK(r2_score(regression_sums(p, ones_like(y))).item<double>() == 0);
  CHECK(pearson_correlation(regression_sums(p, y)).item<double>() == doctest::Approx(1));
}

TEST_CASE("weights of places: each belongs to the mean of what lies under it") {
  const Array values = array(Values{1, 2, 3, 4, 5, 6, 7, 8}, {2, 2, 2});
  CHECK(mean_of(weighted(values, array(Values{1, 3}))) == doctest::Approx((2.5 + 3 * 6.5) / 4));
  const Array places = array(Values{1, 0, 2, 1}, {2, 2});
  CHECK(mean_of(weighted(values, places)) == doctest::Approx((1.5 + 2 * 5.5 + 7.5) / 4));
  const Array all = array(Values{1, 0, 0, 0, 0, 0, 0, 1}, {2, 2, 2});
  CHECK(mean_of(weighted(values, all)) == doctest::Approx(4.5));
  CHECK(weighted(values, all).weight.item<double>() == 2);
  // Of sequences: a place of weight 0 is not seen, whatever it holds.
  Values logits(12, 0);
  logits[4] = NAN;
  const Array x = array(logits, {2, 3, 2}), labels = array(std::vector<int>{0, 1, 99, 0, 1, 0}, {2, 3});
  const Array counts = array(Values{1, 1, 0, 1, 0, 0}, {2, 3});
  const Weighted loss = softmax_cross_entropy(x, labels, counts);
  CHECK(loss.weight.item<double>() == 3);
  CHECK(mean_of(loss) == doctest::Approx(std::log(2.0)));
  CHECK(mean_of(accuracy(where(isnan(x), 0, x), labels, counts)) == doctest::Approx(2 / 3.0));
  CHECK(mean_of(precision(array(Values{0.9, 0.8, 0.1, NAN}, {2, 2}), array(Values{1, 0, 1, 1}, {2, 2}),
                          array(Values{1, 1, 1, 0}, {2, 2}))) == 0.5);
}

TEST_CASE("metrics refuse what does not fit") {
  const Array p = zeros({4}), y = zeros({4});
  tests::expect_error<ShapeError>([&] { static_cast<void>(precision(p, zeros({3}))); }, "[precision]",
                                  "give both one shape");
  tests::expect_error<ShapeError>([&] { static_cast<void>(recall(p, y, ones({3}))); }, "[recall]",
                                  "one weight per row, or weights of another leading part");
  tests::expect_error<ValueError>([&] { static_cast<void>(f_score(p, y, {}, 0.5, 0)); }, "[f_score] beta is 0");
  tests::expect_error<ValueError>([&] { static_cast<void>(threshold_counts(p, y, {}, 1)); },
                                  "[threshold_counts] n is 1; it must be 2 or more");
  tests::expect_error<ShapeError>([&] { static_cast<void>(auc(confusion())); }, "[auc] the sums are f32[4,4]",
                                  "threshold_counts");
  tests::expect_error<ShapeError>([&] { static_cast<void>(mean_iou(threshold_counts(p, y))); }, "[mean_iou]",
                                  "confusion_matrix");
  tests::expect_error<ShapeError>([&] { static_cast<void>(r2_score(confusion())); }, "[r2_score]", "regression_sums");
  tests::expect_error<ShapeError>([&] { static_cast<void>(merged(confusion(), threshold_counts(p, y))); }, "[merged]",
                                  "of one metric");
  tests::expect_error<ShapeError>([&] { static_cast<void>(confusion_matrix(p, y)); }, "rows of class scores");
}
