#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/replicas.h"
#include "tests/support/training.h"

// Labels to ignore beside rows of weight 0 that hold NaN, over shards and microbatches. The right values are sums over the
// labels that count, each times its row's weight, as torch.nn.functional.cross_entropy(ignore_index) with a weight a row.

using namespace lockstep;

namespace {

constexpr std::int64_t labelled_rows = 16, places = 3, label_features = 4, classes = 5;
constexpr std::int64_t ignored = -100;
const LabelOptions ignoring_options{.ignore_index = ignored};

/// Rows 3, 14 and 15 are masked: over 8 shards the last one has none that counts. Row 5 has no label at all, others one or
/// two; labels are [B] or [B, T].
Batch labelled(bool of_sequences) {
  const float not_a_number = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> weight(labelled_rows);
  std::vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < labelled_rows; ++i) {
    const bool masked = i == 3 || i >= 14;
    weight[static_cast<std::size_t>(i)] = masked ? 0.F : 0.5F + 0.25F * static_cast<float>(i % 4);
    for (std::int64_t t = 0; t < (of_sequences ? places : 1); ++t) {
      const bool none = i == 5 || (3 * i + t) % 4 == 1;
      labels.push_back(static_cast<std::int32_t>(masked ? 77 : none ? ignored : (2 * i + t) % classes));
    }
  }
  const Shape shape = of_sequences ? Shape{labelled_rows, places} : Shape{labelled_rows};
  const Array w = array(weight, Shape{labelled_rows});
  const std::vector<std::int64_t> column =
      of_sequences ? std::vector<std::int64_t>{labelled_rows, 1, 1} : std::vector{labelled_rows, std::int64_t{1}};
  const Array x = random::normal(random::key(5), of_sequences ? Shape{labelled_rows, places, label_features}
                                                              : Shape{labelled_rows, label_features});
  return {where(reshape(w != 0, column), x, not_a_number), array(labels, shape), w};
}

Model<Array, Array> classifier() {
  return Model([](Scope& s, const Array& x) {
    return dense(s["head"], tanh(dense(s["in"], x, {.units = 6})), {.units = classes});
  });
}

LossFunction ignoring(const Model<Array, Array>& model) {
  return [model](const Tree& w, const Tree& state, const Batch& b) {
    auto [y, next] = model.stateless_call(w, state, b.x, true, {.rows = b.weight});
    return WithAux{softmax_cross_entropy(y, b.y, b.weight, {.ignore_index = ignored}),
                   next,
                   {{"accuracy", accuracy(y, b.y, b.weight, ignoring_options)},
                    {"top_2", top_k_accuracy(y, b.y, 2, b.weight, ignoring_options)}}};
  };
}

/// Loss, accuracy and top-2 accuracy by their definition, of a batch in which nothing is left to mask.
struct Expected {
  Array loss, accuracy, top_2;
};
Expected by_definition(const Array& logits, const Array& labels, const Array& weight) {
  const Array flat = reshape(logits, {-1, classes}), label = reshape(labels, {-1});
  const std::int64_t each = labels.size() / labelled_rows;
  const Array row_weight = reshape(broadcast_to(expand_dims(weight, 1), {labelled_rows, each}), {-1});
  const Array counts = (label != ignored) & (row_weight != 0);
  const Array w = where(counts, row_weight, 0);
  const Array chosen = one_hot(where(counts, label, 0), classes);
  const Array own = sum(flat * chosen, Axes{1});
  const Array above = sum(convert(greater(flat, expand_dims(own, 1)), float32), Axes{1});
  const auto mean_of = [&](const Array& values) { return sum(values * w) / sum(w); };
  return {mean_of(logsumexp(flat, Axes{1}) - own), mean_of(convert(equal(above, 0), float32)),
          mean_of(convert(less(above, 2), float32))};
}

}  // namespace

TEST_CASE("labels to ignore, masked rows of NaN, shards and microbatches: the mean over the labels that count") {
  const auto model = classifier();
  for (const bool of_sequences : {false, true}) {
    const Batch batch = labelled(of_sequences);
    const Batch cleaned{where(isnan(batch.x), 0, batch.x), batch.y, batch.weight};
    const auto [trainable, state] = model.init(random::key(3), batch.x);
    const auto expected_of = [&, s = state](const Tree& w) {
      return by_definition(model.stateless_call(w, s, cleaned.x, true).first, cleaned.y, cleaned.weight);
    };
    const Expected expected = expected_of(trainable);
    const Tree gradient = grad([&](const Tree& w) { return expected_of(w).loss; })(trainable);
    REQUIRE(std::isfinite(expected.loss.item<float>()));
    for (const tests::Replicas& replicas : {tests::Replicas{1, 1}, {2, 2}, {4, 1}, {8, 2}}) {
      for (const std::int64_t microbatches : {1, 2, 4}) {
        if (replicas.shards * microbatches > labelled_rows) continue;
        CAPTURE(of_sequences);
        CAPTURE(replicas.shards);
        CAPTURE(microbatches);
        DataParallelOptions parallel = tests::parallel(replicas);
        parallel.microbatches = microbatches;
        const TrainStep step = data_parallel(model, ignoring(model), optim::sgd(1.0), parallel);
        const auto [after, logs] = step(step.init(trainable, state), batch);
        CHECK(logs.at("loss").item<float>() == doctest::Approx(expected.loss.item<float>()).epsilon(1e-6));
        CHECK(logs.at("accuracy").item<float>() == doctest::Approx(expected.accuracy.item<float>()).epsilon(1e-6));
        CHECK(logs.at("top_2").item<float>() == doctest::Approx(expected.top_2.item<float>()).epsilon(1e-6));
        for (const std::string& path : trainable.paths()) {
          const Array moved = trainable.at(path).array() - after.trainable.at(path).array();
          const Array off = abs(moved - gradient.at(path).array());
          CAPTURE(path);
          CHECK(max(off).item<float>() < 1e-6F);
        }
        const EvaluateStep evaluate(ignoring(model), parallel);
        const auto sums = evaluate(trainable, state, batch);
        CHECK(value(sums.at("loss")).item<float>() == doctest::Approx(expected.loss.item<float>()).epsilon(1e-6));
        CHECK(value(sums.at("top_2")).item<float>() == doctest::Approx(expected.top_2.item<float>()).epsilon(1e-6));
      }
    }
  }
}
