#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/lockstep.h>

// Tokens from a gpt with a cache, as generation.py asks for them; peers/jax_generation.py and torch_generation.py do the
// same work.
//
//     bench_generation SIZE BATCH TOKENS PROMPT      SIZE: 10m or 100m; PROMPT: its tokens
//
// Writes a line when the model has generated once, and for each line read generates again: how many seconds it took.
namespace lockstep::benches {

namespace {

models::GptOptions model_of(std::string_view size) {
  if (size == "10m") return {.vocabulary = 512, .positions = 1024, .blocks = {.width = 384, .depth = 6, .heads = 6}};
  return {.vocabulary = 16384, .positions = 1024, .blocks = {.width = 768, .depth = 12, .heads = 12}};
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.size() != 4) {
    std::fprintf(stderr, "usage: bench_generation SIZE BATCH TOKENS PROMPT\n");
    return 2;
  }
  const models::GptOptions options = model_of(arguments[0]);
  const std::int64_t rows = std::atoll(arguments[1].c_str()), prompt_length = std::atoll(arguments[3].c_str());
  const models::GenerateOptions how{.tokens = std::atoll(arguments[2].c_str())};
  const Model model([options](const Scope& scope, const Array& tokens) { return models::gpt(scope, tokens, options); });
  const Tree weights = model.init(random::key(0), zeros({1, 8}, int32)).first;
  const Array prompts = reshape(remainder(arange(rows * prompt_length), 511), {rows, prompt_length});
  const models::Generator generate(options);
  const auto once = [&] {
    const auto start = std::chrono::steady_clock::now();
    static_cast<void>(generate(weights, prompts, random::key(1), how).tokens.to_vector<std::int32_t>());
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  static_cast<void>(once());
  std::printf("ready\n");
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    std::printf("%.6f\n", once());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

}  // namespace lockstep::benches

int main(int argc, char** argv) try {
  return lockstep::benches::run({argv + 1, argv + argc});
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
