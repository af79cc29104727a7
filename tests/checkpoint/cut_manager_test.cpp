#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/checkpoint/faulty_disk.h"
#include "tests/support/expect_error.h"
#include "tests/support/faulty_job.h"
#include "tests/support/full_disk.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/training.h"

// A state that lies cut over processes is saved while the training goes on: each process its blocks, process 0 the index.

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;
using checkpoint::Choice;
using checkpoint::Manager;

Model<Array, Array> two_layers() {
  return Model<Array, Array>([](const Scope& s, const Array& x) {
    return dense(s["out"], tanh(dense(s["in"], x, {.units = 512})), {.units = 1});
  });
}

/// Parameters and slots cut over four shards.
TrainStep cut_step() {
  return model_parallel(loss_of(two_layers()), optim::adam(0.01),
                        {.mesh = Mesh({{"data", 4}}, {Device{}}), .zero = 3, .contraction_blocks = 4});
}

Batch batch_of_step(std::int64_t step) { return regression_batch(8, 256, float32, static_cast<std::uint64_t>(step)); }

TrainState started(const TrainStep& step) { return fresh_state(step, two_layers(), batch_of_step(0)); }

constexpr int manager_steps = 8;

/// The states behind each step.
std::map<std::int64_t, std::string> fingerprints() {
  const TrainStep step = cut_step();
  TrainState state = started(step);
  std::map<std::int64_t, std::string> found;
  for (std::int64_t i = 0; i < manager_steps; ++i) {
    state = step(std::move(state), batch_of_step(i)).first;
    found.emplace(i, fingerprint(to_tree(state)));
  }
  return found;
}

/// From the latest checkpoint on, saving behind each step.
void train_and_save(Manager& manager) {
  const TrainStep step = cut_step();
  TrainState state = started(step);
  manager.open();
  std::int64_t at = 0;
  if (!manager.steps().empty()) {
    at = manager.step_of(Choice::latest) + 1;
    state = from_tree<TrainState>(manager.restore(Choice::latest, to_tree(state)));
  }
  for (; at < manager_steps; ++at) {
    state = step(std::move(state), batch_of_step(at)).first;
    manager.save(at, state);
  }
  manager.wait();
}

/// Called at each sync of the process that is to be killed: the nth kills it, some time later.
void kill_later() {
  static std::atomic<int> left{std::atoi(std::getenv("LOCKSTEP_TEST_MOMENT"))};
  if (left-- != 0) return;
  std::thread([microseconds = std::atoi(std::getenv("LOCKSTEP_TEST_DELAY"))] {
    std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
    std::raise(SIGKILL);
  }).detach();
}

std::string command(int processes, const std::string& communicator, const fs::path& folder,
                    const std::string& test_case) {
  return "LOCKSTEP_COMMUNICATOR=" + communicator + " LOCKSTEP_COLLECTIVE_TIMEOUT=10 LOCKSTEP_TEST_FOLDER='" +
         folder.string() + "' " + mpirun(processes) + run_of_case(test_case);
}

void check_saved(const fs::path& folder, const std::map<std::int64_t, std::string>& expected) {
  Manager manager(folder);
  for (const std::int64_t step : manager.steps()) {
    CAPTURE(step);
    CHECK(fingerprint(manager.restore(step).tree) == expected.at(step));
  }
}

}  // namespace

TEST_CASE("what each launched process saves of a cut state while it trains" * doctest::skip()) {
  announce_process();
  const fs::path folder = std::getenv("LOCKSTEP_TEST_FOLDER");
  const char* killed = std::getenv("LOCKSTEP_TEST_KILLED");
  const bool is_killed = killed != nullptr && std::atoi(killed) == world()->rank();
  const BeforeFsync before([is_killed] {
    if (is_killed) kill_later();
  });
  Manager manager(folder / "run");
  train_and_save(manager);
  CHECK(manager.latest() == manager_steps - 1);
  std::printf("process %d has saved all.\n", world()->rank());
}

TEST_CASE("what each launched process sees of a full disk while it saves a cut state" * doctest::skip()) {
  const fs::path folder = std::getenv("LOCKSTEP_TEST_FOLDER");
  const TrainStep step = cut_step();
  const TrainState state = started(step);
  Manager manager(folder / "full");
  manager.save(1, state);
  manager.wait();
  for (int full_rank = 0; full_rank < world()->size(); ++full_rank) {
    const bool is_full = world()->rank() == full_rank;
    {
      const FullDisk full(is_full ? 100 : RLIM_INFINITY);
      manager.save(2, state);
      const std::string text = error_text<CheckpointError>([&] { manager.wait(); });
      CHECK_MESSAGE((contains(text, "File too large") || contains(text, "cannot write its blocks")), text);
      if (is_full) CHECK_MESSAGE(contains(text, "File too large"), text);
    }
    CHECK(manager.step_of(Choice::latest) == 1);
  }
  manager.save(3, state);
  CHECK(fingerprint(manager.restore(Choice::latest, to_tree(state))) == fingerprint(to_tree(state)));
  if (world()->rank() == 0) std::printf("saved behind a full disk of each of %d.\n", world()->size());
}

TEST_CASE("a cut state is saved beside the training, as it was when it was given") {
  const std::map<std::int64_t, std::string> expected = fingerprints();
  const TemporaryFolder folder;
  {
    Manager manager(folder.path() / "one");
    train_and_save(manager);
  }
  check_saved(folder.path() / "one", expected);
  if (!can_launch()) return skip(no_launcher());
  for (const std::string communicator : {"shared_memory", "mpi"}) {
    for (const int processes : {2, 4}) {
      CAPTURE(communicator);
      CAPTURE(processes);
      const TemporaryFolder own;
      const JobEnd saved = end_of_job(command(processes, communicator, own.path(),
                                              "what each launched process saves of a cut state while it trains"));
      CAPTURE(saved.output);
      CHECK(saved.succeeded);
      CHECK(count(saved.output, "has saved all.") == static_cast<std::size_t>(processes));
      check_saved(own.path() / "run", expected);
      CHECK(Manager(own.path() / "run").steps().size() == manager_steps);
      const JobEnd full =
          end_of_job(command(processes, communicator, own.path(),
                             "what each launched process sees of a full disk while it saves a cut state"));
      CAPTURE(full.output);
      CHECK(full.succeeded);
      CHECK(contains(full.output, "saved behind a full disk of each of " + std::to_string(processes)));
    }
  }
}

TEST_CASE("killed: a training that saves a cut state leaves whole checkpoints, and goes on to the same bits") {
  if (!can_launch()) return skip(no_launcher());
  const std::map<std::int64_t, std::string> expected = fingerprints();
  const char* asked = std::getenv("LOCKSTEP_KILLS");
  const int kills = asked != nullptr ? std::atoi(asked) / 4 : 4;
  for (int i = 0; i < kills; ++i) {
    const TemporaryFolder folder;
    const std::string settings = "LOCKSTEP_TEST_KILLED=" + std::to_string(i % 2) +
                                 " LOCKSTEP_TEST_MOMENT=" + std::to_string(i * 5 % (manager_steps - 2)) +
                                 " LOCKSTEP_TEST_DELAY=" + std::to_string(i * 331 % 2000) + " ";
    const std::string job = command(2, i % 4 < 2 ? "shared_memory" : "mpi", folder.path(),
                                    "what each launched process saves of a cut state while it trains");
    const JobEnd killed = end_of_job(settings + job);
    CAPTURE(settings);
    CAPTURE(killed.output);
    CHECK_FALSE(killed.hung);
    CHECK(killed.left_over.empty());
    CHECK(contains(killed.output, "signal 9"));
    check_saved(folder.path() / "run", expected);
    const JobEnd ended = end_of_job(job);
    CAPTURE(ended.output);
    CHECK(ended.succeeded);
    check_saved(folder.path() / "run", expected);
    for (const auto& entry : fs::directory_iterator(folder.path() / "run")) {
      CHECK_FALSE(entry.path().filename().string().starts_with("."));
    }
  }
}

}  // namespace lockstep::tests
