// Jobs of which one process never connects.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/error.h>
#include <lockstep/processes.h>

#include "tests/support/expect_error.h"
#include "tests/support/faulty_job.h"

// A process that ends well, or hangs, before it connects: the others do not wait for it for ever, and say which one it is.
namespace lockstep::tests {
namespace {

bool is_rank(const std::string& rank) {
  const char* own = std::getenv("OMPI_COMM_WORLD_RANK");
  return own != nullptr && own == rank;
}

}  // namespace

TEST_CASE("what a process of a job that one never joins does" * doctest::skip()) {
  announce_process();
  if (is_rank(std::getenv("LOCKSTEP_TEST_ABSENT"))) {
    if (std::getenv("LOCKSTEP_TEST_HANGS") != nullptr) std::this_thread::sleep_for(std::chrono::seconds(60));
    return;
  }
  try {
    static_cast<void>(world());
  } catch (const CommunicatorError& error) {
    std::printf("\nprocess %s says: %s\n", std::getenv("OMPI_COMM_WORLD_RANK"), error.what());
    std::fflush(stdout);
    std::_Exit(1);
  }
}

TEST_CASE("a process that returns 0, or hangs, before it connects is named by the others within the time limit") {
  if (!can_launch()) return skip(no_launcher());
  struct Case {
    int processes;
    std::string communicator, absent, text;
    bool hangs = false;
  };
  const std::string rest =
      " did not connect within 10 s; see whether it has ended, what it printed, and whether its main connects "
      "(world(), "
      "or a map over all processes) as the others do, or give it longer: LOCKSTEP_COLLECTIVE_TIMEOUT.";
  // Where a process ends before MPI begins, Open MPI's launcher may see it first.
  const std::vector<Case> cases = {
      {2, "shared_memory", "1", "process 0 says: shared_memory: process 1 of 2" + rest},
      {3, "shared_memory", "0", "says: shared_memory: process 0 of 3" + rest},
      {2, "mpi", "1", "process 0 says: mpi: process 1 of 2" + rest},
      {2, "mpi", "1", "process 0 says: mpi: process 1 of 2" + rest, true},
      {3, "mpi", "0", "says: mpi: process 0 of 3" + rest, true},
  };
  std::vector<std::string> commands;
  for (const Case& c : cases) {
    commands.push_back("LOCKSTEP_COLLECTIVE_TIMEOUT=2 LOCKSTEP_COMMUNICATOR=" + c.communicator +
                       " LOCKSTEP_TEST_ABSENT=" + c.absent + (c.hangs ? " LOCKSTEP_TEST_HANGS=1 " : " ") +
                       mpirun(c.processes) + run_of_case("what a process of a job that one never joins does"));
  }
  const std::vector<JobEnd> ends = ends_of_jobs(commands, cases.size());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    CAPTURE(commands[i]);
    CAPTURE(ends[i].output);
    CHECK_FALSE(ends[i].hung);
    CHECK_FALSE(ends[i].succeeded);
    CHECK(ends[i].seconds < 40);
    CHECK(ends[i].left_over.empty());
    const bool launcher_was_first =
        cases[i].communicator == "mpi" && !cases[i].hangs && contains(ends[i].output, "exited due to process rank 1");
    CHECK((launcher_was_first || contains(ends[i].output, cases[i].text)));
  }
}

}  // namespace lockstep::tests
