// Trainings of which one call of the system fails, each in turn: every one ends with a clear error or goes on, and what it
// leaves goes on to the bits of a training to which nothing happened.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/at_once.h"
#include "tests/support/drawn_cases.h"
#include "tests/support/faulty_job.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"
#include "tests/system_faults/failing_call.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;

/// How a command of the shell ended.
struct Ended {
  bool hung = false;
  int code = -1;
  std::vector<int> left_over;
  std::string out, err;
};

/// Runs commands in a folder.
Ended run_in(const fs::path& folder, const std::string& command) {
  const JobEnd end = end_of_job("cd " + folder.string() + " && { " + command + " >stdout 2>stderr; echo code $?; }");
  Ended ended{.hung = end.hung, .code = -1, .left_over = end.left_over, .out = file_text(folder / "stdout"), .err = file_text(folder / "stderr")};
  if (const std::size_t at = end.output.rfind("code "); at != std::string::npos) ended.code = std::stoi(end.output.substr(at + 5));
  return ended;
}

const std::string training =
    "train --data synthetic --set data.rows=96 --set data.test_rows=32 --model mlp --set model.units=16 --set model.layers=1 --batch 16 "
    "--devices 1 --shards 4 --log-every 1 --checkpoint-every 2 --collective-timeout 5 --run run ";
const std::string steps = "--steps 4";
const std::string more_steps = "--resume --steps 6";

std::string fingerprint_of(const std::string& out) {
  const std::size_t at = out.rfind("fingerprint ");
  return at == std::string::npos ? std::string() : out.substr(at, out.find('\n', at) - at);
}

/// The command of a training of so many processes, of which the call fails in one.
std::string command_of(int processes, int process, const std::string& fault, const std::string& flags) {
  const std::string program = std::string(LOCKSTEP_PROGRAM) + " " + training + flags;
  if (processes == 1) return fault + program;
  std::string command = "mpirun --allow-run-as-root --oversubscribe";
  for (int p = 0; p < processes; ++p) {
    command += (p == 0 ? " -n 1 " : " : -n 1 ") + std::string("sh -c 'echo; echo pid $$; exec \"$0\" \"$@\"' ") +
               (p == process ? fault : "") + program;
  }
  return command;
}

/// What a training has to come to that nothing happened to.
struct Reference {
  std::string short_run, long_run;
};
const Reference& reference() {
  static const Reference made = [] {
    const TemporaryFolder folder;
    const Ended first = run_in(folder.path(), command_of(1, 0, "", steps));
    const Ended second = run_in(folder.path(), command_of(1, 0, "", more_steps));
    REQUIRE(first.code == 0);
    REQUIRE(second.code == 0);
    return Reference{fingerprint_of(first.out), fingerprint_of(second.out)};
  }();
  return made;
}

/// What became of a training's kind of calls, and what is wrong.
struct Tally {
  long calls = 0;
  int tried = 0, errors = 0, went_on = 0, resumed = 0, begun_again = 0;
  std::vector<std::string> wrong;
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::vector<std::string> own_lines(const std::string& text) {
  std::vector<std::string> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("lockstep: ")) found.push_back(line);
  }
  return found;
}

/// What is wrong with a training's end; empty: nothing.
std::string fault_of(const Ended& ended, int processes) {
  if (ended.hung) return "it hung";
  if (!ended.left_over.empty()) return "a process is left";
  if (ended.code == 0) return fingerprint_of(ended.out) == reference().short_run ? "" : "other bits, and code 0";
  if (ended.code >= 128) return "it ended by a signal";
  const std::vector<std::string> lines = own_lines(ended.err);
  if (lines.empty()) return "no error is printed";
  if (processes == 1 && (lines.size() > 1 || std::ranges::count(ended.err, '\n') != 1)) return "more than one line";
  for (const char* const part : {"std::", "what()", "terminate called", "basic_string", "unknown"}) {
    if (has(ended.err, part)) return std::string("it says ") + part;
  }
  return "";
}

/// What is wrong with what it leaves; empty: nothing.
std::string fault_of_resume(const fs::path& folder, Tally& tally) {
  const bool has_checkpoint = fs::exists(folder / "run/checkpoints/step-2") || fs::exists(folder / "run/checkpoints/step-4");
  Ended ended = run_in(folder, command_of(1, 0, "", more_steps));
  if (ended.code == 0) {
    ++tally.resumed;
  } else {
    if (has_checkpoint) return "a checkpoint is there, and is not resumed: " + ended.err;
    if (!has(ended.err, "holds no checkpoint to resume")) return "it cannot be resumed: " + ended.err;
    fs::remove_all(folder / "run");
    ended = run_in(folder, command_of(1, 0, "", "--steps 6"));
    ++tally.begun_again;
  }
  if (fingerprint_of(ended.out) != reference().long_run) return "it is resumed to other bits: " + ended.err;
  for (const auto& entry : fs::recursive_directory_iterator(folder / "run")) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(".") || name == "writer.lock") return "this stays: " + entry.path().string();
  }
  return "";
}

/// Which of so many calls fail: all, or the first ones, the last ones and some between.
std::vector<long> tried_calls(long calls) {
  const long most = tries_all() ? calls : 6;
  if (calls == 0) return {};
  std::set<long> tried;
  for (long i = 0; i < most; ++i) tried.insert(most == 1 ? 0 : i * (calls - 1) / (most - 1));
  return {tried.begin(), tried.end()};
}

long count_calls(const CallKind& kind, int processes, int process) {
  const TemporaryFolder folder;
  const fs::path record = folder.path() / "record";
  const Ended ended = run_in(folder.path(), command_of(processes, process, with_failing_call({&kind}, LOCKSTEP_PROGRAM, record), steps));
  CAPTURE(ended.err);
  CHECK(ended.code == 0);
  CHECK(fingerprint_of(ended.out) == reference().short_run);
  const auto counted = counted_calls(record);
  REQUIRE(counted.has_value());
  return counted->calls;
}

void try_call(const FailingCall& call, int processes, int process, Tally& tally, std::mutex& mutex) {
  const TemporaryFolder folder;
  const fs::path record = folder.path() / "record";
  const Ended ended = run_in(folder.path(), command_of(processes, process, with_failing_call(call, LOCKSTEP_PROGRAM, record), steps));
  const auto counted = counted_calls(record);
  std::string wrong = counted ? fault_of(ended, processes) : "its calls were not counted";
  Tally own;
  if (wrong.empty()) wrong = fault_of_resume(folder.path(), own);
  const std::lock_guard lock(mutex);
  ++tally.tried;
  ++(ended.code == 0 ? tally.went_on : tally.errors);
  tally.resumed += own.resumed;
  tally.begun_again += own.begun_again;
  const std::string what = std::string(call.kind->name) + " " + std::to_string(call.nth) + " (" + std::strerror(call.error()) + ", " +
                           (counted ? counted->failed : "") + ")";
  if (!wrong.empty()) tally.wrong.push_back(what + ": " + wrong + "; code " + std::to_string(ended.code) + "\n" + ended.err);
  if (std::getenv("LOCKSTEP_SHOW_FAULTS") != nullptr) {
    std::printf("%s: code %d%s%s\n", what.c_str(), ended.code, wrong.empty() ? "" : " WRONG ", wrong.c_str());
    for (const std::string& line : own_lines(ended.err)) std::printf("    %s\n", line.c_str());
    std::fflush(stdout);
  }
}

/// Only that kind of calls, where the variable says so.
bool is_asked(const CallKind& kind) {
  const char* const only = std::getenv("LOCKSTEP_FAULT");
  return only == nullptr || kind.name == only;
}

void sweep(int processes, int process) {
  if (!no_watched_calls().empty()) return skip(no_watched_calls());
  for (const CallKind& kind : call_kinds()) {
    if (!is_asked(kind)) continue;
    Tally tally;
    tally.calls = count_calls(kind, processes, process);
    const std::vector<long> tried = tried_calls(tally.calls);
    std::mutex mutex;
    for_each_at_once(tried.size(), 2, [&](std::size_t i) { try_call({&kind, tried[i]}, processes, process, tally, mutex); });
    std::printf("%s, process %d of %d: %ld calls, %d tried, %d ended with an error, %d went on, %d resumed, %d begun again, %zu wrong\n",
                std::string(kind.name).c_str(), process, processes, tally.calls, tally.tried, tally.errors, tally.went_on,
                tally.resumed, tally.begun_again, tally.wrong.size());
    std::fflush(stdout);
    for (const std::string& wrong : tally.wrong) FAIL_CHECK(wrong);
  }
}

}  // namespace

TEST_CASE("a training of which any call of the system fails ends with a clear error or goes on") { sweep(1, 0); }

TEST_CASE("a training of two processes, in one of which any call fails, ends with a clear error or goes on") {
  if (!can_launch()) return skip(no_launcher());
  for (const int process : {0, 1}) sweep(2, process);
}

}  // namespace lockstep::tests
