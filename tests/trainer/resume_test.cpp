#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/full_disk.h"
#include "tests/support/scanned_training.h"
#include "tests/support/temporary_folder.h"
#include "tests/trainer/small_training.h"

using namespace lockstep;
using tests::expect_error;
using tests::file_text;
using tests::TemporaryFolder;
namespace fs = std::filesystem;

namespace {

std::shared_ptr<checkpoint::Manager> manager_keeping(const fs::path& run, checkpoint::ManagerOptions options = {}) {
  return std::make_shared<checkpoint::Manager>(run / "checkpoints", std::move(options));
}

/// A run with callbacks that have states of their own, gone on with where one was.
TrainState line_run(const fs::path& run, std::int64_t steps, int devices, checkpoint::ManagerOptions keeping = {},
                    std::function<bool()> stop_when = {}) {
  const TrainStep step = tests::line_step(devices);
  auto loader = tests::line_loader();
  return fit(step, tests::line_start(step), loader,
             {.steps = steps,
              .validate = tests::line_validation,
              .validate_every = 2,
              .checkpoints = manager_keeping(run, std::move(keeping)),
              .save_every = 2,
              .resume = true,
              .manifest = {{"seed", "3"}},
              .stop_when = std::move(stop_when)},
             {std::make_shared<callbacks::CsvLogger>(run / "metrics.csv"),
              std::make_shared<callbacks::JsonLinesLogger>(run / "metrics.jsonl"),
              std::make_shared<callbacks::AveragedWeights>(callbacks::AveragedWeightsOptions{.momentum = 0.5}),
              std::make_shared<callbacks::ReduceLROnPlateau>(
                  callbacks::ReduceLROnPlateauOptions{.factor = 0.5, .patience = 1, .min_delta = 10})});
}

struct Results {
  std::string fingerprint;
  std::string table;
  std::string lines;
  bool operator==(const Results&) const = default;
};

/// All that a run has left: of its last checkpoint everything, callbacks too.
Results results_of(const fs::path& run) {
  return {fingerprint(manager_keeping(run)->restore(checkpoint::Choice::latest).tree), file_text(run / "metrics.csv"),
          file_text(run / "metrics.jsonl")};
}

}  // namespace

TEST_CASE("a run in three parts, on other devices each, leaves what one without interruption does") {
  const TemporaryFolder whole, parts;
  const TrainState expected = line_run(whole.path(), 14, 1);
  line_run(parts.path(), 3, 2);
  line_run(parts.path(), 8, 4);
  const TrainState resumed = line_run(parts.path(), 14, 1);
  CHECK(fingerprint(to_tree(resumed)) == fingerprint(to_tree(expected)));
  CHECK(results_of(parts.path()) == results_of(whole.path()));
  CHECK(hyperparameters(to_tree(expected)).at("learning_rate") < 0.1);  // so that there is something to go on with
  const TrainState again = line_run(parts.path(), 14, 2);               // nothing is left to do
  CHECK(fingerprint(to_tree(again)) == fingerprint(to_tree(expected)));
  CHECK(results_of(parts.path()) == results_of(whole.path()));
}

TEST_CASE("a run that is stopped from outside saves its step, and goes on as if it had never stopped") {
  const TemporaryFolder whole;
  const TrainState expected = line_run(whole.path(), 14, 1);
  for (const int stop_behind : {1, 3, 4, 5, 7, 14}) {  // before and at saves, within an epoch and at its end
    CAPTURE(stop_behind);
    const TemporaryFolder parts;
    int asked = 0;
    const TrainState stopped = line_run(parts.path(), 14, 1, {}, [&] { return ++asked == stop_behind; });
    CHECK(stopped.step.item<std::int64_t>() == stop_behind);
    CHECK(asked == stop_behind);
    const auto saved = manager_keeping(parts.path());
    CHECK(saved->latest() == stop_behind);
    CHECK(fingerprint(saved->restore(checkpoint::Choice::latest).tree.at("state")) == fingerprint(to_tree(stopped)));
    const TrainState resumed = line_run(parts.path(), 14, 2);
    CHECK(fingerprint(to_tree(resumed)) == fingerprint(to_tree(expected)));
    CHECK(results_of(parts.path()) == results_of(whole.path()));
  }
}

TEST_CASE("a run that is stopped from outside tells callbacks of no end, and closes them") {
  class Told final : public Callback {
   public:
    void on_end(const StepReport&, const Tree&, Requests&) override { ++ends; }
    void close() override { ++closed; }
    int ends = 0, closed = 0;
  };
  const auto told = std::make_shared<Told>();
  const TrainStep step = tests::line_step(1);
  auto loader = tests::line_loader();
  const TrainState state =
      fit(step, tests::line_start(step), loader, {.steps = 9, .stop_when = [] { return true; }}, {told});
  CHECK(state.step.item<std::int64_t>() == 1);
  CHECK(told->ends == 0);
  CHECK(told->closed == 1);
  fit(step, tests::line_start(step), loader, {.steps = 2, .stop_when = [] { return false; }}, {told});
  CHECK(told->ends == 1);
}

TEST_CASE("layers in a scan, dropout and statistics go on as if nothing had been") {
  const auto run = [](const fs::path& folder, std::int64_t steps, int devices) {
    const TrainStep step = tests::scanned_step(devices);
    int at = 0;
    auto batches = [&]() -> std::optional<Batch> { return tests::scanned_batch(at++); };
    return fingerprint(to_tree(fit(step, tests::scanned_start(step), batches,
                                   {.steps = steps, .checkpoints = manager_keeping(folder), .resume = true})));
  };
  const TemporaryFolder whole, parts;
  const std::string expected = run(whole.path(), 6, 1);
  run(parts.path(), 2, 2);
  CHECK(run(parts.path(), 6, 4) == expected);
}

TEST_CASE("a state that lies cut is trained, saved by blocks and gone on with under another layout") {
  const auto loss = [](const Tree& w, const Tree& state, const Batch& b) {
    const Array y = matmul(matmul(b.x, w.at("w").array()), w.at("v").array());
    return WithAux{mean_squared_error(y, b.y, b.weight), state, {}};
  };
  const auto run = [&](const fs::path& folder, int zero) {
    const Mesh mesh({{"data", 2}}, devices("cpu:0-1"));
    const TrainStep step =
        model_parallel(StepLoss(loss), tests::adam_in_state(), {.mesh = mesh, .zero = zero, .contraction_blocks = 2});
    auto loader = tests::line_loader();
    const auto halving = std::make_shared<callbacks::ReduceLROnPlateau>(
        callbacks::ReduceLROnPlateauOptions{.monitor = "loss", .factor = 0.5, .patience = 0, .min_delta = 10});
    const auto average =
        std::make_shared<callbacks::AveragedWeights>(callbacks::AveragedWeightsOptions{.momentum = 0.5});
    const Tree weights = Tree::dict({{"w", Tree(ones({3, 4}))}, {"v", Tree(ones({4, 1}))}});
    const TrainState state =
        fit(step, step.init(weights, Tree()), loader,
            {.steps = 7, .checkpoints = manager_keeping(folder), .save_every = 3, .resume = true}, {halving, average});
    for (const auto& [path, leaf] : {std::pair("w", state.trainable.at("w")), {"v", state.trainable.at("v")}}) {
      CHECK(layout_of(average->weights().at(path).array()) == layout_of(leaf.array()));
    }
    return fingerprint(Tree::dict({{"state", to_tree(state)}, {"average", average->weights()}}));
  };
  const TemporaryFolder folder;
  const std::string expected = run(folder.path(), 1);
  CHECK(fs::exists(folder.path() / "checkpoints" / "step-3" / "blocks-0.safetensors"));
  for (const char* later : {"step-6", "step-7"}) fs::remove_all(folder.path() / "checkpoints" / later);
  CHECK(run(folder.path(), 0) == expected);
}

TEST_CASE("a resume under what changes bits is refused, and says how to go on all the same") {
  const TemporaryFolder folder;
  const auto run = [&](const Named<std::string>& manifest, std::vector<std::string> accepted, std::int64_t steps) {
    const TrainStep step = tests::line_step();
    auto loader = tests::line_loader();
    return fit(step, tests::line_start(step), loader,
               {.steps = steps,
                .checkpoints = manager_keeping(folder.path()),
                .resume = true,
                .manifest = manifest,
                .accept_changes = std::move(accepted)});
  };
  run({{"seed", "3"}, {"data", "4"}}, {}, 2);
  expect_error<CheckpointError>(
      [&] {
        run({{"seed", "4"}, {"data", "4"}}, {}, 3);
      },
      "step-2: 'seed' was '3'", "is '4' now", "TrainerOptions::accept_changes 'seed' goes on all the same");
  expect_error<CheckpointError>([&] { run({{"seed", "3"}}, {"seed"}, 3); }, "'data' was '4'", "is absent now");
  run({{"seed", "4"}, {"data", "4"}}, {"seed"}, 3);
  run({{"seed", "4"}, {"data", "4"}}, {}, 4);
  run({{"processor", "x"}}, {"*"}, 5);
  expect_error<ValueError>(
      [&] {
        run({{"processor", "x"}}, {"procesor"}, 6);
      },
      "[resume] TrainerOptions::accept_changes names 'procesor', which is no entry of the manifest",
      "its entries are batch, processor, seed, shards");
  expect_error<ValueError>(
      [] {
        const TrainStep step = tests::line_step();
        auto loader = tests::line_loader();
        fit(step, tests::line_start(step), loader, {.steps = 1, .resume = true});
      },
      "resume needs a folder of checkpoints");
}

TEST_CASE("a full disk stops a run with a clear error, and it goes on from the checkpoint before") {
  const TemporaryFolder whole, folder;
  line_run(whole.path(), 8, 1);
  line_run(folder.path(), 4, 1);
  {
    // Room for the logs, but not for a checkpoint.
    const tests::FullDisk full(1500);
    expect_error<CheckpointError>([&] { line_run(folder.path(), 8, 1); }, "arrays.safetensors cannot be written");
  }
  CHECK(manager_keeping(folder.path())->latest() == 4);
  line_run(folder.path(), 8, 1);
  CHECK(results_of(folder.path()) == results_of(whole.path()));
}

TEST_CASE("a run that has nothing left to do takes away what killed ones have left") {
  const TemporaryFolder folder;
  line_run(folder.path(), 4, 1);
  const fs::path remains = folder.path() / "checkpoints" / ".step-2.remove";
  fs::create_directories(remains);
  line_run(folder.path(), 4, 1);
  CHECK_FALSE(fs::exists(remains));
}

// ---- killed at any moment

namespace {

constexpr std::int64_t killed_steps = 12;

/// Goes on with the run in a process of its own, killed after `microseconds` unless it has ended. Whether it has.
bool ended_before(const fs::path& run, int devices, std::int64_t microseconds) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    try {
      line_run(run, killed_steps, devices, {.keep_last = 2});
      _exit(0);
    } catch (...) {
      _exit(1);
    }
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::microseconds(microseconds);
  int status = 0;
  pid_t ended = 0;
  while (ended == 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    ended = waitpid(child, &status, WNOHANG);
  }
  if (ended == 0) {
    kill(child, SIGKILL);
    ended = waitpid(child, &status, 0);
  }
  REQUIRE(ended == child);
  if (WIFSIGNALED(status)) return false;
  CHECK(WEXITSTATUS(status) == 0);
  return true;
}

}  // namespace

TEST_CASE("killed: at any moment of a run, saves included, and resumed on other devices it leaves the same") {
  const char* asked = std::getenv("LOCKSTEP_KILLS");
  const char* runs = std::getenv("LOCKSTEP_FAULT_RUNS");  // of CI, which asks for few
  const int kills = runs != nullptr ? 6 * std::atoi(runs) : asked != nullptr ? std::atoi(asked) : 6;
  const TemporaryFolder whole;
  line_run(whole.path(), killed_steps, 1, {.keep_last = 2});
  const Results expected = results_of(whole.path());
  std::mt19937 draw(11);
  constexpr int devices[] = {1, 2, 4};
  // In a child that shares nothing but the code, functions are compiled anew.
  const auto start = std::chrono::steady_clock::now();
  const TemporaryFolder timed;
  REQUIRE(ended_before(timed.path(), 1, 60'000'000));
  const auto length = std::max<std::int64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start).count(), 1000);
  int killed = 0;
  for (int run = 0; killed < kills; ++run) {
    CAPTURE(run);
    REQUIRE(run < 20 * kills);
    const TemporaryFolder folder;
    bool has_ended = false;
    for (int part = 0; !has_ended; ++part) {
      const bool may_end = part > 3;
      has_ended =
          ended_before(folder.path(), devices[draw() % 3],
                       may_end ? 60'000'000 : static_cast<std::int64_t>(draw() % static_cast<unsigned>(length)));
      killed += has_ended ? 0 : 1;
    }
    CHECK(results_of(folder.path()) == expected);
    for (const auto& entry : fs::directory_iterator(folder.path() / "checkpoints")) {
      CHECK_FALSE(entry.path().filename().string().starts_with("."));
    }
  }
}
