#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/error.h>
#include <lockstep/losses.h>
#include <lockstep/metrics.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>
#include <lockstep/sequential_map.h>
#include <lockstep/transforms.h>

#include "tests/support/expect_error.h"

// What losses refuse, and where they have limits. Values of all are held by tests/golden/losses.

using namespace lockstep;

namespace {

using Values = std::vector<double>;

template <class F>
void refuses(const F& loss, const char* first, const char* second = "") {
  tests::expect_error<Error>([&] { static_cast<void>(loss()); }, first, second);
}

}  // namespace

TEST_CASE("losses of classes refuse shapes and options that do not fit") {
  const Array x = zeros({2, 3}), y = zeros({2, 3}), labels = array({0, 1});
  refuses([&] { return softmax_cross_entropy(x, labels, {}, {.label_smoothing = 1}); },
          "[softmax_cross_entropy] label_smoothing is 1; it must be in [0, 1)");
  refuses([&] { return poly_cross_entropy(zeros({3}), labels); }, "[poly_cross_entropy]", "rows of class scores");
  refuses([&] { return generalized_cross_entropy(x, labels, {}, 0); }, "q is 0; it must be in (0, 1]");
  refuses([&] { return binary_cross_entropy(x, y, {}, {.positive_weight = 0}); }, "positive_weight is 0");
  refuses([&] { return binary_cross_entropy(x, y, {}, {.label_smoothing = -1}); }, "label_smoothing is -1");
  refuses([&] { return sigmoid_focal(x, y, {}, {.gamma = -1}); }, "[sigmoid_focal] gamma is -1; it must be 0 or more");
  refuses([&] { return softmax_focal(x, labels, {}, {.alpha = 2}); }, "[softmax_focal] alpha is 2");
  refuses([&] { return sigmoid_focal(x, y, {}, {.label_smoothing = 1}); }, "label_smoothing is 1");
  refuses([&] { return multiclass_hinge(x, array({0})); }, "[multiclass_hinge]", "labels of shape [2]");
  refuses([&] { return multiclass_hinge(x, y, {}, {.ignore_index = 0}); }, "[multiclass_hinge] ignore_index is 0");
  refuses([&] { return kl_divergence(zeros({2}), zeros({2})); }, "[kl_divergence]", "probabilities of classes");
  refuses([&] { return tversky(x, y); }, "[tversky]", "per_class = false");
  refuses([&] { return tversky(zeros({2, 2, 1}), zeros({2, 2, 1}), {}, {.smoothing = 0}); }, "smoothing is 0");
  refuses([&] { return dice(zeros({2}), zeros({2}), {}, {.per_class = false}); }, "[dice]", "rows of probabilities");
  refuses([&] { return dice(zeros({2, 2, 1}), zeros({2, 2, 1}), {}, {.smoothing = -1}); }, "smoothing is -1");
}

TEST_CASE("losses of numbers and vectors refuse shapes and options that do not fit") {
  const Array x = zeros({2, 3}), labels = array({0, 1});
  refuses([&] { return log_cosh(x, zeros({3})); }, "[log_cosh]", "give both one shape");
  refuses([&] { return quantile_loss(x, x, 1); }, "[quantile_loss] q is 1; it must be in (0, 1)");
  refuses([&] { return gaussian_negative_log_likelihood(x, x, x, {}, 0); }, "epsilon is 0; it must be above 0");
  refuses([&] { return cosine_distance(labels, labels); }, "[cosine_distance]", "vectors along the last dimension");
  refuses([&] { return triplet_margin(zeros({2}), zeros({2}), zeros({2})); }, "[triplet_margin] anchors are f32[2]");
  refuses([&] { return contrastive(zeros({2}), zeros({3})); }, "[contrastive]", "one label for each pair");
  refuses([&] { return ntxent(x, labels, {}, 0); }, "[ntxent] temperature is 0");
  refuses([&] { return ntxent(x, zeros({2})); }, "[ntxent]", "give floats [B, D] and integers [B]");
  refuses([&] { return circle(x, labels, ones({3})); }, "[circle] the weights are f32[3]");
  refuses([&] { return circle(x, labels, {}, {.gamma = 0}); }, "[circle] gamma is 0");
  const auto of_part = [&](const Array& rows) { return ntxent(rows, array({0, 0}), {}, 1.0); };
  refuses([&] { return sequential_map(of_part, zeros({4, 3}), {microbatch_axis, 2}); }, "[ntxent]", "microbatches = 1");
}

TEST_CASE("ctc refuses what does not fit") {
  const Array x = zeros({2, 4, 3}), frames = array({4, 4}), labels = array({1, 2, 2, 1}), n = array({2, 1});
  const Array words = reshape(labels, {2, 2});
  refuses([&] { return ctc(x, frames, labels, n); }, "[ctc]", "give [B, T, C], [B], [B, N] and [B]");
  refuses([&] { return ctc(x, ones({2}), words, n); }, "[ctc]", "give floats, integers and integers");
  refuses([&] { return ctc(x, frames, words, n, {}, {.blank = 3}); }, "[ctc] blank is 3, there are 3 classes");
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
