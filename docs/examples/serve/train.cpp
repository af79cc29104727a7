// Trains a small classifier and writes what predicts, with its weights, to one file.

#include <cstdio>
#include <utility>

#include <lockstep/exchange.h>
#include <lockstep/lockstep.h>

namespace ls = lockstep;

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::fprintf(stderr, "usage: train <file to write>\n");
    return 2;
  }
  const ls::Model model([](const ls::Scope& scope, const ls::Array& x) {
    return ls::dense(scope["head"], ls::relu(ls::dense(scope["hidden"], x, {.units = 16})), {.units = 2});
  });
  const auto loss = [&model](const ls::Tree& weights, const ls::Tree& state, const ls::Batch& batch) {
    auto [logits, next] = model.stateless_call(weights, state, batch.x, true, {.rows = batch.weight});
    return ls::WithAux{ls::softmax_cross_entropy(logits, batch.y, batch.weight), next, {}};
  };
  const auto step = ls::data_parallel(model, loss, ls::optim::adam(0.05));

  const ls::Array x = ls::random::uniform(ls::random::key(1), {64, 2});
  const ls::Batch batch = {x, ls::convert(ls::sum(x, 1) > 1.0f, ls::int32), {}};
  auto [weights, variables] = model.init(ls::random::key(2), x);
  ls::TrainState state = step.init(weights, variables);
  for (int i = 0; i < 200; ++i) state = step(std::move(state), batch).first;

  const auto predict = [&](const ls::Array& points) {
    return ls::softmax(model.stateless_call(state.trainable, state.non_trainable, points, false).first);
  };
  ls::exchange::export_function(argv[1], predict, ls::zeros({3, 2}));
} catch (const ls::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
