#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <unistd.h>

#include <lockstep/lockstep.h>

#include "timing.h"
#include "workloads.h"

// What saves beside the training cost it: a workload's steps in rounds without a save, with one a round, and with one as soon
// as the last has ended. `bench_background_saves <workload> <devices> <steps a round> <rounds>`; the ways take turns.
namespace lockstep::benches {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

enum class Saves : std::uint8_t { none, one_a_round, without_a_pause };

struct Way {
  const char* name;
  Saves saves;
  std::vector<double> rounds = {};   ///< Seconds of each.
  std::vector<double> longest = {};  ///< Of a round's steps, with the call that saves.
  std::vector<double> saving = {};   ///< From a save's begin until it is there.
  int count = 0;                     ///< Saves.
};

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

class Run {
 public:
  Run(const Workload& workload, int devices_used, fs::path folder)
      : step_(train_step(workload, {.devices = devices("cpu:0-" + std::to_string(devices_used - 1)), .shards = 2})),
        folder_(std::move(folder)),
        manager_(folder_, {.keep_last = 2}) {
    const Tree drawn = draw_batches(workload, 1, 1);
    const auto first = [&](const std::string& name) {
      const Array ring = drawn.at(name).array();
      return reshape(ring, ring.shape().erase(0).to_vector());
    };
    batch_.x = first("x");
    batch_.y = first("y");
    batch_.weight = ones({workload.rows()});
    const auto [weights, variables] = workload.model.init(random::key(0), workload.x);
    state_ = step_.init(weights, variables);
  }

  double bytes() const {
    double sum = 0;
    for (const Array& leaf : to_tree(state_).leaves()) sum += static_cast<double>(leaf.type().nbytes());
    return sum;
  }

  void round(Way& way, int steps) {
    double longest = 0;
    Clock::time_point saved;
    bool saves = false;
    const auto start = Clock::now();
    for (int i = 0; i < steps; ++i) {
      const auto begin = Clock::now();
      auto [next, logs] = step_(std::move(state_), batch_);
      state_ = std::move(next);
      static_cast<void>(logs.at("loss").item<float>());
      if (saves && !manager_.is_saving()) {
        way.saving.push_back(seconds_since(saved));
        saves = false;
      }
      if (!saves && (way.saves == Saves::without_a_pause || (way.saves == Saves::one_a_round && i == 0))) {
        saved = Clock::now();
        manager_.save(number_++, to_tree(state_));
        saves = true;
        ++way.count;
      }
      longest = std::max(longest, seconds_since(begin));
    }
    way.rounds.push_back(seconds_since(start));
    way.longest.push_back(longest);
    manager_.wait();
  }

 private:
  TrainStep step_;
  fs::path folder_;
  checkpoint::Manager manager_;
  Batch batch_;
  TrainState state_;
  std::int64_t number_ = 0;
};

void run(const std::string& name, int devices_used, int steps, int rounds) {
  const fs::path folder = fs::temp_directory_path() / ("bench_background_saves." + std::to_string(::getpid()));
  {
    Run training(find_workload(name), devices_used, folder);
    std::vector<Way> ways = {
        {"none", Saves::none}, {"one a round", Saves::one_a_round}, {"without a pause", Saves::without_a_pause}};
    Way warm{"", Saves::one_a_round};
    training.round(warm, steps);
    for (int round = 0; round < rounds; ++round) {
      for (Way& way : ways) training.round(way, steps);
    }
    std::printf("%s on %d devices, %.2f MB of state, rounds of %d steps\n", name.c_str(), devices_used,
                training.bytes() / 1e6, steps);
    for (const Way& way : ways) {
      const double lost = (mean(way.rounds) - mean(ways[0].rounds)) * static_cast<double>(way.rounds.size());
      std::printf(
          "%-16s %.3f ms a step, medians %.4f, means %.4f of the first; longest step %.2f ms (the first's %.2f); a "
          "save "
          "%.1f ms, costs %.2f ms\n",
          way.name, median(way.rounds) / steps * 1e3, median(way.rounds) / median(ways[0].rounds),
          mean(way.rounds) / mean(ways[0].rounds), median(way.longest) * 1e3, median(ways[0].longest) * 1e3,
          way.saving.empty() ? 0 : median(way.saving) * 1e3, way.count == 0 ? 0 : lost / way.count * 1e3);
    }
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace lockstep::benches

int main(int argc, char** argv) {
  try {
    const auto number = [&](int i, int otherwise) { return argc > i ? std::atoi(argv[i]) : otherwise; };
    lockstep::benches::run(argc > 1 ? argv[1] : "cnn", number(2, 1), number(3, 200), number(4, 20));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
