// Layers and losses whose result does not depend on the scale of what they are given, far from 1; and metrics far from 0.
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/array_values.h"
#include "tests/support/expect_error.h"

using namespace lockstep;
using tests::check_close;

namespace {

using ScaledLayer = std::function<Array(Scope&, const Array&)>;

Array layer_output(const ScaledLayer& layer, const Array& x) {
  const Model<Array, Array> model(layer);
  const auto [trainable, state] = model.init(random::key(0), x);
  return model.stateless_call(trainable, state, x, true).first;
}

/// Whether elements differ by no more than this share of the largest.
bool is_within(const Array& a, const Array& b, double share) {
  return (max(abs(a - b)) <= share * max(abs(b))).item<bool>();
}

}  // namespace

TEST_CASE("normalisations of inputs times 1e20 are those of inputs of a scale at which epsilon is nothing") {
  const std::vector<std::pair<std::string, ScaledLayer>> layers = {
      {"layer_norm", [](Scope& s, const Array& x) { return layer_norm(s, x); }},
      {"group_norm", [](Scope& s, const Array& x) { return group_norm(s, x, {.groups = 2}); }},
      {"instance_norm", [](Scope& s, const Array& x) { return instance_norm(s, x); }},
      {"rms_norm", [](Scope& s, const Array& x) { return rms_norm(s, x); }},
      {"standardize", [](Scope&, const Array& x) { return standardize(x); }}};
  const Array x = random::normal(random::key(4), {2, 6, 8}) + 0.5;
  for (const auto& [layer, call] : layers) {
    CAPTURE(layer);
    const Array expected = layer_output(call, x * 1e5);
    for (const double scale : {1e12, 1e20}) {
      CAPTURE(scale);
      CHECK(is_within(layer_output(call, x * scale), expected, 1e-5));
      const auto loss = [&](const Array& v) { return sum(layer_output(call, v) * cos(arange(8, float32))); };
      CHECK(all(is_finite(grad(loss)(x * scale))).item<bool>());
    }
    CHECK(all(is_finite(layer_output(call, x * 1e-30))).item<bool>());
  }
}

TEST_CASE("kernels times 1e20 and 1e-25 have the normed kernels that they have times 1") {
  const Array kernel = random::normal(random::key(5), {6, 4});
  const ScaledLayer spectral = [](Scope& s, const Array& x) { return spectral_norm(s, x, {.iterations = 50}); };
  const Array expected = layer_output(spectral, kernel);
  CHECK(linalg::norm(expected, {.order = 2, .axes = Axes{0, 1}}).item<float>() == doctest::Approx(1).epsilon(1e-4));
  for (const double scale : {1e20, 1e-25, 1e37, 1e-37}) {
    CAPTURE(scale);
    CHECK(is_within(layer_output(spectral, kernel * scale), expected, 1e-4));
  }
  const ScaledLayer lengths = [](Scope& s, const Array& x) { return weight_norm(s, x); };
  CHECK(is_within(layer_output(lengths, kernel * 1e20), layer_output(lengths, kernel), 1e-5));
}

TEST_CASE("metrics of regressions far from 0") {
  // Targets that are all the same have no spread: 0, whatever 0.1 is rounded to.
  const std::vector<double> far = {1.7e9, 1.7e9 + 1, 1.7e9 + 2, 1.7e9 + 4};
  for (const DType dtype : {float32, float64}) {
    CAPTURE(name(dtype));
    const Array constant = full({101}, 0.1, dtype), other = constant + arange(101, dtype) * 0.01;
    CHECK(r2_score(regression_sums(other, constant)).item<double>() == 0);
    CHECK(pearson_correlation(regression_sums(other, constant)).item<double>() == 0);
    CHECK(explained_variance(regression_sums(other, constant)).item<double>() == 0);
  }
  const Array y = array(far);
  const Array p = array(std::vector<double>{1.7e9 + 0.1, 1.7e9 + 1, 1.7e9 + 2.2, 1.7e9 + 3.9});
  // By hand: squared errors 0.01 + 0.04 + 0.01, spread 8.75; doubles at 1.7e9 are 2.4e-7 apart.
  const double expected = 1 - 0.06 / 8.75;
  CHECK(r2_score(regression_sums(p, y)).item<double>() == doctest::Approx(expected).epsilon(1e-6));
  const Array less = p - 1.7e9, near = y - 1.7e9;
  for (const auto& metric : {explained_variance, pearson_correlation, concordance_correlation}) {
    CHECK(metric(regression_sums(p, y)).item<double>() ==
          doctest::Approx(metric(regression_sums(less, near)).item<double>()).epsilon(1e-6));
  }
  // Merged from parts, with weights.
  const Array w = array(std::vector<double>{0.3, 0.7, 0.1, 0.9});
  const auto part = [&](std::int64_t first, std::int64_t last) {
    return regression_sums(slice_in_dim(p, first, last, 0), slice_in_dim(y, first, last, 0),
                           slice_in_dim(w, first, last, 0));
  };
  CHECK(r2_score(merged(part(0, 1), part(1, 4))).item<double>() ==
        doctest::Approx(r2_score(regression_sums(less, near, w)).item<double>()).epsilon(1e-6));
}

TEST_CASE("poisson losses of a rate of 0 and a count of 0") {
  const double endless = std::numeric_limits<double>::infinity();
  const Array log_rate = array(std::vector<double>{-endless, 0}), count = array(std::vector<double>{0, 1});
  const auto loss = [&](const Array& x) { return local_value(poisson(x, count, {}, {.log_rate = true})); };
  CHECK(loss(log_rate).item<double>() == 0.5);
  CHECK(grad(loss)(log_rate).to_vector<double>() == std::vector<double>{0, 0});
  const auto of_rate = [&](const Array& x) {
    return local_value(poisson(x, count, {}, {.log_rate = false, .epsilon = 0}));
  };
  CHECK(of_rate(array(std::vector<double>{0, 1})).item<double>() == 0.5);
  CHECK(grad(of_rate)(array(std::vector<double>{0, 1})).to_vector<double>() == std::vector<double>{0.5, 0});
}

TEST_CASE("focal losses have second derivatives where nearly nothing is left") {
  for (const double gamma : {0.5, 1.5, 2.0}) {
    for (const double logit : {20.0, 45.0, 60.0, 100.0}) {
      CAPTURE(gamma);
      CAPTURE(logit);
      const auto loss = [&](const Array& x) {
        return local_value(sigmoid_focal(reshape(x, {1}), ones({1}), {}, {.gamma = gamma}));
      };
      const auto of_classes = [&](const Array& x) {
        return local_value(
            softmax_focal(reshape(stack({x, x * 0}, 0), {1, 2}), zeros({1}, int32), {}, {.gamma = gamma}));
      };
      CHECK(grad(grad(loss))(array(static_cast<float>(logit))).item<float>() == doctest::Approx(0).epsilon(1e-6));
      CHECK(grad(grad(of_classes))(array(static_cast<float>(logit))).item<float>() == doctest::Approx(0).epsilon(1e-6));
    }
  }
}
