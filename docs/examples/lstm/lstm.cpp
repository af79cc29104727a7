// An LSTM on sequences of many lengths: what lies behind a sequence's end is never seen.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string_view>

#include <lockstep/lockstep.h>

namespace ls = lockstep;

/// Random steps, of which the first `length` count; whether their sum is above 0.
struct Walks {
  ls::Array x, length, y;
};
LOCKSTEP_TREE(Walks, x, length, y);

Walks walks(std::uint64_t seed, std::int64_t rows) {
  const ls::Array keys = ls::random::split(ls::random::key(seed));
  const ls::Array x = ls::random::normal(keys[0], {rows, 24, 1});
  const ls::Array length = ls::random::randint(keys[1], {rows}, 4, 25);
  const ls::Array counts = ls::arange(24) < ls::expand_dims(length, 1);
  return {x, length, (ls::sum(ls::where(counts, ls::squeeze(x, 2), 0), 1) > 0).astype(ls::int32)};
}

ls::Array network(ls::Scope& s, const Walks& walks) {
  const auto [all, last] = ls::lstm(s["lstm"], walks.x, {.units = 24}, {.lengths = walks.length});
  return ls::dense(s["head"], last.h, {.units = 2});
}

int main(int argc, char** argv) try {
  ls::TrainerOptions run = {.steps = 150, .log_every = 150, .save_every = 20};
  std::uint64_t seed = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--resume") run.resume = true;
    if (flag == "--steps" && i + 1 < argc) run.steps = std::atoll(argv[++i]);
    if (flag == "--seed" && i + 1 < argc) seed = std::strtoull(argv[++i], nullptr, 10);
    if (flag == "--run" && i + 1 < argc) run.checkpoints = std::make_shared<ls::checkpoint::Manager>(argv[++i]);
  }
  const ls::Model model(network);
  const auto loss = [model](const ls::Tree& weights, const ls::Tree& state, const Walks& batch) {
    auto [logits, next] = model.stateless_call(weights, state, batch, true);
    return ls::WithAux{ls::softmax_cross_entropy(logits, batch.y), next, {{"accuracy", ls::accuracy(logits, batch.y)}}};
  };
  const auto step = ls::data_parallel(loss, ls::optim::chain(ls::optim::clip_by_global_norm(1), ls::optim::adam(1e-2)));
  const Walks rows = walks(1, 1024);
  ls::data::TreeLoader loader(rows, {.batch = 64, .seed = seed});
  auto [weights, variables] = model.init(ls::random::key(seed), rows);
  const auto state = ls::fit(step, step.init(weights, variables), loader, run);
  ls::data::TreeLoader test(walks(4, 512), {.batch = 64});
  const auto results = ls::evaluate(ls::EvaluateStep(loss, {}), state, test);
  std::printf("accuracy %.3f\nfingerprint %s\n", results.at("accuracy"), ls::fingerprint(ls::to_tree(state)).c_str());
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
