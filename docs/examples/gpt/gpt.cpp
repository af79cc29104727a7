// A character model of a short text, which then writes on.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/lockstep.h>

namespace ls = lockstep;

constexpr std::int64_t length = 32;
const std::string text =
    "the quick brown fox jumps over the lazy dog. pack my box with five dozen liquor jugs. how vexingly quick daft "
    "zebras jump. sphinx of black quartz, judge my vow. the five boxing wizards jump quickly. ";

/// All windows of the text, and the same one character later.
ls::Batch windows() {
  std::vector<std::int32_t> x, y;
  const auto rows = static_cast<std::int64_t>(text.size()) - length;
  for (std::int64_t row = 0; row < rows; ++row) {
    x.insert(x.end(), text.begin() + row, text.begin() + row + length);
    y.insert(y.end(), text.begin() + row + 1, text.begin() + row + length + 1);
  }
  return {ls::array(x, {rows, length}), ls::array(y, {rows, length}), {}};
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
  const ls::models::GptOptions gpt = {
      .vocabulary = 128, .positions = length, .blocks = {.width = 32, .depth = 2, .heads = 2}};
  const ls::Model model([gpt](ls::Scope& s, const ls::Array& tokens) { return ls::models::gpt(s, tokens, gpt); });
  const auto loss = [model](const ls::Tree& weights, const ls::Tree& state, const ls::Batch& batch) {
    auto [logits, next] = model.stateless_call(weights, state, batch.x, true);
    return ls::WithAux{ls::softmax_cross_entropy(logits, batch.y), next, {}};
  };
  const auto step = ls::data_parallel(loss, ls::optim::adam(1e-2), {.shards = 1});
  ls::data::TreeLoader loader(windows(), {.batch = 16, .seed = seed});
  auto [weights, variables] = model.init(ls::random::key(seed), ls::zeros({1, length}, ls::int32));
  const auto state = ls::fit(step, step.init(weights, variables), loader, run);
  ls::data::TreeLoader rows(windows(), {.batch = 16});
  const double last = ls::evaluate(ls::EvaluateStep(loss, {.shards = 1}), state, rows).at("loss");

  constexpr std::int64_t start = 8;
  const ls::Array prompt = ls::array(std::vector<std::int32_t>(text.begin(), text.begin() + start), {1, start});
  const ls::models::Generator write_on(gpt);
  const auto more = write_on(state.trainable, prompt, ls::random::key(3), {.tokens = length - start + 1}).tokens;
  std::string written = text.substr(0, start);
  for (const std::int32_t token : more.to_vector<std::int32_t>()) written += static_cast<char>(token);
  std::printf("%s\nloss %.3f\nfingerprint %s\n", written.c_str(), last, ls::fingerprint(ls::to_tree(state)).c_str());
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
