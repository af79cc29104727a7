// A generator of drawn stripes and a critic, trained in turn: two objectives of one step.

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

/// As many drawn images as there are rows in x.
ls::Array generate(ls::Scope& s, const ls::Array& x) {
  const ls::Array noise = ls::random::normal(s.next_key(), {x.dim(0), 8}, ls::float32, s.over_batch());
  const ls::Array h = ls::relu(ls::dense(s["first"], noise, {.units = 64}));
  return ls::sigmoid(ls::dense(s["second"], h, {.units = 64}));
}

ls::Array judge(ls::Scope& s, const ls::Array& x) {
  return ls::dense(s["second"], ls::leaky_relu(ls::dense(s["first"], x, {.units = 64}), 0.2), {.units = 1});
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
  const ls::Model generator(generate), critic(judge);
  const auto critic_loss = [=](const ls::Tree& weights, const ls::Tree& state, const Images& batch) {
    auto [drawn, next] = generator.stateless_call(weights.at("generator"), state, batch.x, true);
    const ls::Array on_real = critic.stateless_call(weights.at("critic"), {}, batch.x, true).first;
    const ls::Array on_drawn = critic.stateless_call(weights.at("critic"), {}, drawn, true).first;
    return ls::WithAux{ls::Loss(ls::binary_cross_entropy(on_real, ls::ones_like(on_real))) +
                           ls::binary_cross_entropy(on_drawn, ls::zeros_like(on_drawn)),
                       next,
                       {}};
  };
  const auto generator_loss = [=](const ls::Tree& weights, const ls::Tree& state, const Images& batch) {
    auto [drawn, next] = generator.stateless_call(weights.at("generator"), state, batch.x, true);
    const ls::Array verdict = critic.stateless_call(weights.at("critic"), {}, drawn, true).first;
    return ls::WithAux{ls::binary_cross_entropy(verdict, ls::ones_like(verdict)), next, {}};
  };
  const auto adam = ls::optim::adam(1e-3, 0.5);
  const auto step = ls::data_parallel(
      {{"critic", critic_loss, {{"critic", adam}}}, {"generator", generator_loss, {{"generator", adam}}, true}});
  ls::data::TreeLoader loader(Images{stripes(1, 1024)}, {.batch = 64, .seed = seed});
  auto [weights, variables] = generator.init(ls::random::key(seed), ls::zeros({1, 64}));
  const ls::Tree judges = critic.init(ls::random::fold_in(ls::random::key(seed), 1), ls::zeros({1, 64})).first;
  const ls::Tree both = ls::Tree::dict({{"generator", weights}, {"critic", judges}});
  const auto state = ls::fit(step, step.init(both, variables), loader, run);
  const double value = ls::evaluate(ls::EvaluateStep(critic_loss, {}), state, loader).at("loss");
  std::printf("critic's loss %.2f\nfingerprint %s\n", value, ls::fingerprint(ls::to_tree(state)).c_str());
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
