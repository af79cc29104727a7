#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <lockstep/lockstep.h>
#include <lockstep/vision.h>

#include "timing.h"
#include "workloads.h"

// What data loading costs a training step: the cnn's on batches of 64 images of 28 x 28, read from memory and augmented
// (crop, flip, shift, cutout, normalize), made as loaders do by default, when they are asked for, or by threads ahead of
// time, beside the step on one batch that is always there. `bench_data_loading <devices> <rounds> [way]`; in each round all
// take turns, or the one whose name begins so and the first, in an order that is drawn.
namespace lockstep::benches {
namespace {

constexpr std::int64_t batch = 64;
constexpr int steps = 20;

using Clock = std::chrono::steady_clock;

data::SourcePtr augmented() {
  constexpr std::int64_t rows = 10000;
  data::Dataset set;
  std::vector<std::uint8_t> pixels(rows * 28 * 28);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i * 2654435761U >> 24);
  std::vector<std::int32_t> labels(rows);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int32_t>(i % 10);
  set.x = data::host_table(pixels, Shape{rows, 28, 28, 1});
  set.y = data::host_table(labels, Shape{rows});
  return data::map_rows(data::in_memory(std::move(set)), [](data::Row row, const data::RowKey& key) {
    data::HostTable& x = row.at("x");
    x = data::random_crop(x, 28, 28, 2, key.fold_in(0));
    x = data::random_flip(std::move(x), key.fold_in(1));
    x = data::random_shift(x, 1, key.fold_in(2));
    x = data::cutout(std::move(x), 8, key.fold_in(3));
    x = data::normalize(x, {0.5F}, {0.25F});
    return row;
  });
}

struct Way {
  std::string name;
  std::function<Batch()> next;
  std::vector<double> rounds;  ///< Of each, its steps' median.
  std::vector<double> steps;
};

void run(int devices_used, int rounds, const std::string& only) {
  const Workload workload = find_workload("cnn");
  const auto step =
      train_step(workload, {.devices = devices("cpu:0-" + std::to_string(devices_used - 1)), .shards = 2});
  const auto [weights, variables] = workload.model.init(random::key(0), workload.x);
  TrainState state = step.init(weights, variables);
  const data::SourcePtr source = augmented();
  std::vector<std::shared_ptr<data::SourceLoader>> loaders;
  std::vector<Way> ways;
  const Batch fixed = data::SourceLoader(source, {.batch = batch}, {.threads = 0}).next<Batch>();
  ways.push_back({"one batch that is there", [&] { return fixed; }, {}, {}});
  for (const std::optional<int> threads : {std::optional<int>(), {0}, {1}, {2}}) {
    const std::string name = !threads        ? "by default"
                             : *threads == 0 ? "made when asked for"
                                             : std::to_string(*threads) + " threads ahead";
    if (!name.starts_with(only)) continue;
    loaders.push_back(std::make_shared<data::SourceLoader>(source, data::LoaderOptions{.batch = batch},
                                                           data::PrefetchOptions{threads}));
    ways.push_back({name, [loader = loaders.back()] { return loader->next<Batch>(); }, {}, {}});
  }
  std::vector<std::size_t> turns(ways.size());
  std::iota(turns.begin(), turns.end(), 0);
  std::mt19937 draw(0);
  for (int round = 0; round < rounds; ++round) {
    std::ranges::shuffle(turns, draw);
    for (const std::size_t turn : turns) {
      Way& way = ways[turn];
      std::vector<double> taken;
      for (int i = 0; i < steps; ++i) {
        const auto start = Clock::now();
        auto [next, logs] = step(std::move(state), way.next());
        state = std::move(next);
        static_cast<void>(logs.at("loss").item<float>());
        taken.push_back(std::chrono::duration<double>(Clock::now() - start).count());
      }
      taken.erase(taken.begin());  // finds another way's rows in the caches
      way.rounds.push_back(median(taken));
      way.steps.insert(way.steps.end(), taken.begin(), taken.end());
    }
  }
  data::SourceLoader alone(source, {.batch = batch}, {.threads = 0});
  const auto start = Clock::now();
  for (int i = 0; i < 200; ++i) static_cast<void>(alone.next<Batch>());
  std::printf("devices %d, a batch alone %.3f ms\n", devices_used,
              std::chrono::duration<double>(Clock::now() - start).count() / 200 * 1e3);
  const auto at = [](std::vector<double> seconds, double share) {
    std::ranges::sort(seconds);
    return seconds[static_cast<std::size_t>(share * static_cast<double>(seconds.size()))];
  };
  for (const Way& way : ways) {
    std::vector<double> ratios;  // of each round: what drifts from round to round is in both
    for (std::size_t i = 0; i < way.rounds.size(); ++i) ratios.push_back(way.rounds[i] / ways[0].rounds[i]);
    const double middle = mean(ratios);
    double squares = 0;
    for (const double ratio : ratios) squares += (ratio - middle) * (ratio - middle);
    const auto count = static_cast<double>(ratios.size());
    const auto of_the_first = [&](double share) { return at(way.steps, share) / at(ways[0].steps, share); };
    std::printf(
        "%-24s %.3f ms a step; of the first: steps' medians %.4f, quarters %.4f, tenths %.4f; rounds %.4f, mean "
        "%.4f +- %.4f\n",
        way.name.c_str(), median(way.steps) * 1e3, of_the_first(0.5), of_the_first(0.25), of_the_first(0.1),
        median(ratios), middle, std::sqrt(squares / std::max(count - 1, 1.0) / count));
  }
}

}  // namespace
}  // namespace lockstep::benches

int main(int argc, char** argv) {
  try {
    lockstep::benches::run(argc > 1 ? std::atoi(argv[1]) : 1, argc > 2 ? std::atoi(argv[2]) : 60,
                           argc > 3 ? argv[3] : "");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
