#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/losses.h>
#include <lockstep/metrics.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>
#include <lockstep/sequential_map.h>
#include <lockstep/transforms.h>

#include "tests/nn/weighted_means.h"
#include "tests/support/expect_error.h"

// What losses refuse, and where they have limits. Values of all are held by tests/golden/losses.

using namespace lockstep;
using tests::Values;

namespace {

template <class F>
void loss_refuses(const F& loss, const char* first, const char* second = "") {
  tests::expect_error<Error>([&] { static_cast<void>(loss()); }, first, second);
}

}  // namespace

TEST_CASE("losses of classes refuse shapes and options that do not fit") {
  const Array x = zeros({2, 3}), y = zeros({2, 3}), labels = array({0, 1});
  loss_refuses([&] { return softmax_cross_entropy(x, labels, {}, {.label_smoothing = 1}); },
               "[softmax_cross_entropy] label_smoothing is 1; it must be in [0, 1)");
  loss_refuses([&] { return poly_cross_entropy(zeros({3}), labels); }, "[poly_cross_entropy]", "rows of class scores");
  loss_refuses([&] { return generalized_cross_entropy(x, labels, {}, 0); }, "q is 0; it must be in (0, 1]");
  loss_refuses([&] { return binary_cross_entropy(x, y, {}, {.positive_weight = 0}); }, "positive_weight is 0");
  loss_refuses([&] { return binary_cross_entropy(x, y, {}, {.label_smoothing = -1}); }, "label_smoothing is -1");
  loss_refuses([&] { return sigmoid_focal(x, y, {}, {.gamma = -1}); },
               "[sigmoid_focal] gamma is -1; it must be 0 or more");
  loss_refuses([&] { return softmax_focal(x, labels, {}, {.alpha = 2}); }, "[softmax_focal] alpha is 2");
  loss_refuses([&] { return sigmoid_focal(x, y, {}, {.label_smoothing = 1}); }, "label_smoothing is 1");
  loss_refuses([&] { return multiclass_hinge(x, array({0})); }, "[multiclass_hinge]", "labels of shape [2]");
  loss_refuses([&] { return multiclass_hinge(x, y, {}, {.ignore_index = 0}); }, "[multiclass_hinge] ignore_index is 0");
  loss_refuses([&] { return kl_divergence(zeros({2}), zeros({2})); }, "[kl_divergence]", "probabilities of classes");
  loss_refuses([&] { return tversky(x, y); }, "[tversky]", "per_class = false");
  loss_refuses([&] { return tversky(zeros({2, 2, 1}), zeros({2, 2, 1}), {}, {.smoothing = 0}); }, "smoothing is 0");
  loss_refuses([&] { return dice(zeros({2}), zeros({2}), {}, {.per_class = false}); }, "[dice]",
               "rows of probabilities");
  loss_refuses([&] { return dice(zeros({2, 2, 1}), zeros({2, 2, 1}), {}, {.smoothing = -1}); }, "smoothing is -1");
}

TEST_CASE("losses of numbers and vectors refuse shapes and options that do not fit") {
  const Array x = zeros({2, 3}), labels = array({0, 1});
  loss_refuses([&] { return log_cosh(x, zeros({3})); }, "[log_cosh]", "give both one shape");
  loss_refuses([&] { return quantile_loss(x, x, 1); }, "[quantile_loss] q is 1; it must be in (0, 1)");
  loss_refuses([&] { return gaussian_negative_log_likelihood(x, x, x, {}, 0); }, "epsilon is 0; it must be above 0");
  loss_refuses([&] { return cosine_distance(labels, labels); }, "[cosine_distance]",
               "vectors along the last dimension");
  loss_refuses([&] { return triplet_margin(zeros({2}), zeros({2}), zeros({2})); },
               "[triplet_margin] anchors are f32[2]");
  loss_refuses([&] { return contrastive(zeros({2}), zeros({3})); }, "[contrastive]", "one label for each pair");
  loss_refuses([&] { return ntxent(x, labels, {}, 0); }, "[ntxent] temperature is 0");
  loss_refuses([&] { return ntxent(x, zeros({2})); }, "[ntxent]", "give floats [B, D] and integers [B]");
  loss_refuses([&] { return circle(x, labels, ones({3})); }, "[circle] the weights are f32[3]");
  loss_refuses([&] { return circle(x, labels, {}, {.gamma = 0}); }, "[circle] gamma is 0");
  const auto of_part = [&](const Array& rows) { return ntxent(rows, array({0, 0}), {}, 1.0); };
  loss_refuses(
      [&] {
        return sequential_map(of_part, zeros({4, 3}), {microbatch_axis, 2});
      },
      "[ntxent]", "microbatches = 1");
}

TEST_CASE("ctc refuses what does not fit") {
  const Array x = zeros({2, 4, 3}), frames = array({4, 4}), labels = array({1, 2, 2, 1}), n = array({2, 1});
  const Array words = reshape(labels, {2, 2});
  loss_refuses([&] { return ctc(x, frames, labels, n); }, "[ctc]", "give [B, T, C], [B], [B, N] and [B]");
  loss_refuses([&] { return ctc(x, ones({2}), words, n); }, "[ctc]", "give floats, integers and integers");
  loss_refuses([&] { return ctc(x, frames, words, n, {}, {.blank = 3}); }, "[ctc] blank is 3, there are 3 classes");
}

TEST_CASE("ctc: alignments counted by hand, rows that none makes, labels that are none") {
  // Equal logits: each alignment has probability 3^-T. [1] in two frames: 1 1, 1 -, - 1.
  const auto one = [](int frames, const std::vector<int>& words, int length, const CtcOptions& options = {}) {
    const auto n = static_cast<std::int64_t>(words.size());
    const auto loss = [&](const Array& x) {
      return ctc(x, array({frames}), array(words, {1, n}), array({length}), {}, options).sum;
    };
    const auto [v, g] = value_and_grad(loss)(zeros({1, 3, 3}, float64));
    CHECK(all(is_finite(g)).item<bool>() != std::isnan(v.item<double>()));
    return v.item<double>();
  };
  CHECK(one(2, {1}, 1) == doctest::Approx(std::log(9 / 3.0)));
  CHECK(one(3, {1, 1}, 2) == doctest::Approx(std::log(27.0)));
  CHECK(one(3, {1, 2}, 2) == doctest::Approx(std::log(27 / 5.0)));
  CHECK(one(3, {1, 2}, 0) == doctest::Approx(std::log(27.0)));
  CHECK(one(0, {1}, 0) == 0);
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(one(2, {1, 1}, 2) == infinity);
  CHECK(one(2, {1, 1}, 2, {.zero_impossible = true}) == 0);
  CHECK(std::isnan(one(3, {1, 7}, 2)));
  CHECK(one(3, {1, 7}, 1) == doctest::Approx(std::log(27 / 6.0)));
  CHECK(std::isnan(one(3, {0}, 1)));
  CHECK(std::isnan(one(3, {1}, 2)));
  CHECK(std::isnan(one(4, {1}, 1)));
}

TEST_CASE("log_cosh keeps small errors, and its second derivative at 0 is 1") {
  const auto loss = [](const Array& x) { return log_cosh(x, zeros_like(x)).sum; };
  const Array x = array(Values{1e-8});
  CHECK(loss(x).item<double>() == doctest::Approx(0.5e-16));
  CHECK(grad([&](const Array& v) { return sum(grad(loss)(v)); })(array(Values{0})).item<double>() == 1);
  CHECK(loss(array(Values{1e300})).item<double>() == 1e300);
}

TEST_CASE("a vector of zeros has a finite gradient of its cosine, and one beyond the range of squares its cosine") {
  const auto loss = [](const Array& x) { return cosine_distance(x, ones_like(x)).sum; };
  const auto [v, g] = value_and_grad(loss)(zeros({1, 2}));
  CHECK(v.item<float>() == 1);
  CHECK(all(is_finite(g)).item<bool>());
  for (const float size : {1e-5F, 1e30F}) {
    CHECK(loss(full({1, 2}, size)).item<float>() == doctest::Approx(0).scale(1));
  }
}

TEST_CASE("a label that is no class makes the row of every loss of classes NaN") {
  const Array x = array(Values{1, 2, 3, 0, 0, 1}, {2, 3}), labels = array({1, 5});
  const Array known = array({1.0, 0.0});
  for (const auto& loss : std::vector<std::function<Weighted(const Array&)>>{
           [&](const Array& w) { return softmax_cross_entropy(x, labels, w, {.label_smoothing = 0.1}); },
           [&](const Array& w) { return softmax_cross_entropy(sigmoid(x), labels, w, {.from_logits = false}); },
           [&](const Array& w) { return poly_cross_entropy(x, labels, w); },
           [&](const Array& w) { return generalized_cross_entropy(x, labels, w); },
           [&](const Array& w) { return softmax_focal(x, labels, w); },
           [&](const Array& w) { return sparsemax_loss(x, labels, w); },
           [&](const Array& w) { return multiclass_hinge(x, labels, w); }}) {
    CHECK(std::isnan(loss({}).sum.item<double>()));
    CHECK(std::isfinite(loss(known).sum.item<double>()));
  }
  const auto ignoring = softmax_focal(x, labels, {}, {}, {.ignore_index = 5});
  CHECK(ignoring.weight.item<double>() == 1);
  CHECK(std::isfinite(ignoring.sum.item<double>()));
}

TEST_CASE("metrics of classes refuse labels that would be repeated over the rows") {
  // Of four rows, [4] floats were dense labels for all rows at once: top_k_accuracy was 1.
  const Array x = array(Values{1, 2, 3, 0, 0, 1, 5, 1, 2, 0, 3, 1}, {4, 3}), labels = array({0, 2, 1, 2});
  for (const auto& metric : std::vector<std::function<Weighted(const Array&)>>{
           [&](const Array& y) { return accuracy(x, y); }, [&](const Array& y) { return top_k_accuracy(x, y, 2); },
           [&](const Array& y) { return confusion_matrix(x, y); }}) {
    for (const Array& y : {convert(labels, float32), labels != 0, reshape(labels, {4, 1}), labels[0], zeros({3})}) {
      tests::expect_error<ShapeError>([&] { static_cast<void>(metric(y)); },
                                      "give integer labels of shape [4] (convert, reshape)");
    }
    CHECK(fingerprint(metric(one_hot(labels, 3)).sum) == fingerprint(metric(labels).sum));
    CHECK(fingerprint(metric(one_hot(labels, 3, int32)).sum) == fingerprint(metric(labels).sum));
  }
  loss_refuses([&] { return top_k_accuracy(x, labels, 0); }, "[top_k_accuracy] k is 0; it must be 1 or more");
  loss_refuses([&] { return softmax_cross_entropy(x, convert(labels, float32)); },
               "labels f32[4]; give integer labels of shape [4]");
}

TEST_CASE("a NaN that counts makes losses and metrics NaN, one of weight 0 neither value nor gradient") {
  // keras.losses.MeanSquaredLogarithmicError, optax.hinge_loss, torch margin_ranking_loss: NaN.
  const double nan = std::nan("");
  const Array x = array(Values{1, 2, 3, 0.5, 0.2, 1}, {2, 3}), pair = array(Values{1, 0.5});
  const Array label = array(Values{1, nan}), hole = array(Values{1, 0, 0, 0, nan, 1}, {2, 3});
  const Array broken = where(isnan(hole), nan, x);
  using Rows = std::function<Weighted(const Array& x, const Array& w)>;
  for (const Rows& loss : std::vector<Rows>{
           [&](const Array&v, const Array&w) { return hinge(v, hole, w); },
           [&](const Array&v, const Array&w) { return squared_hinge(v, hole, w); },
           [&](const Array&v, const Array&w) { return multiclass_hinge(v, hole, w); },
           [&](const Array&v, const Array&w) { return sparsemax_loss(v, hole, w); },
           [&](const Array&v, const Array&w) {
             return multiclass_hinge(v, one_hot(array({1, -1}), 3), w);
           },
           [&](const Array&v, const Array&w) {
             return sparsemax_loss(v, one_hot(array({1, -1}), 3), w);
           },
           [&](const Array&v, const Array&w) { return cosine_embedding(v, x * x, label, w); },
           [&](const Array&v, const Array&w) { return contrastive(sum(v, Axes{1}), label, w); },
           [&](const Array&v, const Array&w) { return margin_ranking(sum(v, Axes{1}), pair, label, w); },
           [&](const Array&v, const Array&w) { return mean_squared_logarithmic_error(v, hole, w); },
           [&](const Array&v, const Array&w) {
             return gaussian_negative_log_likelihood(v, where(isnan(hole), nan, 1), x, w);
           },
           // A prediction of a class of which nothing is expected.
           [&](const Array&v, const Array&w) { return kl_divergence(v + 0 * hole, where(isnan(hole), 0, x), w); }}) {
    CHECK(std::isnan(loss(x, {}).sum.item<double>()));
    const Array counted = array({1.0, 0.0});
    const auto [v, g] = value_and_grad([&](const Array& at) { return loss(at, counted).sum; })(x);
    CHECK(std::isfinite(v.item<double>()));
    CHECK(all(is_finite(g)).item<bool>());
    CHECK(all(g[1] == 0).item<bool>());
  }
  for (const auto& metric :
       std::vector<std::function<Weighted(const Array&)>>{[&](const Array& w) {
                                                            return accuracy(broken, array({2, 1}), w);
                                                          },
                                                          [&](const Array& w) { return accuracy(x, hole, w); },
                                                          [&](const Array& w) {
                                                            return top_k_accuracy(broken, array({2, 1}), 2, w);
                                                          }}) {
    CHECK(std::isnan(metric({}).sum.item<float>()));
    CHECK(std::isfinite(metric(array({1.0, 0.0})).sum.item<float>()));
  }
}

TEST_CASE("logits and distances of integers are numbers, whatever their dtype holds") {
  // A difference of uint8 wrapped: the loss of [1, 3] against class 0 was not log(1 + exp(2)).
  const Array x = array(Values{1, 3, 2, 200, 10, 190}, {2, 3}), labels = array({0, 2});
  for (const DType dtype : {uint8, int16, uint32, int64}) {
    CAPTURE(name(dtype));
    const Array whole = convert(x, dtype), real = convert(x, float32);
    CHECK(fingerprint(softmax_cross_entropy(whole, labels).sum) ==
          fingerprint(softmax_cross_entropy(real, labels).sum));
    CHECK(fingerprint(sparsemax_loss(whole, labels).sum) == fingerprint(sparsemax_loss(real, labels).sum));
    CHECK(fingerprint(softmax_focal(whole, labels).sum) == fingerprint(softmax_focal(real, labels).sum));
    CHECK(contrastive(convert(array({200}), dtype), array({1})).sum.item<float>() == 40000);
  }
}

TEST_CASE("complex numbers lose no imaginary part on the way into losses, metrics and weights") {
  // optax.squared_error: TypeError; torch: l1_loss alone takes them.
  const Array x = ones({2, 3}), z = complex(x, x), labels = array({0, 1}), w = complex(ones({2}), ones({2}));
  loss_refuses([&] { return mean_squared_error(x, z); },
               "[mean_squared_error] the targets are c64[2,3]; give real numbers");
  loss_refuses([&] { return huber(z, x); }, "[huber] the predictions are c64[2,3]");
  loss_refuses([&] { return softmax_cross_entropy(x, z); }, "[softmax_cross_entropy] the labels are c64[2,3]");
  loss_refuses([&] { return softmax_cross_entropy(z, labels); }, "[softmax_cross_entropy] the logits are c64[2,3]");
  loss_refuses([&] { return accuracy(z, labels); }, "[accuracy] the logits are c64[2,3]");
  loss_refuses([&] { return precision(x, z); }, "[precision] the targets are c64[2,3]");
  loss_refuses([&] { return regression_sums(z, x); }, "[regression_sums] the predictions are c64[2,3]");
  loss_refuses([&] { return softmax_cross_entropy(x, labels, w); }, "[weighted] the weights are c64[2]");
  loss_refuses([&] { return recall(x, x, w); }, "[recall] the weights are c64[2]");
  loss_refuses([&] { return ntxent(x, labels, w); }, "[ntxent] the weights are c64[2]");
  loss_refuses([&] { return contrastive(w, labels); }, "[contrastive] the distances are c64[2]");
  loss_refuses([&] { return fill_masked_rows(Tree(x), w); }, "[fill_masked_rows] the weights are c64[2]");
  CHECK(mean_absolute_error(z, x).sum.item<float>() == 2);
}

TEST_CASE("options of losses and metrics that make no sense are refused") {
  const Array x = zeros({2, 3}), y = zeros({2, 3}), d = zeros({2}), labels = array({0, 1});
  const double infinite = std::numeric_limits<double>::infinity();
  loss_refuses([&] { return hinge(x, y, {}, -1); }, "[hinge] margin is -1; it must be 0 or more");
  loss_refuses([&] { return squared_hinge(x, y, {}, -1); }, "[squared_hinge] margin is -1");
  loss_refuses([&] { return contrastive(d, labels, {}, -1); }, "[contrastive] margin is -1");
  loss_refuses([&] { return triplet_margin(x, x, x, {}, -1); }, "[triplet_margin] margin is -1");
  loss_refuses([&] { return kl_divergence(x, y, {}, {.epsilon = -1}); }, "[kl_divergence] epsilon is -1");
  loss_refuses([&] { return poisson(x, y, {}, {.epsilon = -1}); }, "[poisson] epsilon is -1");
  loss_refuses([&] { return tversky(x, y, {}, {.alpha = -1, .per_class = false}); }, "[tversky] alpha is -1");
  loss_refuses([&] { return tversky(x, y, {}, {.beta = -1, .per_class = false}); }, "[tversky] beta is -1");
  loss_refuses([&] { return dice(x, y, {}, {.smoothing = infinite, .per_class = false}); }, "[dice] smoothing is inf");
  loss_refuses([&] { return binary_cross_entropy(x, y, {}, {.positive_weight = infinite}); }, "positive_weight is inf");
  loss_refuses([&] { return f_score(x, y, {}, 0.5, infinite); }, "[f_score] beta is inf");
  loss_refuses([&] { return precision(x, y, {}, std::nan("")); }, "[precision] threshold is nan");
  loss_refuses([&] { return regression_sums(zeros({}), zeros({})); }, "[regression_sums] predictions are f32[]");
  // As keras.regularizers.L2 and keras.metrics.PrecisionAtRecall.
  loss_refuses([&] { return l1_penalty(Tree(x), -1); }, "[l1_penalty] factor is -1; it must be finite and 0 or more");
  loss_refuses([&] { return l2_penalty(Tree(x), -1); }, "[l2_penalty] factor is -1");
  const Weighted counts = threshold_counts(x, y);
  loss_refuses([&] { return precision_at_recall(counts, 1.5); },
               "[precision_at_recall] recall is 1.5; it must be in [0, 1]");
  loss_refuses([&] { return recall_at_precision(counts, -1); }, "[recall_at_precision] precision is -1");
  loss_refuses([&] { return sensitivity_at_specificity(counts, 2); }, "specificity is 2");
  loss_refuses([&] { return specificity_at_sensitivity(counts, 2); }, "sensitivity is 2");
}
