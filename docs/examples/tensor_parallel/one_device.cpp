// What tensor_parallel.cpp is on one device: a test holds how many lines a mesh of two axes takes.

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string_view>

#include <lockstep/lockstep.h>

namespace ls = lockstep;

/// Points [rows, 2] and the ring that each lies in.
ls::Batch rings(std::uint64_t seed, std::int64_t rows) {
  const ls::Array x = 1.5 * ls::random::normal(ls::random::key(seed), {rows, 2});
  return {x, (ls::sum(ls::square(x), 1) > 2.5).astype(ls::int32), ls::ones({rows})};
}

ls::Array network(ls::Scope& s, const ls::Array& x) {
  return ls::dense(s["down"], ls::relu(ls::dense(s["up"], x, {.units = 64})), {.units = 2});
}

int main(int argc, char** argv) try {
  ls::TrainerOptions run = {.steps = 100, .log_every = 100};
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--resume") run.resume = true;
    if (flag == "--steps" && i + 1 < argc) run.steps = std::atoll(argv[++i]);
    if (flag == "--run" && i + 1 < argc) run.checkpoints = std::make_shared<ls::checkpoint::Manager>(argv[++i]);
  }
  const ls::Model model(network);
  const auto loss = [model](const ls::Tree& weights, const ls::Tree& state, const ls::Batch& batch) {
    auto [logits, next] = model.stateless_call(weights, state, batch.x, true, {.rows = batch.weight});
    return ls::WithAux{ls::softmax_cross_entropy(logits, batch.y, batch.weight),
                       next,
                       {{"accuracy", ls::accuracy(logits, batch.y, batch.weight)}}};
  };
  const ls::DataParallelOptions options = {.devices = ls::devices("cpu:0"), .shards = 1};
  const auto step = ls::data_parallel(loss, ls::optim::adam(1e-2), options);
  ls::data::TreeLoader loader(rings(1, 1024), {.batch = 64, .seed = 1});
  auto [weights, variables] = model.init(ls::random::key(1), ls::zeros({1, 2}));
  const auto state = ls::fit(step, step.init(weights, variables), loader, run);
  ls::data::TreeLoader test(rings(4, 512), {.batch = 64});
  const auto results = ls::evaluate(ls::EvaluateStep(loss, options), state, test);
  std::printf("accuracy %.3f\nfingerprint %s\n", results.at("accuracy"), ls::fingerprint(ls::to_tree(state)).c_str());
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
