// A variational autoencoder of drawn stripes; its loss draws in the latent space.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string_view>

#include <lockstep/lockstep.h>

namespace ls = lockstep;

/// Smooth stripes [rows, 64] of any direction and phase, between 0 and 1.
ls::Array stripes(std::uint64_t seed, std::int64_t rows) {
  const ls::Array u = ls::random::uniform(ls::random::key(seed), {2, rows, 1, 1}, ls::float32, 0, 3.1416);
  const ls::Array i = ls::iota({8, 8}, 0, ls::float32), j = ls::iota({8, 8}, 1, ls::float32);
  return ls::reshape(0.5 + 0.5 * ls::sin(ls::cos(u[0]) * i + ls::sin(u[0]) * j + 2 * u[1]), {rows, 64});
}

struct Images {
  ls::Array x;
};
LOCKSTEP_TREE(Images, x);
struct Coded {
  ls::Array mean, log_variance, logits;
};
LOCKSTEP_TREE(Coded, mean, log_variance, logits);

Coded network(ls::Scope& s, const ls::Array& x) {
  const ls::Array h = ls::relu(ls::dense(s["encoder"], x, {.units = 64}));
  const ls::Array mean = ls::dense(s["mean"], h, {.units = 4}), log_variance = ls::dense(s["spread"], h, {.units = 4});
  const ls::Array noise = ls::random::normal(s.next_key(), mean.shape(), ls::float32, s.over_batch());
  const ls::Array z = mean + ls::exp(0.5 * log_variance) * noise;
  return {mean, log_variance,
          ls::dense(s["image"], ls::relu(ls::dense(s["decoder"], z, {.units = 64})), {.units = 64})};
}

int main(int argc, char** argv) try {
  ls::TrainerOptions run = {.steps = 300, .log_every = 300, .save_every = 20};
  std::uint64_t seed = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--resume") run.resume = true;
    if (flag == "--steps" && i + 1 < argc) run.steps = std::atoll(argv[++i]);
    if (flag == "--seed" && i + 1 < argc) seed = std::strtoull(argv[++i], nullptr, 10);
    if (flag == "--run" && i + 1 < argc) run.checkpoints = std::make_shared<ls::checkpoint::Manager>(argv[++i]);
  }
  const ls::Model model(network);
  const auto loss = [model](const ls::Tree& weights, const ls::Tree& state, const Images& batch) {
    auto [y, next] = model.stateless_call(weights, state, batch.x, true);
    const ls::Array divergence = 0.5 * ls::sum(ls::exp(y.log_variance) + ls::square(y.mean) - 1 - y.log_variance, 1);
    return ls::WithAux{ls::Loss(64 * ls::binary_cross_entropy(y.logits, batch.x)) + ls::weighted(divergence), next, {}};
  };
  const auto step = ls::data_parallel(loss, ls::optim::adam(3e-3));
  ls::data::TreeLoader loader(Images{stripes(1, 1024)}, {.batch = 64, .seed = seed});
  auto [weights, variables] = model.init(ls::random::key(seed), ls::zeros({1, 64}));
  const auto state = ls::fit(step, step.init(weights, variables), loader, run);
  ls::data::TreeLoader test(Images{stripes(4, 512)}, {.batch = 512});
  const double bound = ls::evaluate(ls::EvaluateStep(loss, {}), state, test).at("loss");
  std::printf("loss %.2f\nfingerprint %s\n", bound, ls::fingerprint(ls::to_tree(state)).c_str());
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
