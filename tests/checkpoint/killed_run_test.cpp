#include <csignal>
#include <filesystem>
#include <iterator>
#include <string>

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstep/checkpoint.h>

#include "tests/support/scanned_training.h"
#include "tests/support/temporary_folder.h"

// A training that is killed goes on from what it saved: the right bits are those of one that was not.

namespace lockstep::tests {
namespace {

constexpr int steps = 6;

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
      trained_through(step, scanned_start(step), 0, steps, [&](int i, const TrainState& state) {
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

}  // namespace

TEST_CASE("layers in a scan, killed and resumed on other devices, have the bits of an uninterrupted run") {
  const TrainStep whole = scanned_step(1);
  const TrainState start = scanned_start(whole);
  const std::string expected = fingerprint(to_tree(trained_through(whole, start, 0, steps)));
  for (const int last : {1, 4}) {
    CAPTURE(last);
    const TemporaryFolder folder;
    train_until_killed(folder.path(), last);
    CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == last);
    const Tree saved = checkpoint::restore(saved_after(folder.path(), last - 1), to_tree(start));
    for (const int devices : {1, 2, 4}) {
      const TrainStep step = scanned_step(devices);
      const TrainState resumed = trained_through(step, from_tree<TrainState>(saved), last, steps);
      CHECK(fingerprint(to_tree(resumed)) == expected);
    }
  }
}

}  // namespace lockstep::tests
