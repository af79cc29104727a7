#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/replicas.h"
#include "tests/support/training.h"

// Metrics of several sums go through an evaluation and a step as those of one do: over shards, microbatches and rows of
// weight 0 that hold NaN they are what one device has.

using namespace lockstep;

namespace {

Model<Array, Array> scorer() {
  return Model([](Scope& s, const Array& x) { return dense(s["head"], x, {.units = 3}); });
}

LossFunction measured(const Model<Array, Array>& model) {
  return [model](const Tree& w, const Tree& state, const Batch& b) {
    auto [y, next] = model.stateless_call(w, state, b.x, true, {.rows = b.weight});
    const Array first = sigmoid(squeeze(slice_in_dim(y, 0, 1, 1), 1)), is_first = convert(b.y == 0, float32);
    return WithAux{softmax_cross_entropy(y, b.y, b.weight),
                   next,
                   {{"confusion", confusion_matrix(y, b.y, b.weight)},
                    {"counts", threshold_counts(first, is_first, b.weight)},
                    {"f1", f_score(first, is_first, b.weight)},
                    {"errors", regression_sums(first, is_first, b.weight)}}};
  };
}

Batch masked_rows(float masked) {
  std::vector<float> weight(16);
  std::vector<std::int32_t> labels(16);
  for (std::size_t i = 0; i < 16; ++i) {
    weight[i] = i % 5 == 3 ? 0.F : static_cast<float>(1 + i % 3);
    labels[i] = static_cast<std::int32_t>(i * 7 % 3);
  }
  const Array w = array(weight);
  const Array x = random::normal(random::key(4), {16, 5});
  return {where(expand_dims(w != 0, 1), x, masked), array(labels), w};
}

}  // namespace

TEST_CASE("metrics of several sums are those of one device over shards and microbatches") {
  const auto model = scorer();
  const auto [w, state] = model.init(random::key(1), masked_rows(0).x);
  const auto measure = [&, w = w, state = state](std::int64_t shards, std::int64_t parts, float masked) {
    DataParallelOptions options = tests::parallel({shards, 1});
    options.microbatches = parts;
    return EvaluateStep(measured(model), options)(w, state, masked_rows(masked));
  };
  const auto expected = measure(1, 1, 0);
  for (const auto& [shards, parts] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 4}, {2, 1}, {4, 2}, {8, 1}}) {
    CAPTURE(shards);
    CAPTURE(parts);
    const auto found = measure(shards, parts, std::numeric_limits<float>::quiet_NaN());
    for (const char* counted : {"confusion", "counts", "f1"}) {
      CAPTURE(counted);
      CHECK(found.at(counted).sum.to_bytes() == expected.at(counted).sum.to_bytes());
      CHECK(found.at(counted).weight.to_bytes() == expected.at(counted).weight.to_bytes());
    }
    CHECK(auc(found.at("counts")).item<double>() == auc(expected.at("counts")).item<double>());
    CHECK(mean_iou(found.at("confusion")).item<double>() == mean_iou(expected.at("confusion")).item<double>());
    CHECK(r2_score(found.at("errors")).item<double>() ==
          doctest::Approx(r2_score(expected.at("errors")).item<double>()).epsilon(1e-12));
  }
}

TEST_CASE("a step's log of a value that is made of several sums") {
  const auto model = scorer();
  const Batch batch = masked_rows(0);
  const LossFunction loss = [model](const Tree& w, const Tree& state, const Batch& b) {
    auto [y, next] = model.stateless_call(w, state, b.x, true, {.rows = b.weight});
    const Array iou = mean_iou(confusion_matrix(y, b.y, b.weight));
    return WithAux{softmax_cross_entropy(y, b.y, b.weight), next, {{"iou", {iou, ones_like(iou)}}}};
  };
  std::string expected;
  for (const std::int64_t shards : {1, 2, 4}) {
    const TrainStep step = data_parallel(loss, optim::sgd(0.1), tests::parallel({shards, 1}));
    const auto logs = step(tests::fresh_state(step, model, batch), batch).second;
    const std::string found = std::to_string(logs.at("iou").item<double>());
    if (expected.empty()) expected = found;
    CHECK(found == expected);
  }
}
