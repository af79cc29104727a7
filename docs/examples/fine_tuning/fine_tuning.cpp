// A backbone trained on one task, frozen and given a new head for another.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string_view>

#include <lockstep/lockstep.h>

namespace ls = lockstep;

/// Points [rows, 2]; the class is the ring that a point lies in, or the ring and the side.
ls::Batch rings(std::uint64_t seed, std::int64_t rows, bool sides) {
  const ls::Array x = 1.5 * ls::random::normal(ls::random::key(seed), {rows, 2});
  const ls::Array ring = (ls::sum(ls::square(x), 1) > 2.5).astype(ls::int32);
  return {x, sides ? 2 * ring + (ls::index(x, {ls::Slice{}, 0}) > 0).astype(ls::int32) : ring, ls::ones({rows})};
}

auto model_of(std::int64_t classes) {
  return ls::Model([classes](ls::Scope& s, const ls::Array& x) {
    const ls::Array h = ls::relu(ls::dense(s["backbone"]["first"], x, {.units = 64}));
    return ls::dense(s["head"], ls::relu(ls::dense(s["backbone"]["second"], h, {.units = 64})), {.units = classes});
  });
}

auto loss_of(std::int64_t classes) {
  return [model = model_of(classes)](const ls::Tree& weights, const ls::Tree& state, const ls::Batch& batch) {
    auto [logits, next] = model.stateless_call(weights, state, batch.x, true, {.rows = batch.weight});
    return ls::WithAux{ls::softmax_cross_entropy(logits, batch.y, batch.weight),
                       next,
                       {{"accuracy", ls::accuracy(logits, batch.y, batch.weight)}}};
  };
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
  const auto pretraining = ls::data_parallel(loss_of(2), ls::optim::adam(1e-2));
  ls::data::TreeLoader old_rows(rings(1, 1024, false), {.batch = 64, .seed = seed});
  auto [weights, variables] = model_of(2).init(ls::random::key(seed), ls::zeros({1, 2}));
  const auto pretrained =
      ls::fit(pretraining, pretraining.init(weights, variables), old_rows, {.steps = 100, .log_every = 100});

  const auto step = ls::data_parallel(
      loss_of(4), ls::optim::chain(ls::optim::adam(1e-2), ls::optim::freeze(ls::optim::below("backbone"))));
  ls::data::TreeLoader loader(rings(4, 1024, true), {.batch = 64, .seed = seed});
  auto [fresh, state_variables] = model_of(4).init(ls::random::key(seed), ls::zeros({1, 2}));
  const ls::Tree start = fresh.with("backbone", pretrained.trainable.at("backbone"));
  const auto state = ls::fit(step, step.init(start, state_variables), loader, run);
  ls::data::TreeLoader test(rings(7, 512, true), {.batch = 64});
  const auto results = ls::evaluate(ls::EvaluateStep(loss_of(4), {}), state, test);
  std::printf("accuracy %.3f\nfingerprint %s\n", results.at("accuracy"), ls::fingerprint(ls::to_tree(state)).c_str());
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
