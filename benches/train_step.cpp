#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <lockstep/backend/backend.h>
#include <lockstep/version.h>

#include "drawn_model.h"
#include "matrix_calls.h"
#include "memory.h"
#include "optimizer_step.h"
#include "protocol.h"
#include "workloads.h"

// Times the training step of a workload: forward, backward, optimizer, and the loss read on the host. The first run of a
// folder writes the weights and batches into it that all systems start from. What it says and hears is what
// peers/protocol.py describes.
namespace lockstep::benches {

namespace {

struct Arguments {
  std::string workload;
  std::filesystem::path folder;
  int devices = 2;
  std::int64_t shards = 2;
  std::filesystem::path profile;
  std::string precision = "float32";
  std::uint64_t seed = 1;
};

constexpr std::int64_t ring = 8;

Workload workload_of(const Arguments& a) {
  const std::filesystem::path drawn = a.folder / "model.json";
  return std::filesystem::exists(drawn) ? read_drawn_model(a.workload, drawn) : find_workload(a.workload);
}

void write_inputs(const Arguments& a) {
  std::filesystem::create_directories(a.folder);
  if (is_optimizer_workload(a.workload)) return write_optimizer_inputs(a.workload, a.folder);
  if (is_matrix_workload(a.workload)) return write_matrix_inputs(a.workload, a.folder);
  const Workload workload = workload_of(a);
  const auto [weights, state] = workload.model.init(random::key(0), workload.x);
  checkpoint::save(a.folder / "weights", weights, {});
  checkpoint::save(a.folder / "state", state, {});
  checkpoint::save(a.folder / "batches", draw_batches(workload, a.seed, ring), {});
}

/// One system's step as the table of all systems reads it.
class Timing {
 public:
  Timing(const Workload& workload, const Arguments& a, std::shared_ptr<Profile> profile)
      : step_(step_of(workload, a, std::move(profile))), state_(start(workload, a.folder)) {
    const Tree batches = checkpoint::restore(a.folder / "batches").tree;
    for (std::int64_t i = 0; i < ring; ++i) {
      batches_.push_back({batches.at("x").array()[i], batches.at("y").array()[i], ones({workload.rows()})});
    }
  }

  double step() {
    auto [state, logs] = step_(std::move(state_), batches_[static_cast<std::size_t>(count_++ % ring)]);
    state_ = std::move(state);
    return logs.at("loss").item<float>();
  }

 private:
  static TrainStep step_of(const Workload& workload, const Arguments& a, std::shared_ptr<Profile> profile) {
    DataParallelOptions options{.devices = devices("cpu:0-" + std::to_string(a.devices - 1)),
                                .shards = a.shards,
                                .debug = {.profile = std::move(profile)}};
    const Workload narrow = in_precision(workload, a.precision, options);
    return train_step(narrow, std::move(options));
  }

  TrainState start(const Workload& workload, const std::filesystem::path& folder) const {
    const auto [weights, state] = workload.model.init(random::key(0), workload.x);
    return step_.init(checkpoint::restore(folder / "weights", weights), checkpoint::restore(folder / "state", state));
  }

  TrainStep step_;
  TrainState state_;
  std::vector<Batch> batches_;
  std::int64_t count_ = 0;
};

std::function<double()> make_step(const Arguments& a, const std::shared_ptr<Profile>& profile) {
  if (is_optimizer_workload(a.workload)) return optimizer_step(a.workload, a.folder, profile);
  if (is_matrix_workload(a.workload)) return matrix_call(a.workload, a.folder, profile);
  const auto timing = std::make_shared<Timing>(workload_of(a), a, profile);
  return [timing] { return timing->step(); };
}

Versions versions() {
  Versions result{{"lockstep", std::string(version())}};
  for (const auto& backend : backend::built_backends()) result[std::string(backend->name())] = backend->version();
  return result;
}

int run(int argc, char** argv) {
  CLI::App app("Times one training step", "bench_train_step");
  Arguments a;
  app.add_option("workload", a.workload)->required();
  app.add_option("--folder", a.folder, "Weights and batches; written where there are none")->required();
  app.add_option("--devices", a.devices)->capture_default_str();
  app.add_option("--shards", a.shards)->capture_default_str();
  app.add_option("--precision", a.precision,
                 "float32, bfloat16 (products and convolutions), mixed_bfloat16, mixed_float16 (the model)")
      ->capture_default_str();
  app.add_option("--seed", a.seed, "Of the batches, where they are written")->capture_default_str();
  bool draws_only = false;
  app.add_flag("--draw", draws_only, "Writes weights and batches where there are none, and ends");
  app.add_option("--profile", a.profile, "Records some steps: a Chrome trace in this file, a table on standard error");
  CLI11_PARSE(app, argc, argv);
  a.folder /= a.workload;
  if (!std::filesystem::exists(a.folder / "batches")) write_inputs(a);
  if (draws_only) return 0;

  const double memory_before = resident_mib();
  const auto profile = a.profile.empty() ? nullptr : std::make_shared<Profile>(ProfileOptions{.skip = 5});
  const std::function<double()> step = make_step(a, profile);
  make_first_steps(step, memory_before, versions());
  if (profile != nullptr) {
    while (!profile->is_complete()) step();
    profile->write_chrome_trace(a.profile);
    fmt::print(stderr, "{}", profile->table(measure_peak()));
  }
  make_timed_steps(step);
  return 0;
}

}  // namespace
}  // namespace lockstep::benches

int main(int argc, char** argv) {
  try {
    return lockstep::benches::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_train_step: %s\n", error.what());
    return 2;
  }
}
