// SIGINT and SIGTERM: the first one ends a training behind its step, saved, with 128 and the signal; the second one at once.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/cli/program.h"
#include "tests/support/expect_error.h"
#include "tests/support/faulty_job.h"
#include "tests/support/launcher.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;

std::string training(const fs::path& run, int steps) {
  return LOCKSTEP_PROGRAM
         " train --data synthetic --set data.rows=128 --set data.test_rows=32 --model mlp --batch 32 --log-every 1 "
         "--checkpoint-every 100000 --steps " +
         std::to_string(steps) + " --run " + run.string();
}

/// Waits until as many steps are logged; whether they came.
bool has_logged(const fs::path& run, std::size_t steps) {
  for (int i = 0; i < 6000; ++i) {
    if (count(file_text(run / "metrics.csv"), "\n") > steps) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

/// A command in a process of its own, whose outputs go to a file.
struct Started {
  Started(const std::string& command, const fs::path& output) : process(::fork()) {
    if (process != 0) return;
    const int file = ::open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::dup2(file, STDOUT_FILENO);
    ::dup2(file, STDERR_FILENO);
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGTERM, SIG_DFL);
    ::execl("/bin/sh", "sh", "-c", ("exec " + command).c_str(), static_cast<char*>(nullptr));
    ::_exit(127);
  }
  /// Its exit code, or the signal that ended it, negative.
  int ended() const {
    int status = 0;
    ::waitpid(process, &status, 0);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  }
  pid_t process;
};

std::vector<int> processes_of(const std::string& part) {
  std::vector<int> found;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::string line = file_text(entry.path() / "cmdline");
    if (line.starts_with(std::string(LOCKSTEP_PROGRAM) + '\0') && contains(line, part))
      found.push_back(std::stoi(name));
  }
  return found;
}

/// The latest checkpoint of a run, by its name.
int saved_step(const fs::path& run) {
  int latest = -1;
  for (const fs::directory_entry& entry : fs::directory_iterator(run / "checkpoints")) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("step-")) latest = std::max(latest, std::stoi(name.substr(5)));
  }
  return latest;
}

/// The line of the output that says how to go on, from there the command.
std::string command_to_go_on(const std::string& output) {
  const std::string mark = "to go on: lockstep ";
  const std::size_t at = output.find(mark);
  if (at == std::string::npos) return {};
  return output.substr(at + mark.size(), output.find('\n', at) - at - mark.size());
}

std::string fingerprint_in(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    if (line.starts_with("fingerprint ")) return line;
  }
  return "none";
}

}  // namespace

TEST_CASE("a first signal saves the step that is under way, and the run goes on to the same bits") {
  const TemporaryFolder folder;
  for (const auto& [signal, name] : {std::pair{SIGINT, "SIGINT"}, {SIGTERM, "SIGTERM"}}) {
    CAPTURE(name);
    const fs::path run = folder.path() / name, output = folder.path() / "output";
    const Started started(training(run, 1000000), output);
    REQUIRE(has_logged(run, 5));
    ::kill(started.process, signal);
    CHECK(started.ended() == 128 + signal);
    const std::string text = file_text(output);
    CAPTURE(text);
    const int step = saved_step(run);
    CHECK(step >= 5);
    CHECK(contains(text, std::string(name) + " stopped the run after step " + std::to_string(step) +
                             ", which is saved in " + (run / "checkpoints" / "step-").string()));
    CHECK_FALSE(fs::exists(run / "result.json"));
    CHECK_FALSE(fs::exists(run / "writer.lock"));
    const std::string all_steps = " --steps " + std::to_string(step + 3);
    const Outcome resumed = run_program(command_to_go_on(text) + all_steps);
    REQUIRE(resumed.code == 0);
    const Outcome whole = run_shell(training(folder.path() / (std::string(name) + "-whole"), step + 3));
    CHECK(fingerprint_in(resumed.out) == fingerprint_in(whole.out));
    CHECK(file_text(run / "metrics.csv") == file_text(folder.path() / (std::string(name) + "-whole") / "metrics.csv"));
  }
}

TEST_CASE("a second signal ends a training at once") {
  const TemporaryFolder folder;
  const fs::path run = folder.path() / "run";
  const Started started(training(run, 1000000), folder.path() / "output");
  REQUIRE(has_logged(run, 2));
  ::kill(started.process, SIGSTOP);  // both are there before it goes on
  ::kill(started.process, SIGTERM);
  ::kill(started.process, SIGINT);
  ::kill(started.process, SIGCONT);
  const int code = started.ended();
  CHECK((code == -SIGINT || code == -SIGTERM));
  CHECK_FALSE(contains(file_text(folder.path() / "output"), "to go on:"));
}

TEST_CASE("a signal that the program was started to ignore stays ignored") {
  const TemporaryFolder folder;
  const fs::path run = folder.path() / "run";
  const Started started("sh -c \"trap '' INT; exec " + training(run, 60) + "\"", folder.path() / "output");
  REQUIRE(has_logged(run, 1));
  ::kill(started.process, SIGINT);
  CHECK(started.ended() == 0);
}

TEST_CASE("a signal to one of several processes stops all of them behind one step, which is saved") {
  if (!can_launch()) return skip(no_launcher());
  const TemporaryFolder folder;
  for (const int processes : {2, 4}) {
    CAPTURE(processes);
    const fs::path run = folder.path() / std::to_string(processes), output = folder.path() / "output";
    const std::string shards = " --devices 1 --shards 4";
    const Started started(mpirun(processes) + training(run, 1000000) + shards, output);
    REQUIRE(has_logged(run, 5));
    const std::vector<int> ranks = processes_of(run.string());
    REQUIRE(ranks.size() == static_cast<std::size_t>(processes));
    ::kill(ranks.back(), SIGTERM);
    CHECK(started.ended() == 128 + SIGTERM);
    const std::string text = file_text(output);
    CAPTURE(text);
    CHECK(count(text, "SIGTERM stopped the run after step") == 1);
    const int step = saved_step(run);
    CHECK(step >= 5);
    CHECK(count(file_text(run / "metrics.csv"), "\n") == static_cast<std::size_t>(step) + 1);
    const Outcome resumed = run_program(command_to_go_on(text) + " --steps " + std::to_string(step + 2));
    CHECK(resumed.code == 0);
    const fs::path whole = folder.path() / ("whole-" + std::to_string(processes));
    CHECK(fingerprint_in(resumed.out) == fingerprint_in(run_shell(training(whole, step + 2) + shards).out));
  }
}

}  // namespace lockstep::tests
