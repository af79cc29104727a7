// Trainings of which one call of the system fails, each in turn: every one ends with a clear error or goes on, and what it
// leaves goes on to the bits of a training to which nothing happened.
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <sstream>
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

/// Runs a command in a folder.
Ended run_in(const fs::path& folder, const std::string& command) {
  const std::string place = "cd " + folder.string() + " && export TMPDIR=" + folder.string();
  const JobEnd end = end_of_job(place + " && { " + command + " >stdout 2>stderr; echo code $?; }");
  Ended ended;
  ended.hung = end.hung;
  ended.left_over = end.left_over;
  ended.out = file_text(folder / "stdout");
  ended.err = file_text(folder / "stderr");
  const std::size_t at = end.output.rfind("code ");
  if (at != std::string::npos) ended.code = std::stoi(end.output.substr(at + 5));
  return ended;
}

/// What is trained when a call fails.
struct Scenario {
  std::string name;
  std::string flags = "--steps 4";
  std::string before = {};  ///< The flags of a training that has made the run's folder; empty: none has.
  int processes = 1;
  int process = 0;  ///< The one whose call fails.
  bool lasts = false;
};

const std::string training =
    "train --data synthetic --set data.rows=96 --set data.test_rows=32 --model mlp --set model.units=16 "
    "--set model.layers=1 --batch 16 --devices 1 --shards 4 --log-every 1 --checkpoint-every 2 --collective-timeout 20 "
    "--run run ";
const std::string more_steps = "--resume --steps 6";

std::string fingerprint_of(const std::string& out) {
  const std::size_t at = out.rfind("fingerprint ");
  return at == std::string::npos ? std::string() : out.substr(at, out.find('\n', at) - at);
}

std::string command_of(const Scenario& scenario, const std::string& fault) {
  const std::string program = LOCKSTEP_PROGRAM " " + training + scenario.flags;
  if (scenario.processes == 1) return fault + program;
  std::string command = "mpirun --allow-run-as-root --oversubscribe";
  for (int p = 0; p < scenario.processes; ++p) {
    command += (p == 0 ? " -n 1 " : " : -n 1 ") + std::string("sh -c 'echo; echo pid $$; exec \"$0\" \"$@\"' ") +
               (p == scenario.process ? fault : "") + program;
  }
  return command;
}

Ended run_well(const fs::path& folder, const std::string& flags) {
  return run_in(folder, LOCKSTEP_PROGRAM " " + training + flags);
}

/// What trainings come to to which nothing happens.
struct Reference {
  std::string of_four_steps, of_six_steps;
};
const Reference& reference() {
  static const Reference made = [] {
    const TemporaryFolder folder;
    const Ended first = run_well(folder.path(), "--steps 4");
    const Ended second = run_well(folder.path(), more_steps);
    REQUIRE(first.code == 0);
    REQUIRE(second.code == 0);
    return Reference{fingerprint_of(first.out), fingerprint_of(second.out)};
  }();
  return made;
}

/// Makes what a scenario begins with.
void prepare(const Scenario& scenario, const fs::path& folder) {
  if (scenario.before.empty()) return;
  static const TemporaryFolder made;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (!fs::exists(made.path() / "run")) REQUIRE(run_well(made.path(), scenario.before).code == 0);
  fs::copy(made.path() / "run", folder / "run", fs::copy_options::recursive);
}

/// What became of the trainings of which a call of one kind failed.
struct Tally {
  long calls = 0;
  int tried = 0, errors = 0, went_on = 0, resumed = 0, begun_again = 0, hangs = 0;
  std::vector<std::string> wrong;
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::vector<std::string> lines_of_program(const std::string& text) {
  std::vector<std::string> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("lockstep: ")) found.push_back(line);
  }
  return found;
}

/// What is wrong with a training's end; empty: nothing.
std::string wrong_with_end(const Ended& ended, const CallKind& kind, const Scenario& scenario) {
  if (ended.hung) return "it hung";
  if (!ended.left_over.empty()) return "a process is left";
  if (ended.code == 0) return fingerprint_of(ended.out) == reference().of_four_steps ? "" : "other bits, and code 0";
  if (ended.code >= 126 || ended.code < 0) return "it ended by a signal";
  if (ended.err.empty() && scenario.lasts && kind.name == "write") return "";  // neither is that
  if (lines_of_program(ended.err).empty()) return "no error is printed";
  if (scenario.processes == 1 && std::ranges::count(ended.err, '\n') != 1) return "it prints more than one line";
  for (const char* const part : {"std::", "what()", "terminate called", "basic_string", "no known kind"}) {
    if (has(ended.err, part)) return std::string("it says ") + part;
  }
  return "";
}

/// What is wrong with the files of a run of six steps; empty: nothing.
std::string wrong_with_files(const fs::path& run) {
  std::string steps;
  std::istringstream lines(file_text(run / "metrics.csv"));
  for (std::string line; std::getline(lines, line);) steps += line.substr(line.rfind(',') + 1) + " ";
  if (steps != "step 1 2 3 4 5 6 ") return "metrics.csv has the steps " + steps;
  for (const auto& entry : fs::recursive_directory_iterator(run)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(".") || name == "writer.lock") return "this stays: " + entry.path().string();
  }
  return "";
}

/// Goes on with what a training has left, to six steps. What is wrong with it; empty: nothing.
std::string wrong_with_rest(const fs::path& folder, Tally& tally) {
  const bool has_checkpoint =
      fs::exists(folder / "run/checkpoints/step-2") || fs::exists(folder / "run/checkpoints/step-4");
  Ended ended = run_well(folder, more_steps);
  // Of a system that lets nobody read what its processor is.
  if (has(ended.err, "'processor' was 'unknown'")) ended = run_well(folder, more_steps + " --accept-change processor");
  if (ended.code == 0) {
    ++tally.resumed;
  } else {
    if (has_checkpoint) return "a checkpoint is there, and is not resumed: " + ended.err;
    if (!has(ended.err, "holds no checkpoint to resume")) return "it cannot be resumed: " + ended.err;
    if (fs::exists(folder / "run") && !fs::is_empty(folder / "run"))
      return "it began a run that cannot go on: " + ended.err;
    fs::remove(folder / "run");
    ended = run_well(folder, "--steps 6");
    ++tally.begun_again;
  }
  if (fingerprint_of(ended.out) != reference().of_six_steps) return "it is resumed to other bits: " + ended.err;
  return wrong_with_files(folder / "run");
}

long count_calls(const CallKind& kind, const Scenario& scenario) {
  const TemporaryFolder folder;
  prepare(scenario, folder.path());
  const fs::path record = folder.path() / "record";
  const Ended ended = run_in(
      folder.path(), command_of(scenario, with_failing_call({.kind = &kind, .nth = -1}, LOCKSTEP_PROGRAM, record)));
  CAPTURE(ended.err);
  CHECK(ended.code == 0);
  CHECK(fingerprint_of(ended.out) == reference().of_four_steps);
  const auto counted = counted_calls(record);
  REQUIRE(counted.has_value());
  return counted->calls;
}

void try_call(const FailingCall& call, const Scenario& scenario, Tally& tally, std::mutex& mutex) {
  const TemporaryFolder folder;
  prepare(scenario, folder.path());
  const fs::path record = folder.path() / "record";
  const Ended ended = run_in(folder.path(), command_of(scenario, with_failing_call(call, LOCKSTEP_PROGRAM, record)));
  const auto counted = counted_calls(record);
  Tally own;
  std::string wrong = wrong_with_end(ended, *call.kind, scenario);
  if (wrong.empty()) wrong = counted ? wrong_with_rest(folder.path(), own) : "its calls were not counted";
  const std::string what = std::string(call.kind->name) + " " + std::to_string(call.nth) + " of " + scenario.name +
                           " (" + std::strerror(call.error) + ", " + (counted ? counted->failed : "") + ")";
  const std::lock_guard lock(mutex);
  ++tally.tried;
  ++(ended.code == 0 ? tally.went_on : tally.errors);
  tally.hangs += static_cast<int>(ended.hung);
  tally.resumed += own.resumed;
  tally.begun_again += own.begun_again;
  if (!wrong.empty()) tally.wrong.push_back(what + ": " + wrong + "\n" + ended.err);
  if (std::getenv("LOCKSTEP_SHOW_FAULTS") == nullptr) return;
  std::printf("%s: code %d%s%s\n", what.c_str(), ended.code, wrong.empty() ? "" : " WRONG ", wrong.c_str());
  for (const std::string& line : lines_of_program(ended.err)) std::printf("    %s\n", line.c_str());
  std::fflush(stdout);
}

/// All calls with each error, or the first ones, the last ones and some between with one.
std::vector<FailingCall> tried_calls(const CallKind& kind, long calls, const Scenario& scenario) {
  if (calls == 0) return {};
  const long most = tries_all() ? calls : 5;
  std::set<long> numbers;
  for (long i = 0; i < most; ++i) numbers.insert(i * (calls - 1) / std::max(most - 1, 1L));
  std::vector<FailingCall> tried;
  for (const long nth : numbers) {
    const std::size_t first = scenario.lasts ? 0 : tried.size();
    const std::size_t errors = tries_all() && scenario.processes == 1 && !scenario.lasts ? kind.errors.size() : 1;
    for (std::size_t e = 0; e < errors; ++e) {
      tried.push_back({&kind, nth, kind.errors[(first + e) % kind.errors.size()], scenario.lasts});
    }
  }
  return tried;
}

/// Only that kind of calls, where the variable says so.
bool is_asked(const CallKind& kind) {
  const char* const only = std::getenv("LOCKSTEP_FAULT");
  return only == nullptr || kind.name == only;
}

void sweep(const Scenario& scenario) {
  if (!no_watched_calls().empty()) return skip(no_watched_calls());
  Tally all;
  for (const CallKind& kind : call_kinds()) {
    if (!is_asked(kind)) continue;
    Tally tally;
    tally.calls = count_calls(kind, scenario);
    const std::vector<FailingCall> tried = tried_calls(kind, tally.calls, scenario);
    std::mutex mutex;
    constexpr std::size_t at_a_time = 2;
    for_each_at_once(tried.size(), at_a_time, [&](std::size_t i) { try_call(tried[i], scenario, tally, mutex); });
    std::printf(
        "%s, %s: %ld calls, %d failures tried: %d ended with an error, %d went on, %d hung; %d resumed, %d begun "
        "again; %zu wrong\n",
        scenario.name.c_str(), std::string(kind.name).c_str(), tally.calls, tally.tried, tally.errors, tally.went_on,
        tally.hangs, tally.resumed, tally.begun_again, tally.wrong.size());
    std::fflush(stdout);
    for (const std::string& wrong : tally.wrong) FAIL_CHECK(wrong);
  }
}

}  // namespace

TEST_CASE("failing_call" * doctest::skip()) { become_failing_program(); }

TEST_CASE("a training of which any call of the system fails ends with a clear error or goes on") {
  sweep({.name = "a training"});
}

TEST_CASE("a resumed training of which any call of the system fails leaves all that was there") {
  sweep({.name = "a resumed training",
         .flags = "--steps 4 --resume --keep-last 1 --tensorboard --trace-bits",
         .before = "--steps 2"});
}

TEST_CASE("a training of which all calls of the system fail from any one on ends with a clear error") {
  sweep({.name = "a training, from then on", .lasts = true});
}

TEST_CASE("a training of two processes, in one of which any call of the system fails, ends in both or goes on") {
  if (!can_launch()) return skip(no_launcher());
  for (const int process : {0, 1}) {
    sweep({.name = "process " + std::to_string(process) + " of two", .processes = 2, .process = process});
  }
}

}  // namespace lockstep::tests
