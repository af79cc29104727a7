#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

// Every layer with variables is told how the gradients of its own combine.

using namespace lockstep;

namespace {

struct Row {
  std::string layer;
  std::function<Array(const Scope&, const Array&, Aggregation)> call;
  Array x;
  std::size_t trainable;
};

std::vector<Row> aggregation_rows() {
  const Array flat = zeros({2, 4}), image = zeros({2, 6, 6, 4}), text = zeros({2, 3, 4}), words = zeros({2, 3}, int32);
  return {
      {"dense",
       [](const Scope& s, const Array& x, Aggregation a) { return dense(s, x, {.units = 3, .aggregation = a}); }, flat,
       2},
      {"conv2d",
       [](const Scope& s, const Array& x, Aggregation a) { return conv2d(s, x, {.filters = 3, .aggregation = a}); },
       image, 2},
      {"batch_norm", [](const Scope& s, const Array& x, Aggregation a) { return batch_norm(s, x, {.aggregation = a}); },
       image, 2},
      {"layer_norm", [](const Scope& s, const Array& x, Aggregation a) { return layer_norm(s, x, {.aggregation = a}); },
       flat, 2},
      {"rms_norm", [](const Scope& s, const Array& x, Aggregation a) { return rms_norm(s, x, {.aggregation = a}); },
       flat, 1},
      {"embedding",
       [](const Scope& s, const Array& x, Aggregation a) {
         return embedding(s, x, {.vocabulary = 5, .features = 2, .aggregation = a});
       },
       words, 1},
      {"multi_head_attention",
       [](const Scope& s, const Array& x, Aggregation a) {
         return multi_head_attention(s, x, {.heads = 2, .aggregation = a});
       },
       text, 4},
      {"lstm", [](const Scope& s, const Array& x, Aggregation a) { return lstm(s, x, {.units = 3, .aggregation = a}); },
       text, 3},
  };
}

}  // namespace

TEST_CASE("each layer's own variables take the aggregation of its options, none by default") {
  for (const Row& row : aggregation_rows()) {
    CAPTURE(row.layer);
    for (const Aggregation aggregation :
         {Aggregation::none, Aggregation::mean, Aggregation::sum, Aggregation::only_first_replica}) {
      const Model model([&](const Scope& s, const Array& x) { return row.call(s["layer"], x, aggregation); });
      std::size_t trainable = 0;
      for (const Variable& v : model.variables(row.x)) {
        CAPTURE(v.path);
        // Statistics are no gradients: synchronised ones are the same on all replicas.
        CHECK(v.aggregation == (v.trainable ? aggregation : Aggregation::none));
        trainable += v.trainable ? 1 : 0;
      }
      CHECK(trainable == row.trainable);
    }
  }
}

TEST_CASE("a layer's aggregation is what a step combines its gradients by") {
  // Shard r of two has one row, x = r + 1, and its own loss x * gamma: the mean of the gradients is 1.5, the first's 1.
  const auto gradient = [](Aggregation aggregation) {
    const Model model([=](const Scope& s, const Array& i) {
      return embedding(
          s["e"], i,
          {.vocabulary = 1, .features = 1, .initializer = initializers::zeros(), .aggregation = aggregation});
    });
    const LossFunction loss = [model](const Tree& w, const Tree& state, const Batch& b) {
      auto [y, next] = model.stateless_call(w, state, b.x, true, {.rows = b.weight});
      return WithAux{weighted(squeeze(y, {1}) * b.y, b.weight), next, {}};
    };
    const TrainStep step = data_parallel(loss, optim::sgd(1.0), {.devices = devices("cpu:0"), .shards = 2});
    const Batch batch{zeros({2}, int32), array({1.F, 2.F}), ones({2})};
    auto [w, state] = model.init(random::key(0), batch.x);
    return -step(step.init(w, state), batch).first.trainable.at("e/embeddings").array().item<float>();
  };
  // The local gradient is that of the replica's own mean: 1 and 2.
  CHECK(gradient(Aggregation::mean) == 1.5F);
  CHECK(gradient(Aggregation::sum) == 3.F);
  CHECK(gradient(Aggregation::only_first_replica) == 1.F);
  CHECK(gradient(Aggregation::none) == 1.5F);
}
