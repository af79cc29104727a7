#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/checkpoint.h>
#include <lockstep/error.h>

#include "tests/cli/program.h"
#include "tests/support/expect_error.h"
#include "tests/support/faulty_job.h"

using namespace lockstep::tests;
namespace fs = std::filesystem;

namespace {

/// Why no job of several processes can be started, or an empty text.
const std::string& no_mpi() {
  static const std::string reason = [] {
    if (!can_launch()) return no_launcher();
    for (const std::string& line : run_program("info").out) {
      if (line.starts_with("communicators") && contains(line, "mpi")) return std::string();
    }
    return std::string("a build without MPI");
  }();
  return reason;
}

/// A process of the job that trains with these flags beside the usual ones: it says its number, and a shell does `before`
/// first.
std::string process(const fs::path& run, const SmallData& data, const std::string& flags,
                    const std::string& before = {}) {
  return "-n 1 sh -c 'echo; echo pid $$; " + before +
         " exec \"$0\" \"$@\"' " LOCKSTEP_PROGRAM " train --collective-timeout 2 --devices 1 --run " + run.string() +
         (contains(flags, "--data-dir") ? "" : data.option()) + (contains(flags, "--model") ? "" : " --model mlp") +
         (contains(flags, "--steps") ? " " : " --steps 3 ") + flags;
}

JobEnd job(const std::string& first, const std::string& second) {
  return end_of_job("mpirun --allow-run-as-root --oversubscribe " + first + " : " + second);
}

/// So many seconds behind the run's beginning, when its folder is there, the process gets that signal. One that is stopped
/// before the processes are connected is waited for five minutes: how late a process starts is no fault.
std::string signalled(const std::string& signal, const fs::path& run, double seconds) {
  return "(while [ ! -e " + run.string() + " ]; do sleep 0.05; done; sleep " + std::to_string(seconds) +
         "; date +\"fault %s.%N\"; kill -" + signal + " $$) &";
}

constexpr double longest = 60;  // seconds of a job, its start and the machine's other work among them

}  // namespace

TEST_CASE("fault: processes of one training with other flags or data name the flag, in time") {
  if (!no_mpi().empty()) return skip(no_mpi());
  const SmallData data;
  const TemporaryFolder other_data;
  for (const auto& entry : fs::directory_iterator(data.option().substr(12))) {
    std::string bytes = file_text(entry.path());
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    other_data.write(entry.path().filename(), bytes);
  }
  struct Case {
    std::string flags, part;
  };
  const std::vector<Case> cases = {
      {"--seed 9", "lockstep train: --seed is '0' in process 0, '9' in process 1"},
      {"--learning-rate 0.01", "--learning-rate is '0.001' in process 0, '0.01' in process 1"},
      {"--model cnn", "--model is 'mlp' in process 0, 'cnn' in process 1"},
      {"--shards 4", "--shards is 'left out' in process 0, '4' in process 1"},
      {"--steps 4", "--steps is '3' in process 0, '4' in process 1"},
      {"--dtype float64", "--dtype is 'float32' in process 0, 'float64' in process 1"},
      {"--data-dir " + other_data.path().string(), "the rows of the training set (--data-dir) is 'f32["},
  };
  for (const Case& c : cases) {
    FaultTally tally("lockstep train " + c.flags.substr(0, c.flags.find(' ')), 2);
    for (int i = 0; i < fault_runs(); ++i) {
      const TemporaryFolder folder;
      const fs::path run = folder.path() / "run";
      const JobEnd end = job(process(run, data, ""), process(run, data, c.flags));
      CAPTURE(end.output);
      CAPTURE(end.seconds);
      CHECK(tally.add(end, longest, {c.part}));
      CHECK_FALSE(fs::exists(run));
    }
  }
}

TEST_CASE("fault: a training of which a process is killed or stopped at any moment ends") {
  if (!no_mpi().empty()) return skip(no_mpi());
  const SmallData data;
  struct Case {
    std::string signal, part;
  };
  const std::vector<Case> cases = {{"KILL", "signal 9"}, {"STOP", "process 1 did not come within 2"}};
  for (const Case& c : cases) {
    FaultTally tally("lockstep train, SIG" + c.signal, 2);
    for (int i = 0; i < fault_runs(); ++i) {
      const TemporaryFolder folder;
      const fs::path run = folder.path() / "run";
      const std::string moment = signalled(c.signal, run, 0.03 * i);
      const JobEnd end = job(process(run, data, "--steps 1000000"), process(run, data, "--steps 1000000", moment));
      CAPTURE(i);
      CAPTURE(end.output);
      CAPTURE(end.seconds);
      CHECK(tally.add(end, longest, {c.part}));
    }
  }
}

TEST_CASE("fault: a full disk of the process that writes ends all, and a run in use is refused") {
  if (!no_mpi().empty()) return skip(no_mpi());
  const SmallData data;
  {
    FaultTally tally("lockstep train, a full disk", 2);
    for (int i = 0; i < fault_runs(); ++i) {
      const TemporaryFolder folder;
      const fs::path run = folder.path() / "run";
      const JobEnd end = job(process(run, data, "", "trap \"\" XFSZ; ulimit -f 16;"), process(run, data, ""));
      CAPTURE(end.output);
      CAPTURE(end.seconds);
      CHECK(tally.add(end, longest, {"cannot be written: File too large", "lockstep: process 0 failed: [checkpoint]"}));
    }
  }
  const TemporaryFolder folder;
  const fs::path run = folder.path() / "run";
  const std::string arguments = "train --model mlp --run " + run.string() + data.option();
  REQUIRE(run_program(arguments + " --steps 1").code == 0);
  CHECK_FALSE(fs::exists(run / "writer.lock"));
  const lockstep::checkpoint::WriterLock lock(run);
  const Outcome refused = run_program(arguments + " --resume --steps 2");
  CHECK(refused.code == 1);
  REQUIRE(refused.err.size() == 1);
  CHECK(contains(refused.err[0], "writer.lock: process " + std::to_string(getpid()) + " on "));
  CHECK(contains(refused.err[0], "writes this folder"));
}

TEST_CASE("two processes that compare their states at each step train as without") {
  if (!no_mpi().empty()) return skip(no_mpi());
  const SmallData data;
  const TemporaryFolder folder;
  const fs::path run = folder.path() / "run";
  const std::string flags = "--check-replicas 1 --checkpoint-every 2";
  const JobEnd end = job(process(run, data, flags), process(run, data, flags));
  CAPTURE(end.output);
  CHECK(end.succeeded);
  CHECK(count(end.output, "fingerprint ") == 1);
  CHECK(fs::exists(run / "checkpoints" / "step-2" / "manifest.json"));
  CHECK(fs::exists(run / "checkpoints" / "step-3" / "manifest.json"));
}
