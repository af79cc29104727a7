// An activation with a kernel of its own, trained by an optimizer of its own.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/lockstep.h>

namespace ls = lockstep;

/// x / (1 + |x|), with its derivative.
const ls::CustomOp& own_softsign() {
  static const ls::CustomOp op(
      {.name = "own_softsign",
       .infer = [](std::span<const ls::ArrayType> x) { return std::vector<ls::ArrayType>{x[0]}; },
       .kernel =
           [](const ls::KernelCall& call) {
             const auto x = call.operand<float>(0);
             const auto y = call.result<float>(0);
             for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] / (1 + std::abs(x[i]));
           },
       .vjp =
           [](std::span<const ls::Array> x, std::span<const ls::Array>, std::span<const ls::Array> dy) {
             return std::vector<ls::Array>{dy[0] / ls::square(1 + ls::abs(x[0]))};
           }});
  return op;
}

/// Gradients divided by the root of their mean square, with a momentum.
ls::optim::GradientTransformation normalized_momentum(double rate) {
  return {.init = [](const ls::Tree& params) { return ls::map(ls::zeros_like, params); },
          .update =
              [rate](const ls::Tree& gradients, const ls::Tree& velocity, const ls::Tree&) {
                const auto follow = [](const ls::Array& v, const ls::Array& g) {
                  return 0.9 * v + g / (ls::sqrt(ls::mean(ls::square(g))) + 1e-6);
                };
                const ls::Tree next = ls::map(follow, velocity, gradients);
                return std::pair(ls::map([rate](const ls::Array& v) { return -rate * v; }, next), next);
              }};
}

/// Points [rows, 2] and the ring that each lies in.
ls::Batch rings(std::uint64_t seed, std::int64_t rows) {
  const ls::Array x = 1.5 * ls::random::normal(ls::random::key(seed), {rows, 2});
  return {x, (ls::sum(ls::square(x), 1) > 2.5).astype(ls::int32), ls::ones({rows})};
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
  const ls::Model model([](ls::Scope& s, const ls::Array& x) {
    return ls::dense(s["head"], own_softsign()(ls::dense(s["hidden"], x, {.units = 32})), {.units = 2});
  });
  const auto loss = [model](const ls::Tree& weights, const ls::Tree& state, const ls::Batch& batch) {
    auto [logits, next] = model.stateless_call(weights, state, batch.x, true, {.rows = batch.weight});
    return ls::WithAux{ls::softmax_cross_entropy(logits, batch.y, batch.weight),
                       next,
                       {{"accuracy", ls::accuracy(logits, batch.y, batch.weight)}}};
  };
  const auto step = ls::data_parallel(loss, normalized_momentum(1e-2));
  ls::data::TreeLoader loader(rings(1, 1024), {.batch = 64, .seed = seed});
  auto [weights, variables] = model.init(ls::random::key(seed), ls::zeros({1, 2}));
  const auto state = ls::fit(step, step.init(weights, variables), loader, run);
  ls::data::TreeLoader test(rings(4, 512), {.batch = 64});
  const auto results = ls::evaluate(ls::EvaluateStep(loss, {}), state, test);
  std::printf("accuracy %.3f\nfingerprint %s\n", results.at("accuracy"), ls::fingerprint(ls::to_tree(state)).c_str());
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
