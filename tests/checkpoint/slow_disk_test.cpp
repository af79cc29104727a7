#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <list>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/checkpoint/faulty_disk.h"
#include "tests/support/expect_error.h"
#include "tests/support/faulty_job.h"
#include "tests/support/temporary_folder.h"

// A disk that takes longer than processes wait for each other: who writes is at work and not dead, unless it is stopped.
namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;

constexpr double limit = 1;
constexpr double grace = 20;  // of launcher and machine

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// What happens in this process at the first fsync: it takes longer than the limit, or the process is stopped there.
void at_fsync() {
  static std::atomic<bool> is_first{true};
  if (!is_first.exchange(false)) return;
  announce_fault();
  if (setting("LOCKSTEP_TEST_FAULT") == "stopped") std::raise(SIGSTOP);
  std::this_thread::sleep_for(std::chrono::duration<double>(2.5 * limit));
}

void save_as_asked() {
  const fs::path folder = setting("LOCKSTEP_TEST_FOLDER");
  const std::string how = setting("LOCKSTEP_TEST_SAVE");
  const Mesh mesh({{"data", 4}}, {Device{}});
  const Array whole = arange(std::int64_t{64});
  const Tree state =
      Tree::dict({{"w", Tree(how == "beside the training, cut" ? reshard(whole, mesh, sharded("data")) : whole)}});
  const bool is_here = std::to_string(world()->rank()) == setting("LOCKSTEP_TEST_RANK");
  world()->barrier();
  const BeforeFsync before([is_here] {
    if (is_here) at_fsync();
  });
  if (how == "at once") return checkpoint::save(folder / "saved", state, {});
  checkpoint::Manager manager(folder);
  manager.save(1, state);
  manager.wait();
}

std::string slow_command(const fs::path& folder, const std::string& fault, const std::string& how, int rank,
                         const std::string& communicator) {
  return "LOCKSTEP_COMMUNICATOR=" + communicator + " LOCKSTEP_TEST_FAULT=" + fault + " LOCKSTEP_TEST_SAVE='" + how +
         "' LOCKSTEP_TEST_RANK=" + std::to_string(rank) + " LOCKSTEP_TEST_FOLDER='" + folder.string() +
         "' LOCKSTEP_FLIGHT_RECORDER='" + folder.string() + "' LOCKSTEP_COLLECTIVE_TIMEOUT=1 " + mpirun(2) +
         run_of_case("what each launched process sees of a slow disk");
}

}  // namespace

TEST_CASE("what each launched process sees of a slow disk" * doctest::skip()) {
  announce_process();
  try {
    tell_processes(save_as_asked);
    std::printf("process %d has saved\n", world()->rank());
  } catch (const Error& error) {
    std::printf("process %d says: %s\n", world()->rank(), error.what());
    std::fflush(stdout);
    FAIL("the save failed");
  }
}

TEST_CASE("fault: a disk slower than the time limit is waited for, and who is stopped while it writes is named") {
  if (!can_launch()) return skip(no_launcher());
  struct Case {
    std::string how;
    int rank;  ///< Whose disk it is.
  };
  std::vector<Case> cases;
  std::list<TemporaryFolder> folders;
  std::vector<std::string> commands;
  for (const Case& c : {Case{"at once", 0}, Case{"beside the training", 0}, Case{"beside the training, cut", 1}}) {
    for (const std::string communicator : {"shared_memory", "mpi"}) {
      cases.push_back(c);
      for (const char* fault : {"slow", "stopped"}) {
        commands.push_back(slow_command(folders.emplace_back().path(), fault, c.how, c.rank, communicator));
      }
    }
  }
  const std::vector<JobEnd> ends = ends_of_jobs(commands, 4);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    CAPTURE(commands[2 * i]);
    const JobEnd& slow = ends[2 * i];
    CAPTURE(slow.output);
    CHECK(slow.succeeded);
    CHECK(count(slow.output, "has saved") == 2);
    CHECK(count(slow.output, "fault ") == 1);
    const JobEnd& stopped = ends[2 * i + 1];
    CAPTURE(stopped.output);
    CHECK_FALSE(stopped.succeeded);
    CHECK_FALSE(stopped.hung);
    CHECK(stopped.seconds < limit + grace);
    CHECK(stopped.left_over.empty());
    const std::string late = "process " + std::to_string(cases[i].rank) + " did not come within 1 s to collective ";
    CHECK(count(stopped.output, late) == 1);
  }
}

}  // namespace lockstep::tests
