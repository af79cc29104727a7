#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/error.h>
#include <lockstep/layers.h>
#include <lockstep/losses.h>
#include <lockstep/metrics.h>
#include <lockstep/ops.h>
#include <lockstep/transforms.h>

#include "tests/nn/weighted_means.h"
#include "tests/support/array_values.h"
#include "tests/support/expect_error.h"

using namespace lockstep;
using tests::mean_of;
using tests::Values;

namespace {

/// Rows of three classes.
const Values scores = {1, 2, 3, 0, 0, 0, -1, 4, 0.5};

Array logits() { return array(scores, {3, 3}); }

double cross_entropy_of(std::size_t row, std::size_t label) {
  double total = 0;
  for (std::size_t c = 0; c < 3; ++c) total += std::exp(scores[3 * row + c]);
  return std::log(total) - scores[3 * row + label];
}

/// softmax - one_hot, times `scale`: the gradient of a row's cross entropy.
double gradient_of(std::size_t row, std::size_t c, std::size_t label, double scale) {
  const double p = std::exp(-cross_entropy_of(row, c));
  return scale * (p - (c == label ? 1 : 0));
}

const double nan_value = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST_CASE("a label that is no class makes its row NaN, value and gradient, and no other row") {
  for (const std::int64_t label : {std::int64_t{-1}, std::int64_t{-100}, std::int64_t{3}, std::int64_t{99},
                                   std::int64_t{1} << 32, (std::int64_t{1} << 32) + 1}) {
    CAPTURE(label);
    const Array labels = array(std::vector<std::int64_t>{2, label, 1});
    const auto total = [&](const Array& x) { return softmax_cross_entropy(x, labels).sum; };
    CHECK(std::isnan(total(logits()).item<double>()));
    const Values g = grad(total)(logits()).to_vector<double>();
    for (std::size_t c = 0; c < 3; ++c) {
      CHECK(g[c] == doctest::Approx(gradient_of(0, c, 2, 1)));
      CHECK(std::isnan(g[3 + c]));
      CHECK(g[6 + c] == doctest::Approx(gradient_of(2, c, 1, 1)));
    }
    CHECK(std::isnan(mean_of(accuracy(logits(), labels))));
    CHECK(std::isnan(mean_of(top_k_accuracy(logits(), labels, 2))));
    // A row of weight 0 may hold anything.
    const Array weight = array({1.0F, 0.0F, 1.0F});
    const double counted = (cross_entropy_of(0, 2) + cross_entropy_of(2, 1)) / 2;
    CHECK(mean_of(softmax_cross_entropy(logits(), labels, weight)) == doctest::Approx(counted));
    CHECK(mean_of(accuracy(logits(), labels, weight)) == 1);
    CHECK(mean_of(top_k_accuracy(logits(), labels, 1, weight)) == 1);
  }
}

TEST_CASE("labels of every integer dtype are the same classes") {
  const double expected = (cross_entropy_of(0, 2) + cross_entropy_of(1, 0) + cross_entropy_of(2, 1)) / 3;
  for (const DType dtype : {int8, int16, int32, int64, uint8, uint16, uint32, uint64}) {
    CAPTURE(name(dtype));
    const Array labels = convert(array({2, 0, 1}), dtype);
    CHECK(mean_of(softmax_cross_entropy(logits(), labels)) == doctest::Approx(expected));
    CHECK(mean_of(softmax_cross_entropy(logits(), labels, {}, {.ignore_index = -100})) == doctest::Approx(expected));
    CHECK(mean_of(accuracy(logits(), labels)) == 1);
  }
  CHECK(std::isnan(mean_of(softmax_cross_entropy(logits(), array<std::uint64_t>({2, ~std::uint64_t{0}, 1})))));
  // More classes than the labels' dtype has numbers.
  const Array many = zeros({2, 1000}, float64);
  CHECK(mean_of(softmax_cross_entropy(many, convert(array({5, 100}), int8))) == doctest::Approx(std::log(1000.0)));
}

TEST_CASE("the label to ignore has weight 0, whatever its logits are") {
  // torch.nn.functional.cross_entropy(x, y, ignore_index=i): the mean over labels other than i.
  for (const std::int64_t ignored : {-1, -100, 0, 7, 255}) {
    CAPTURE(ignored);
    const Array labels = array(std::vector<std::int64_t>{2, ignored, 1});
    const LabelOptions options{.ignore_index = ignored};
    Values broken = scores;
    broken[3] = nan_value;
    broken[5] = INFINITY;
    const Array x = array(broken, {3, 3});
    const auto loss = [&](const Array& l) {
      return value(softmax_cross_entropy(l, labels, {}, {.ignore_index = ignored}));
    };
    CHECK(loss(x).item<double>() == doctest::Approx((cross_entropy_of(0, 2) + cross_entropy_of(2, 1)) / 2));
    const Values g = grad(loss)(x).to_vector<double>();
    for (std::size_t c = 0; c < 3; ++c) {
      CHECK(g[c] == doctest::Approx(gradient_of(0, c, 2, 0.5)));
      CHECK(g[3 + c] == 0);
    }
    CHECK(softmax_cross_entropy(x, labels, {}, {.ignore_index = ignored}).weight.item<double>() == 2);
    CHECK(mean_of(accuracy(logits(), labels, {}, options)) == 1);
    CHECK(mean_of(top_k_accuracy(logits(), labels, 1, {}, options)) == 1);
  }
  const Array none = array({-1, -1, -1});
  CHECK(mean_of(softmax_cross_entropy(logits(), none, {}, {.ignore_index = -1})) == 0);
  // Another label outside is still NaN.
  CHECK(std::isnan(mean_of(softmax_cross_entropy(logits(), array({2, -1, 3}), {}, {.ignore_index = -1}))));
}

TEST_CASE("weights of classes are looked up by labels, and what is ignored has none") {
  // torch.nn.functional.cross_entropy(x, y, weight=w, ignore_index=-100) and its gradient.
  const Array x = array(Values{1, 2, 0.5, 0, -1, 2, 3, 3, 3, 0.2, 0.1, -0.4}, {4, 3});
  const Array labels = array({0, 2, -100, 1});
  const Array weight = take(array(Values{1, 2, 3}), labels, 0);
  const CrossEntropyOptions options{.ignore_index = -100};
  const auto loss = [&](const Array& l) { return value(softmax_cross_entropy(l, labels, weight, options)); };
  CHECK(loss(x).item<double>() == doctest::Approx(0.6615099159077574).epsilon(1e-14));
  const Values slopes = {-0.1281293503963085,
                         0.10475528653529373,
                         0.023374063861014746,
                         0.05709759969229724,
                         0.021005033067033024,
                         -0.07810263275933027,
                         0,
                         0,
                         0,
                         0.13585208233926777,
                         -0.21040928591466168,
                         0.07455720357539393};
  const Values found = grad(loss)(x).to_vector<double>();
  for (std::size_t i = 0; i < slopes.size(); ++i) CHECK(found[i] == doctest::Approx(slopes[i]).epsilon(1e-13));
  const Weighted hits = accuracy(x, labels, weight, {.ignore_index = -100});
  CHECK(hits.sum.item<double>() == 3);
  CHECK(hits.weight.item<double>() == 6);
}

TEST_CASE("of sequences, each label that counts counts alike") {
  // Two rows of three labels, of which four count; row weights 1 and 3.
  const Array x = array(Values{1, 2, 0, 0, 3, 1, 5, 2, -1, 0, 2, 2}, {2, 3, 2});
  const Array labels = array(std::vector<int>{1, -100, -100, 0, 1, 0}, {2, 3});
  const CrossEntropyOptions options{.ignore_index = -100};
  const auto row = [](double a, double b) { return std::log1p(std::exp(b - a)); };  // -log p of the first
  const double first = row(2, 1), second = row(5, 2) + row(0, -1) + row(2, 2);
  CHECK(mean_of(softmax_cross_entropy(x, labels, {}, options)) == doctest::Approx((first + second) / 4));
  const Array weight = array({1.0F, 3.0F});
  const Weighted weighed = softmax_cross_entropy(x, labels, weight, options);
  CHECK(mean_of(weighed) == doctest::Approx((first + 3 * second) / 10));
  CHECK(weighed.weight.item<double>() == doctest::Approx(10.0 / 3));
}

TEST_CASE("dense rows without a class are no class 0, and dense labels have none to ignore") {
  const Array dense = one_hot(array({2, -1, 1}), 3);
  CHECK(std::isnan(mean_of(accuracy(logits(), dense))));
  CHECK(mean_of(accuracy(logits(), dense, array({1.0F, 0.0F, 1.0F}))) == 1);
  const LabelOptions options{.ignore_index = -1};
  tests::expect_error<ValueError>(
      [&] { static_cast<void>(softmax_cross_entropy(logits(), dense, {}, {.ignore_index = -1})); },
      "[softmax_cross_entropy] ignore_index is -1");
  tests::expect_error<ValueError>([&] { static_cast<void>(accuracy(logits(), dense, {}, options)); },
                                  "[accuracy] ignore_index is -1");
}

TEST_CASE("one_hot of a narrow dtype has one 1 among more classes than the dtype has numbers") {
  // jax.nn.one_hot of int32 indices.
  CHECK(tests::values(sum(one_hot(convert(array({5, 44, -1}), int8), 300), Axes{1})) == Values{1, 1, 0});
  CHECK(tests::values(argmax(one_hot(convert(array({200}), uint8), 600), 1)) == Values{200});
}

TEST_CASE("losses of float16 and bfloat16 are computed in float32") {
  for (const DType dtype : {float16, bfloat16}) {
    CAPTURE(name(dtype));
    // 300^2 is beyond float16; 2049 rows of 1 have no float16 sum but 2048.
    const Array x = full({2049}, 300.0, dtype), y = zeros({2049}, dtype);
    const double given = convert(full({}, 300.0, dtype), float64).item<double>();
    CHECK(mean_of(mean_squared_error(x, y)) == doctest::Approx(given * given).epsilon(1e-6));
    CHECK(mean_of(mean_absolute_error(x, y)) == doctest::Approx(given).epsilon(1e-6));
    CHECK(mean_of(huber(x, y)) == doctest::Approx(given - 0.5).epsilon(1e-6));
    CHECK(mean_squared_error(x, y).weight.item<float>() == 2049);
    const Array even = zeros({2049, 4}, dtype);
    const Array labels = zeros({2049}, int32);
    CHECK(mean_of(softmax_cross_entropy(even, labels)) == doctest::Approx(std::log(4.0)).epsilon(1e-6));
    CHECK(mean_of(softmax_cross_entropy(even, full({2049, 4}, 0.25, dtype))) ==
          doctest::Approx(std::log(4.0)).epsilon(1e-6));
    CHECK(mean_of(binary_cross_entropy(y, y)) == doctest::Approx(std::log(2.0)).epsilon(1e-6));
    CHECK(grad([&](const Array& p) { return value(mean_squared_error(p, y)); })(x).dtype() == dtype);
  }
}

TEST_CASE("penalties of float16 and bfloat16 parameters are summed in float32") {
  for (const DType dtype : {float16, bfloat16}) {
    CAPTURE(name(dtype));
    const Tree w = Tree::dict({{"a", Tree(full({4099}, 1.0, dtype))}, {"b", Tree(full({2}, 300.0, dtype))}});
    const double b = convert(full({}, 300.0, dtype), float64).item<double>();
    CHECK(l1_penalty(w, 1.0).item<float>() == doctest::Approx(4099 + 2 * b).epsilon(1e-6));
    CHECK(l2_penalty(w, 1.0).item<float>() == doctest::Approx(4099 + 2 * b * b).epsilon(1e-6));
    CHECK(l2_penalty(w, 1.0).dtype() == float32);
  }
}

TEST_CASE("an embedding reads negative indices from the end, NaN outside, and trains no row for those") {
  const auto layer = [](Scope& s, const Array& i) { return embedding(s["e"], i, {.vocabulary = 4, .features = 2}); };
  Model model(layer);
  const Array indices = array({-1, 1, 4, -5});
  auto [w, state] = model.init(random::key(3), indices.type());
  const auto rows = [&](const Tree& table) { return model.stateless_call(table, state, indices, false).first; };
  const Values table = tests::values(w.at("e/embeddings").array());
  const Values read = tests::values(rows(w));
  CHECK(Values(read.begin(), read.begin() + 4) == Values{table[6], table[7], table[2], table[3]});
  for (std::size_t i = 4; i < 8; ++i) CHECK(std::isnan(read[i]));
  const auto finite = [&](const Tree& t) {
    const Array y = rows(t);
    return sum(where(y == y, y, 0));
  };
  CHECK(tests::values(grad(finite)(w).at("e/embeddings").array()) == Values{0, 0, 1, 1, 0, 0, 1, 1});
}
