// Four shards of each batch, and variables that say how what the shards make of them is combined.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string_view>

#include <lockstep/lockstep.h>

namespace ls = lockstep;

/// Inputs less their moving mean, which each shard computes of its own rows; and how many rows were seen.
ls::Array centered(const ls::Scope& s, const ls::Array& x) {
  const ls::Array mean = s.non_trainable("mean", {.shape = {x.dim(1)}, .aggregation = ls::Aggregation::mean});
  s.non_trainable("rows", {.shape = {}, .dtype = ls::int64, .aggregation = ls::Aggregation::sum});
  s.assign("mean", 0.9 * mean + 0.1 * ls::mean(x, 0));
  s.accumulate("rows", ls::sum(ls::ones_like(ls::index(x, {ls::Slice{}, 0}))).astype(ls::int64));
  return x - mean;
}

/// Numbers on a plane far from the origin, and a line's values of them.
ls::Batch points(std::int64_t rows) {
  const ls::Array x = 5 + ls::random::normal(ls::random::key(1), {rows, 3});
  return {x, ls::matmul(x - 5, ls::array({1.0F, -2.0F, 0.5F}, {3, 1})), ls::ones({rows})};
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
  const ls::Model model([](ls::Scope& s, const ls::Array& x) {
    return ls::dense(s["line"], centered(s["centered"], x), {.units = 1, .aggregation = ls::Aggregation::mean});
  });
  const auto loss = [model](const ls::Tree& weights, const ls::Tree& state, const ls::Batch& batch) {
    auto [y, next] = model.stateless_call(weights, state, batch.x, true, {.rows = batch.weight});
    return ls::WithAux{ls::mean_squared_error(y, batch.y, batch.weight), next, {}};
  };
  const auto step = ls::data_parallel(loss, ls::optim::sgd(0.1), {.shards = 4});
  const ls::Batch rows = points(512);
  ls::data::TreeLoader loader(rows, {.batch = 32, .seed = seed});
  auto [weights, variables] = model.init(ls::random::key(seed), ls::zeros({1, 3}));
  const auto state = ls::fit(step, step.init(weights, variables), loader, run);
  const double error = ls::evaluate(ls::EvaluateStep(loss, {}), state, loader).at("loss");
  const ls::Tree& seen = state.non_trainable.at("centered");
  std::printf("loss %.4f mean %.2f rows %lld\nfingerprint %s\n", error,
              ls::mean(seen.at("mean").array()).item<double>(),
              static_cast<long long>(seen.at("rows").array().item<std::int64_t>()),
              ls::fingerprint(ls::to_tree(state)).c_str());
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
