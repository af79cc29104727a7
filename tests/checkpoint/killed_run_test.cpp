#include <chrono>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstep/checkpoint.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "tests/support/expect_error.h"
#include "tests/support/scanned_training.h"
#include "tests/support/temporary_folder.h"

// A training that is killed goes on from what it saved: the right bits are those of one that was not.

namespace lockstep::tests {
namespace {

constexpr int killed_steps = 6;

std::filesystem::path saved_after(const std::filesystem::path& folder, int step) {
  return folder / ("step_" + std::to_string(step));
}

/// In a process of its own: saves after each step, until it is killed when step `last` is done and not saved.
void train_until_killed(const std::filesystem::path& folder, int last) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    try {
      const TrainStep step = scanned_step(1);
      trained_through(step, scanned_start(step), 0, killed_steps, [&](int i, const TrainState& state) {
        if (i == last) raise(SIGKILL);
        checkpoint::save(saved_after(folder, i), to_tree(state), {});
      });
    } catch (...) {
      _exit(1);
    }
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGKILL);
}

/// A value of a few MB that says which step it is of.
Tree large_state(std::int64_t step) {
  return Tree::dict({{"w", Tree(full({1 << 20}, static_cast<double>(step), float32))}, {"step", Tree(array(step))}});
}

/// Saves one step after the other, in a process of its own, which is killed after so long.
void save_until_killed(const std::filesystem::path& folder, int microseconds) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    try {
      for (std::int64_t step = 0;; ++step) {
        checkpoint::save(saved_after(folder, static_cast<int>(step)), large_state(step), {});
      }
    } catch (...) {
      _exit(1);
    }
  }
  std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
  kill(child, SIGKILL);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
}

}  // namespace

TEST_CASE("T85: a save that is killed leaves the checkpoints before it whole, and is refused itself") {
  int refused = 0, whole = 0;
  for (int run = 0; run < 60 && (run < 6 || refused == 0 || whole == 0); ++run) {
    const TemporaryFolder folder;
    save_until_killed(folder.path(), 60'000 + 7'000 * run);
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      const std::string name = entry.path().filename().string();
      CAPTURE(name);
      if (name.starts_with("step_")) {
        const std::int64_t step = std::stoll(name.substr(5));
        CHECK(fingerprint(checkpoint::restore(entry.path()).tree) == fingerprint(large_state(step)));
        ++whole;
      } else if (!std::filesystem::exists(entry.path() / "manifest.json")) {
        expect_error<CheckpointError>([&] { static_cast<void>(checkpoint::restore(entry.path())); },
                                      entry.path().string());
        ++refused;
      }
    }
  }
  CHECK(whole > 0);
  CHECK(refused > 0);
}

TEST_CASE("layers in a scan, killed and resumed on other devices, have the bits of an uninterrupted run") {
  const TrainStep whole = scanned_step(1);
  const TrainState start = scanned_start(whole);
  const std::string expected = fingerprint(to_tree(trained_through(whole, start, 0, killed_steps)));
  for (const int last : {1, 4}) {
    CAPTURE(last);
    const TemporaryFolder folder;
    train_until_killed(folder.path(), last);
    CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == last);
    const Tree saved = checkpoint::restore(saved_after(folder.path(), last - 1), to_tree(start));
    for (const int devices : {1, 2, 4}) {
      const TrainStep step = scanned_step(devices);
      const TrainState resumed = trained_through(step, from_tree<TrainState>(saved), last, killed_steps);
      CHECK(fingerprint(to_tree(resumed)) == expected);
    }
  }
}

}  // namespace lockstep::tests
