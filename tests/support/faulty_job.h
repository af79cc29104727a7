#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/at_once.h"
#include "tests/support/launcher.h"

// Jobs of several processes that go wrong: whether they end, how, when, and what they leave.
namespace lockstep::tests {

inline double epoch_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// What a process of such a job prints when it starts, and when what goes wrong begins.
inline void announce_process() {
  std::printf("\npid %d\n", static_cast<int>(getpid()));
  std::fflush(stdout);
}
inline void announce_fault() {
  std::printf("\nfault %.3f\n", epoch_seconds());
  std::fflush(stdout);
}

struct JobEnd {
  bool succeeded = false;
  bool hung = false;   ///< It did not end by itself.
  double seconds = 0;  ///< From the fault, where one was announced, else from the start.
  std::string output;
  std::vector<int> left_over;  ///< Processes that still run.
};

/// Whether a process is there, and more than an entry that nobody has asked for yet.
inline bool runs(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t name_end = text.rfind(')');
  return name_end != std::string::npos && name_end + 2 < text.size() && text[name_end + 2] != 'Z';
}

/// After so many seconds a job is taken for one that would not end, and is ended.
constexpr double longest_job = 120;

/// A command of the shell in a group of processes of its own, and the end of the pipe that it writes to.
struct StartedJob {
  pid_t group = -1;
  int output = -1;
};

inline StartedJob start_job(const std::string& command) {
  std::array<int, 2> pipe_ends{};
  if (pipe2(pipe_ends.data(), O_CLOEXEC) != 0) return {};  // else jobs of other threads would hold it open
  const std::string line = command + " 2>&1 </dev/null";
  const pid_t child = fork();
  if (child == 0) {
    setpgid(0, 0);
    dup2(pipe_ends[1], STDOUT_FILENO);
    execl("/bin/sh", "sh", "-c", line.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  close(pipe_ends[1]);
  return {child, pipe_ends[0]};
}

/// Reads what a job writes until it has ended, or until it has run for too long.
inline bool read_to_the_end(const StartedJob& job, double deadline, std::string& output) {
  std::array<char, 4096> block{};
  for (;;) {
    const double left = deadline - epoch_seconds();
    pollfd waiting{job.output, POLLIN, 0};
    if (left <= 0 || poll(&waiting, 1, static_cast<int>(left * 1000) + 1) == 0) return false;
    const ssize_t bytes = read(job.output, block.data(), block.size());
    if (bytes <= 0) return true;
    output.append(block.data(), static_cast<std::size_t>(bytes));
  }
}

/// Those of these processes that still run. A launcher kills before it ends, but does not wait for the system.
inline std::vector<int> still_running(const std::vector<int>& pids) {
  std::vector<int> found;
  for (int i = 0; i < 20; ++i) {
    found.clear();
    for (const int pid : pids) {
      if (runs(pid)) found.push_back(pid);
    }
    if (found.empty()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return found;
}

/// Runs a job to its end.
inline JobEnd end_of_job(const std::string& command) {
  JobEnd end;
  const double start = epoch_seconds();
  const StartedJob job = start_job(command);
  if (job.group < 0) return end;
  end.hung = !read_to_the_end(job, start + longest_job, end.output);
  if (end.hung) kill(-job.group, SIGKILL);
  close(job.output);
  int status = 0;
  waitpid(job.group, &status, 0);
  end.succeeded = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  double fault = start;
  std::vector<int> pids;
  std::istringstream lines(end.output);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("pid ")) pids.push_back(std::stoi(line.substr(4)));
    if (line.starts_with("fault ")) fault = std::stod(line.substr(6));
  }
  end.seconds = epoch_seconds() - fault;
  end.left_over = still_running(pids);
  for (const int pid : end.left_over) kill(pid, SIGKILL);
  return end;
}

/// Runs several jobs to their ends, a few at a time: they wait more than they compute.
inline std::vector<JobEnd> ends_of_jobs(const std::vector<std::string>& commands, std::size_t at_a_time = 3) {
  std::vector<JobEnd> ends(commands.size());
  for_each_at_once(commands.size(), at_a_time, [&](std::size_t i) { ends[i] = end_of_job(commands[i]); });
  return ends;
}

/// What became of the runs of one fault, which all are to end in time and not well; a line of it is printed at the end.
class FaultTally {
 public:
  FaultTally(std::string fault, int processes) : fault_(std::move(fault)), processes_(processes) {}
  FaultTally(const FaultTally&) = delete;
  FaultTally& operator=(const FaultTally&) = delete;
  ~FaultTally() {
    std::printf(
        "fault '%s', %d processes: %d runs, %d hangs, %d silent successes, %d with a process left, %d with other "
        "words, "
        "slowest end %.1f s\n",
        fault_.c_str(), processes_, runs_, hangs_, silent_, left_, other_words_, slowest_);
    std::fflush(stdout);
  }
  /// Whether the job ended as it should: within `seconds` of the fault, not well, without a process left, with these
  /// words.
  bool add(const JobEnd& end, double seconds, const std::vector<std::string>& words) {
    const bool is_late = end.hung || end.seconds >= seconds;
    bool are_there = true;
    for (const std::string& part : words) are_there = are_there && end.output.find(part) != std::string::npos;
    ++runs_;
    hangs_ += static_cast<int>(is_late);
    silent_ += static_cast<int>(end.succeeded);
    left_ += static_cast<int>(!end.left_over.empty());
    other_words_ += static_cast<int>(!are_there);
    slowest_ = std::max(slowest_, end.seconds);
    return !is_late && !end.succeeded && end.left_over.empty() && are_there;
  }

 private:
  std::string fault_;
  int processes_;
  int runs_ = 0, hangs_ = 0, silent_ = 0, left_ = 0, other_words_ = 0;
  double slowest_ = 0;
};

/// How often each job is run: LOCKSTEP_FAULT_RUNS, else 50 where many are asked for, else once.
inline int fault_runs() {
  const char* runs = std::getenv("LOCKSTEP_FAULT_RUNS");
  if (runs != nullptr) return std::atoi(runs);
  return std::getenv("LOCKSTEP_MANY_FAULTS") == nullptr ? 1 : 50;
}

}  // namespace lockstep::tests
