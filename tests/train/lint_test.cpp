#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/replicas.h"
#include "tests/support/small_models.h"
#include "tests/support/training.h"

// What will make a NaN of a training step's gradient.
using namespace lockstep;

namespace {

std::vector<std::string> lint_findings(const Model<Array, Array>& model, const LossFunction& loss, const Batch& batch,
                                       std::int64_t microbatches = 1) {
  DataParallelOptions options = tests::parallel({4, 2});
  options.microbatches = microbatches;
  const TrainStep step = data_parallel(model, loss, optim::adam(0.1), options);
  return lint(step, tests::fresh_state(step, model, batch), batch);
}

Model<Array, Array> head() {
  return Model([](Scope& scope, const Array& x) { return dense(scope["head"], x, {.units = 1}); });
}

}  // namespace

TEST_CASE("lint has nothing to say of the library's models") {
  const Batch images{random::uniform(random::key(1), {8, 12, 12, 1}), arange(8), {}};
  for (const std::string_view name : tests::small_models()) {
    CAPTURE(name);
    const auto model = tests::narrow_model(name);
    for (const std::string& text : lint_findings(model, tests::loss_of(model), images)) FAIL_CHECK(text);
  }
}

TEST_CASE("lint of a step sees its loss, whatever its microbatches, and neither the data nor the optimizer") {
  const auto model = head();
  const Batch batch = tests::regression_batch(8, 3, float32);
  const LossFunction naive = [&](const Tree& w, const Tree& state, const Batch& b) {
    const Array y = squeeze(model.stateless_call(w, state, b.x, true, {.rows = b.weight}).first, {1});
    return WithAux{Weighted{sum(where(y > 0, sqrt(y), 0) * b.weight), sum(b.weight)}, state, {}};
  };
  for (const std::int64_t microbatches : {1, 2}) {
    const std::vector<std::string> texts = lint_findings(model, naive, batch, microbatches);
    REQUIRE(texts.size() == 1);
    CHECK(tests::contains(texts[0], "select: sqrt of "));
  }
  const LossFunction of_data = [&](const Tree& w, const Tree& state, const Batch& b) {
    const Array x = where(b.x > 0, log(b.x), 0);
    const auto [y, next] = model.stateless_call(w, state, x, true, {.rows = b.weight});
    return WithAux{mean_squared_error(y, b.y, b.weight), next, {}};
  };
  CHECK(lint_findings(model, of_data, batch).empty());
}

TEST_CASE("lint has nothing to say of the library's losses with their defaults") {
  const Array labels = array(std::vector<std::int32_t>{0, 2, 1, 2}), binary = array(std::vector<float>{0, 1, 1, 0});
  const Array shares = softmax(random::normal(random::key(1), {4, 3}));
  const Array targets = random::uniform(random::key(2), {4, 3});
  const auto column = [](const Array& x, std::int64_t i) { return squeeze(slice_in_dim(x, i, i + 1, 1), {1}); };
  using Of = std::function<Weighted(const Array&)>;
  const std::vector<std::pair<const char*, Of>> losses = {
      {"softmax_cross_entropy", [&](const Array& x) { return softmax_cross_entropy(x, labels); }},
      {"of shares", [&](const Array& x) { return softmax_cross_entropy(x, shares); }},
      {"poly", [&](const Array& x) { return poly_cross_entropy(x, labels); }},
      {"generalized", [&](const Array& x) { return generalized_cross_entropy(x, labels); }},
      {"binary", [&](const Array& x) { return binary_cross_entropy(column(x, 0), binary); }},
      {"sigmoid_focal", [&](const Array& x) { return sigmoid_focal(column(x, 0), binary); }},
      {"softmax_focal", [&](const Array& x) { return softmax_focal(x, labels); }},
      {"hinge", [&](const Array& x) { return hinge(column(x, 0), binary * 2 - 1); }},
      {"squared_hinge", [&](const Array& x) { return squared_hinge(column(x, 0), binary * 2 - 1); }},
      {"multiclass_hinge", [&](const Array& x) { return multiclass_hinge(x, labels); }},
      {"kl of log_softmax", [&](const Array& x) { return kl_divergence(log_softmax(x), shares); }},
      {"kl of softmax", [&](const Array& x) { return kl_divergence(log(softmax(x)), shares); }},
      {"tversky",
       [&](const Array& x) {
         return tversky(reshape(sigmoid(x), {1, 4, 3}), reshape(targets, {1, 4, 3}));
       }},
      {"dice",
       [&](const Array& x) {
         return dice(reshape(sigmoid(x), {1, 4, 3}), reshape(targets, {1, 4, 3}));
       }},
      {"squares", [&](const Array& x) { return mean_squared_error(x, targets); }},
      {"absolute", [&](const Array& x) { return mean_absolute_error(x, targets); }},
      {"percentage", [&](const Array& x) { return mean_absolute_percentage_error(x, targets); }},
      {"logarithmic", [&](const Array& x) { return mean_squared_logarithmic_error(x, targets); }},
      {"huber", [&](const Array& x) { return huber(x, targets); }},
      {"log_cosh", [&](const Array& x) { return log_cosh(x, targets); }},
      {"quantile", [&](const Array& x) { return quantile_loss(x, targets, 0.3); }},
      {"poisson", [&](const Array& x) { return poisson(x, targets); }},
      {"gaussian", [&](const Array& x) { return gaussian_negative_log_likelihood(x, exp(x), targets); }},
      {"cosine", [&](const Array& x) { return cosine_distance(x, targets); }},
      {"embedding", [&](const Array& x) { return cosine_embedding(x, targets, binary * 2 - 1); }},
      {"contrastive", [&](const Array& x) { return contrastive(sum(square(x), 1), binary); }},
      {"triplet", [&](const Array& x) { return triplet_margin(x, targets, shares); }},
      {"ranking", [&](const Array& x) { return margin_ranking(column(x, 0), column(x, 1), binary * 2 - 1); }},
      {"ntxent", [&](const Array& x) { return ntxent(x, labels); }},
      {"circle", [&](const Array& x) { return circle(x, labels); }},
      {"sparsemax", [&](const Array& x) { return sparsemax_loss(x, labels); }}};
  for (const auto& [name, loss] : losses) {
    CAPTURE(name);
    const auto total = [&loss = loss](const Array& x) { return value(loss(x)); };
    for (const std::string& text : trace_function(total, ones({4, 3})).lint()) FAIL_CHECK(text);
  }
}

TEST_CASE("lint has nothing to say of layers that guard what they divide by") {
  const Batch batch = tests::regression_batch(8, 4, float32);
  const std::vector<std::pair<const char*, std::function<Array(const Scope&, const Array&)>>> layers = {
      {"gaussian_dropout", [](const Scope& s, const Array& x) { return gaussian_dropout(s, x, 0.3); }},
      {"rms_norm", [](const Scope& s, const Array& x) { return rms_norm(s, x); }},
      {"layer_norm", [](const Scope& s, const Array& x) { return layer_norm(s, x); }},
      {"group_norm", [](const Scope& s, const Array& x) { return group_norm(s, x, {.groups = 2}); }},
      {"experts", [](const Scope& s, const Array& x) {
         const Array kernels = s.trainable("kernels", {.shape = {2, 4, 4}, .initializer = initializers::normal(0.1)});
         const auto expert = [](const Array& kernel, const Array& rows) { return matmul(rows, kernel); };
         const Array tokens = reshape(x, {2, x.dim(0) / 2, 4});
         const MixtureResult mixed =
             mixture_of_experts(tokens, dense(s["gate"], tokens, {.units = 2}), kernels, expert);
         return batch_norm(s["norm"], reshape(mixed.y, {x.dim(0), 4}));
       }}};
  for (const auto& [name, layer] : layers) {
    CAPTURE(name);
    const Model model([&layer = layer](Scope& s, const Array& x) {
      return dense(s["head"], layer(s["layer"], dense(s["first"], x, {.units = 4})), {.units = 1});
    });
    for (const std::string& text : lint_findings(model, tests::loss_of(model), batch)) FAIL_CHECK(text);
  }
}
