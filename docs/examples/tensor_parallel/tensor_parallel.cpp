// A layer's columns and the next one's rows cut over a mesh of two by two, by a map of layouts alone.

#include <cstdint>
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
  ls::TrainerOptions run = {.steps = 100, .log_every = 100, .save_every = 20};
  std::uint64_t seed = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--resume") run.resume = true;
    if (flag == "--steps" && i + 1 < argc) run.steps = std::atoll(argv[++i]);
    if (flag == "--seed" && i + 1 < argc) seed = std::strtoull(argv[++i], nullptr, 10);
    if (flag == "--run" && i + 1 < argc) run.checkpoints = std::make_shared<ls::checkpoint::Manager>(argv[++i]);
  }
  const ls::Model model(network);
  const auto loss = [model](const ls::Tree& weights, const ls::Tree& state, const ls::Batch& batch) {
    auto [logits, next] = model.stateless_call(weights, state, batch.x, true, {.rows = batch.weight});
    return ls::WithAux{ls::softmax_cross_entropy(logits, batch.y, batch.weight),
                       next,
                       {{"accuracy", ls::accuracy(logits, batch.y, batch.weight)}}};
  };
  const ls::ModelParallelOptions options = {.mesh = ls::Mesh({{"data", 2}, {"model", 2}}, ls::devices("cpu:0")),
                                            .layouts = {{"up/kernel", ls::sharded("model", 1)},
                                                        {"up/bias", ls::sharded("model")},
                                                        {"down/kernel", ls::sharded("model")}}};
  const auto step = ls::model_parallel(loss, ls::optim::adam(1e-2), options);
  ls::data::TreeLoader loader(rings(1, 1024), {.batch = 64, .seed = seed});
  auto [weights, variables] = model.init(ls::random::key(seed), ls::zeros({1, 2}));
  const auto state = ls::fit(step, step.init(weights, variables), loader, run);
  ls::data::TreeLoader test(rings(4, 512), {.batch = 64});
  const auto results = ls::evaluate(ls::model_parallel_evaluation(loss, options), state, test);
  std::printf("accuracy %.3f\nfingerprint %s\n", results.at("accuracy"), ls::fingerprint(ls::to_tree(state)).c_str());
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
