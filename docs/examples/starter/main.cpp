// A small classifier: a model, a loss, a compiled step, batches in a shuffled order. Change `network` first.

#include <cstdio>
#include <exception>

#include <lockstep/lockstep.h>

namespace ls = lockstep;

namespace {

/// Logits [rows, 3] of inputs [rows, 2].
ls::Array network(ls::Scope& s, const ls::Array& x) {
  const ls::Array h = ls::tanh(ls::dense(s["hidden"], x, {.units = 16}));
  return ls::dense(s["head"], h, {.units = 3});
}

/// Points of the plane; the class says how far from the middle a point lies.
ls::Batch points(std::int64_t rows) {
  const ls::Array x = ls::random::normal(ls::random::key(1), {rows, 2});
  const ls::Array distance = ls::sum(ls::square(x), {1});
  const ls::Array y = (distance > 0.8).astype(ls::int32) + (distance > 2.2).astype(ls::int32);
  return {x, y, {}};
}

void train() {
  const ls::Model model(network);
  const auto loss = [&model](const ls::Tree& weights, const ls::Tree& state, const ls::Batch& batch) {
    auto [logits, next] = model.stateless_call(weights, state, batch.x, true, {.rows = batch.weight});
    return ls::WithAux{ls::softmax_cross_entropy(logits, batch.y, batch.weight), next, {}};
  };
  const auto step = ls::data_parallel(model, loss, ls::optim::adam(0.05));

  const ls::Batch rows = points(1024);
  ls::data::TreeLoader loader(rows, {.batch = 64, .seed = 2});
  auto [trainable, non_trainable] = model.init(ls::random::key(3), rows.x);
  ls::TrainState state = step.init(trainable, non_trainable);
  for (int epoch = 0; epoch < 10; ++epoch) {
    double total = 0;
    for (std::int64_t i = 0; i < loader.batches_per_epoch(); ++i) {
      auto [next, logs] = step(std::move(state), loader.next<ls::Batch>());
      state = std::move(next);
      total += logs.at("loss").item<double>();
    }
    if (epoch % 3 == 0) {
      std::printf("epoch %d loss %.2f\n", epoch, total / static_cast<double>(loader.batches_per_epoch()));
    }
  }
}

}  // namespace

int main() {
  try {
    train();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
