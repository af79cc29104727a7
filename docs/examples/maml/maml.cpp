// Model-agnostic meta-learning of sine waves: weights from which one step of gradients fits a new wave.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string_view>

#include <lockstep/lockstep.h>

namespace ls = lockstep;

/// One wave a row: points to learn from and points to be judged by.
struct Waves {
  ls::Array x, y, query_x, query_y;
};
LOCKSTEP_TREE(Waves, x, y, query_x, query_y);

Waves waves(std::uint64_t seed, std::int64_t tasks) {
  const ls::Array keys = ls::random::split(ls::random::key(seed), 3);
  const ls::Array amplitude = ls::random::uniform(keys[0], {tasks, 1, 1}, ls::float32, 0.5, 3);
  const ls::Array phase = ls::random::uniform(keys[1], {tasks, 1, 1}, ls::float32, 0, 3.14);
  const ls::Array x = ls::random::uniform(keys[2], {tasks, 20, 1}, ls::float32, -3, 3);
  const ls::Array y = amplitude * ls::sin(x + phase);
  const auto half = [](const ls::Array& of, std::int64_t n) {
    return ls::index(of, {ls::Slice{}, ls::Slice{10 * n, 10 * n + 10}});
  };
  return {half(x, 0), half(y, 0), half(x, 1), half(y, 1)};
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
  const ls::Model model([](ls::Scope& s, const ls::Array& x) {
    const ls::Array h = ls::relu(ls::dense(s["first"], x, {.units = 40}));
    return ls::dense(s["head"], ls::relu(ls::dense(s["second"], h, {.units = 40})), {.units = 1});
  });
  const auto error = [model](const ls::Tree& w, const ls::Array& x, const ls::Array& y) {
    return ls::mean(ls::square(model.stateless_call(w, ls::Tree(), x, true).first - y));
  };
  const auto adapted_error = [error](const ls::Tree& w, const Waves& wave) {
    const ls::Tree gradients = ls::grad(error)(w, wave.x, wave.y);
    const auto descend = [](const ls::Array& p, const ls::Array& g) { return p - 0.02 * g; };
    return error(ls::map(descend, w, gradients), wave.query_x, wave.query_y);
  };
  const auto loss = [adapted_error](const ls::Tree& weights, const ls::Tree& state, const Waves& batch) {
    // Each shard adapts weights of its own: their gradients are its tasks' alone.
    const auto varying = [](const ls::Array& w) { return ls::pvary(w, ls::bound_axes()); };
    const auto errors = ls::vmap(adapted_error, {.in_axes = {std::nullopt, 0}})(ls::map(varying, weights), batch);
    return ls::WithAux{ls::weighted(errors), state, {}};
  };
  const auto step = ls::data_parallel(loss, ls::optim::adam(3e-3));
  ls::data::TreeLoader loader(waves(1, 4096), {.batch = 32, .seed = seed});
  auto [weights, variables] = model.init(ls::random::key(seed), ls::zeros({1, 1}));
  const auto state = ls::fit(step, step.init(weights, variables), loader, run);
  ls::data::TreeLoader test(waves(4, 512), {.batch = 512});
  const double value = ls::evaluate(ls::EvaluateStep(loss, {}), state, test).at("loss");
  std::printf("loss %.3f\nfingerprint %s\n", value, ls::fingerprint(ls::to_tree(state)).c_str());
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
