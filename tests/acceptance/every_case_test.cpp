#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/processes.h>

#include "tests/acceptance/cases.h"
#include "tests/support/drawn_cases.h"
#include "tests/support/launcher.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::tests {
namespace {

constexpr const char* ending_case = "LOCKSTEP_TEST_ENDING_CASE";

/// The bits of what a case computed, or nothing for one that computes nothing.
std::string bits_of(const AcceptanceCase& c, const Replicas& replicas) {
  const Tree computed = c.run(replicas);
  return computed.paths().empty() ? "nothing" : fingerprint(computed);
}

std::string line_of(const AcceptanceCase& c, std::int64_t shards, const std::string& hash) {
  return c.what + ", shards " + std::to_string(shards) + ": " + hash + "\n";
}

/// One line for each case and number of shards that `processes` can share; on 1 and 2 devices each the bits are the same.
std::string run_all(int processes) {
  std::string lines;
  for (const AcceptanceCase& c : all_cases()) {
    if (c.ends_processes && processes > 1) continue;
    for (const std::int64_t shards : c.shards) {
      if (shards < processes) continue;
      CAPTURE(c.what);
      CAPTURE(shards);
      const std::string hash = bits_of(c, {shards, 1});
      if (shards >= 2 * processes) CHECK(bits_of(c, {shards, 2}) == hash);
      lines += line_of(c, shards, hash);
    }
  }
  return lines;
}

/// The lines of cases that so many processes can run.
std::string lines_for(int processes) {
  std::string lines;
  for (const AcceptanceCase& c : all_cases()) {
    if (c.ends_processes) continue;
    for (const std::int64_t shards : c.shards) {
      if (shards >= processes) lines += line_of(c, shards, bits_of(c, {shards, 1}));
    }
  }
  return lines;
}

/// Each moves bytes its own way, and no bit may depend on it.
const std::vector<std::string>& communicators() {
  static const std::vector<std::string> names = {"shared_memory", "mpi"};
  return names;
}

}  // namespace

TEST_CASE("every case holds on 1, 2, 4 and 8 shards, on 1 and 2 devices, with the same bits") { run_all(1); }

TEST_CASE("what each launched process computes of the cases" * doctest::skip()) {
  const char* folder = std::getenv(results_folder);
  REQUIRE(folder != nullptr);
  std::ofstream(std::filesystem::path(folder) / std::to_string(world()->rank())) << run_all(world()->size());
  world()->barrier();
}

TEST_CASE("what each launched process sees of a case that ends it" * doctest::skip()) {
  const char* what = std::getenv(ending_case);
  REQUIRE(what != nullptr);
  for (const AcceptanceCase& c : all_cases()) {
    if (c.what == what) c.run({world()->size(), 1});
  }
}

TEST_CASE("what ends the processes is the same error on all of 2 and 4") {
  if (!can_launch()) return skip(no_launcher());
  for (const AcceptanceCase& c : all_cases()) {
    if (!c.ends_processes) continue;
    for (const std::string& communicator : communicators()) {
      for (const int processes : {2, 4}) {
        const std::string settings =
            "LOCKSTEP_COMMUNICATOR=" + communicator + " " + ending_case + "='" + c.what + "' timeout 300 ";
        const std::string output =
            launched(processes, "what each launched process sees of a case that ends it", settings);
        CAPTURE(output);
        CHECK(count(output, "SUCCESS!") == static_cast<std::size_t>(processes));
      }
    }
  }
}

TEST_CASE("every case holds in 2 and 4 processes, with the bits of one" * drawn_suite) {
  if (!can_launch()) return skip(no_launcher());
  struct Row {
    int processes;
    std::string settings;
  };
  // Both communicators, and sums of gradients that begin while the backward pass runs, each by itself.
  const std::string windows = "LOCKSTEP_COMMUNICATOR=shared_memory ", messages = "LOCKSTEP_COMMUNICATOR=mpi ";
  const std::string early = "LOCKSTEP_BUCKET_BYTES=64 ";
  std::map<int, std::string> expected;
  std::vector<Row> rows = {{2, windows}, {4, early + messages}};
  if (tries_all()) rows.insert(rows.end(), {{2, early + messages}, {4, early + windows}, {4, messages}});
  for (const auto& [processes, given] : rows) {
    CAPTURE(processes);
    CAPTURE(given);
    if (!expected.contains(processes)) expected[processes] = lines_for(processes);
    const TemporaryFolder folder;
    const std::string settings = given + std::string(results_folder) + "='" + folder.path().string() + "' timeout 900 ";
    const std::string output = launched(processes, "what each launched process computes of the cases", settings);
    CAPTURE(output);
    CHECK(count(output, "SUCCESS!") == static_cast<std::size_t>(processes));
    for (int rank = 0; rank < processes; ++rank) {
      CHECK(file_text(folder.path() / std::to_string(rank)) == expected.at(processes));
    }
  }
}

}  // namespace lockstep::tests
