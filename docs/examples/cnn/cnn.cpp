// A convolutional network on drawn stripes, with augmentation in the input and the average of the weights at the end.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string_view>

#include <lockstep/lockstep.h>
#include <lockstep/vision.h>

namespace ls = lockstep;

/// Noisy stripes [rows, 12, 12, 1] in four directions, which are the labels.
ls::Batch stripes(std::uint64_t seed, std::int64_t rows) {
  const ls::Array keys = ls::random::split(ls::random::key(seed), 3);
  const ls::Array y = ls::random::randint(keys[0], {rows}, 0, 4);
  const ls::Array angle = ls::reshape(y.astype(ls::float32) * 0.785398, {rows, 1, 1, 1});
  const ls::Array phase = ls::random::uniform(keys[1], {rows, 1, 1, 1}, ls::float32, 0, 6.28);
  const ls::Array i = ls::iota({12, 12, 1}, 0, ls::float32), j = ls::iota({12, 12, 1}, 1, ls::float32);
  const ls::Array wave = ls::sin(1.2 * (ls::cos(angle) * i + ls::sin(angle) * j) + phase);
  return {wave + 1.5 * ls::random::normal(keys[2], {rows, 12, 12, 1}), y, ls::ones({rows})};
}

ls::Array network(ls::Scope& s, const ls::Array& x) {
  ls::Array h = ls::max_pool2d(ls::relu(ls::conv2d(s["first"], x, {.filters = 8})), {2, 2});
  h = ls::max_pool2d(ls::relu(ls::conv2d(s["second"], h, {.filters = 16})), {2, 2});
  return ls::dense(s["head"], ls::reshape(h, {h.dim(0), -1}), {.units = 4});
}

int main(int argc, char** argv) try {
  ls::TrainerOptions run = {.steps = 120, .log_every = 120, .save_every = 20};
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
  const auto augmented = ls::data::map_rows(
      ls::data::in_memory(ls::to_tree(stripes(1, 1024))), [](ls::data::Row row, const ls::data::RowKey& key) {
        row["x"] = ls::data::cutout(ls::data::random_shift(row["x"], 2, key.fold_in(0)), 3, key.fold_in(1));
        return row;
      });
  ls::data::SourceLoader loader(augmented, {.batch = 64, .seed = seed});
  const auto step = ls::data_parallel(loss, ls::optim::adam(3e-3));
  const auto average =
      std::make_shared<ls::callbacks::AveragedWeights>(ls::callbacks::AveragedWeightsOptions{.momentum = 0.95});
  auto [weights, variables] = model.init(ls::random::key(seed), ls::zeros({1, 12, 12, 1}));
  auto state = ls::fit(step, step.init(weights, variables), loader, run, {average});
  state.trainable = average->weights();
  ls::data::TreeLoader test(stripes(4, 512), {.batch = 64, .shuffle = false});
  const auto results = ls::evaluate(ls::EvaluateStep(loss, {}), state, test);
  std::printf("accuracy %.3f\nfingerprint %s\n", results.at("accuracy"), ls::fingerprint(ls::to_tree(state)).c_str());
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
