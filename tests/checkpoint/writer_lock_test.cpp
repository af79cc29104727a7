#include <csignal>
#include <string>
#include <utility>

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstep/checkpoint.h>
#include <lockstep/error.h>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::tests {

using checkpoint::WriterLock;

TEST_CASE("a folder has one writer, which the second one is told; it is free again when that one ends") {
  const TemporaryFolder folder;
  {
    const WriterLock lock(folder.path());
    CHECK(contains(file_text(folder.path() / "writer.lock"), "process " + std::to_string(getpid()) + " on "));
    expect_error<CheckpointError>([&] { WriterLock second(folder.path()); }, "writer.lock: process ",
                                  std::to_string(getpid()), "writes this folder; wait for its end");
  }
  CHECK_FALSE(std::filesystem::exists(folder.path() / "writer.lock"));
  WriterLock moved = [&] { return WriterLock(folder.path()); }();
  const WriterLock last = std::move(moved);
  CHECK(std::filesystem::exists(folder.path() / "writer.lock"));
}

TEST_CASE("the lock of a process that was killed counts for nothing") {
  const TemporaryFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    const WriterLock lock(folder.path());
    std::raise(SIGKILL);
  }
  REQUIRE(child > 0);
  waitpid(child, nullptr, 0);
  CHECK(std::filesystem::exists(folder.path() / "writer.lock"));
  const WriterLock lock(folder.path());
  CHECK(contains(file_text(folder.path() / "writer.lock"), "process " + std::to_string(getpid()) + " on "));
}

TEST_CASE("a forked child neither gives its parent's lock up nor keeps it") {
  const TemporaryFolder folder;
  pid_t running = -1;
  {
    WriterLock lock(folder.path());
    const pid_t unwinding = fork();
    if (unwinding == 0) {
      { const WriterLock last = std::move(lock); }
      _exit(0);
    }
    REQUIRE(unwinding > 0);
    waitpid(unwinding, nullptr, 0);
    CHECK(std::filesystem::exists(folder.path() / "writer.lock"));
    expect_error<CheckpointError>([&] { WriterLock second(folder.path()); }, "writes this folder");
    running = fork();
    if (running == 0) {
      pause();
      _exit(0);
    }
    REQUIRE(running > 0);
  }
  CHECK_FALSE(std::filesystem::exists(folder.path() / "writer.lock"));
  { const WriterLock next(folder.path()); }
  kill(running, SIGKILL);
  waitpid(running, nullptr, 0);
}

TEST_CASE("a folder that is not there cannot be locked") {
  expect_error<CheckpointError>([] { WriterLock lock("/nowhere/at/all"); }, "cannot be opened", "No such file");
}

}  // namespace lockstep::tests
