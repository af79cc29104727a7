#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <numbers>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "workloads.h"

// Trains a workload in float32, in bfloat16 (products alone, and the whole model) and in float16 on the same batches, each of which it sees once, and compares the losses.
// What is to be learnt is partly chance, so a loss does not go to 0, where a relative difference would say nothing. How
// far two runs come apart for rounding alone is told by a third one: float32 in another number of shards.
namespace lockstep::benches {

namespace {

struct Arguments {
  std::vector<std::string> workloads = {"gpt", "resnet20"};
  std::int64_t steps = 400;
  std::uint64_t seed = 1;
  int devices = 2;
};

struct Run {
  std::string_view name;
  std::string_view precision;
  std::int64_t shards;
};

constexpr Run runs[] = {{"float32", "float32", 2},
                        {"float32 V=8", "float32", 8},
                        {"bfloat16", "bfloat16", 2},
                        {"mixed_bfloat16", "mixed_bfloat16", 2},
                        {"mixed_float16", "mixed_float16", 2}};

/// A token tells the next one, except for three in ten, which are any.
Batch text(const Workload& workload, const Array& key) {
  const std::int64_t rows = workload.rows(), length = workload.x.shape[1], known = workload.labels;
  const Array keys = random::split(key, 2);
  auto tokens = random::randint(keys[0], {rows, length + 1}, 0, known).to_vector<std::int32_t>();
  const auto chance = random::uniform(keys[1], {rows, length + 1}).to_vector<float>();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const bool is_first = static_cast<std::int64_t>(i) % (length + 1) == 0;
    if (!is_first && chance[i] >= 0.3F) tokens[i] = static_cast<std::int32_t>((5 * tokens[i - 1] + 7) % known);
  }
  const Array all = array(tokens, {rows, length + 1});
  return {slice(all, {0, 0}, {rows, length}), slice(all, {0, 1}, {rows, length + 1}), ones({rows})};
}

/// Waves whose direction is the label, under noise; of two labels in ten chance alone decides.
Batch images(const Workload& workload, const Array& key) {
  const std::int64_t rows = workload.rows(), side = workload.x.shape[1];
  const Array keys = random::split(key, 5);
  const Array kind = random::randint(keys[0], {rows}, 0, workload.labels);
  const Array angle = reshape(convert(kind, float32), {rows, 1, 1, 1}) *
                      static_cast<float>(std::numbers::pi / static_cast<double>(workload.labels));
  const Array places = convert(arange(side), float32) * 0.8F;
  const Array phase = random::uniform(keys[1], {rows, 1, 1, 1}) * 6.0F;
  const Array wave = sin(reshape(places, {side, 1, 1}) * cos(angle) + reshape(places, {side, 1}) * sin(angle) + phase);
  const Array any = random::randint(keys[3], {rows}, 0, workload.labels);
  return {wave + random::normal(keys[2], workload.x.shape), where(random::uniform(keys[4], {rows}) < 0.2F, any, kind),
          ones({rows})};
}

Batch draw(const Workload& workload, const Array& key) {
  return is_integer(workload.x.dtype) ? text(workload, key) : images(workload, key);
}

std::vector<double> losses_of(const Workload& workload, const Run& run, const Arguments& a) {
  DataParallelOptions options{.devices = devices("cpu:0-" + std::to_string(a.devices - 1)), .shards = run.shards};
  const Workload narrow = in_precision(workload, std::string(run.precision), options);
  const TrainStep step = train_step(narrow, options);
  auto [weights, state_tree] = narrow.model.init(random::key(a.seed), workload.x);
  TrainState state = step.init(std::move(weights), std::move(state_tree));
  std::vector<double> losses;
  for (std::int64_t i = 0; i < a.steps; ++i) {
    auto [next, logs] = step(std::move(state), draw(workload, random::fold_in(random::key(a.seed), i)));
    state = std::move(next);
    losses.push_back(logs.at("loss").item<float>());
  }
  return losses;
}

double mean(const std::vector<double>& losses, std::size_t first, std::size_t last) {
  double sum = 0;
  for (std::size_t i = first; i < last; ++i) sum += losses[i];
  return sum / static_cast<double>(last - first);
}

/// The mean losses of steps `first` to `last` - 1, and how far they are from the first run's.
void print_means(const std::vector<std::vector<double>>& curves, std::size_t first, std::size_t last) {
  fmt::print("{:>14}", fmt::format("{}-{}", first + 1, last));
  const double expected = mean(curves[0], first, last);
  for (const auto& curve : curves) {
    const double got = mean(curve, first, last);
    fmt::print("{:>20}", fmt::format("{:.4f} ({:+.2f} %)", got, 100 * (got / expected - 1)));
  }
  fmt::print("\n");
}

/// A row a tenth of the training, one of all of it, and the last step's losses.
void print_curves(const std::vector<std::vector<double>>& curves) {
  constexpr std::size_t parts = 10;
  const std::size_t steps = curves[0].size();
  fmt::print("{:>14}", "steps");
  for (const Run& run : runs) fmt::print("{:>20}", run.name);
  fmt::print("\n");
  for (std::size_t part = 0; part < parts; ++part) {
    print_means(curves, part * steps / parts, (part + 1) * steps / parts);
  }
  print_means(curves, 0, steps);
  fmt::print("{:>14}", "last");
  for (const auto& curve : curves) fmt::print("{:>20.4f}", curve.back());
  fmt::print("\n");
}

int run(int argc, char** argv) {
  CLI::App app("Trains in float32 and in 16 bits and compares the losses", "bench_precision");
  Arguments a;
  app.add_option("--workloads", a.workloads)->delimiter(',')->capture_default_str();
  app.add_option("--steps", a.steps)->check(CLI::Range(10, 1 << 20))->capture_default_str();
  app.add_option("--seed", a.seed, "Of weights and batches")->capture_default_str();
  app.add_option("--devices", a.devices)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  for (const std::string& name : a.workloads) {
    const Workload workload = find_workload(name);
    std::vector<std::vector<double>> curves;
    for (const Run& run : runs) curves.push_back(losses_of(workload, run, a));
    fmt::print("{}: mean losses, and their distance from the first column's\n", name);
    print_curves(curves);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace lockstep::benches

int main(int argc, char** argv) {
  try {
    return lockstep::benches::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_precision: %s\n", error.what());
    return 2;
  }
}
