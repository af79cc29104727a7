#pragma once

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
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

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

/// Runs a job to its end.
inline JobEnd end_of_job(const std::string& command) {
  JobEnd end;
  const double start = epoch_seconds();
  FILE* pipe = popen((command + " 2>&1 </dev/null").c_str(), "r");
  if (pipe == nullptr) return end;
  std::array<char, 4096> block{};
  while (std::fgets(block.data(), block.size(), pipe) != nullptr) end.output += block.data();
  const int status = pclose(pipe);
  end.succeeded = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  double fault = start;
  std::vector<int> pids;
  std::istringstream lines(end.output);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("pid ")) pids.push_back(std::stoi(line.substr(4)));
    if (line.starts_with("fault ")) fault = std::stod(line.substr(6));
  }
  end.seconds = epoch_seconds() - fault;
  for (int i = 0; i < 20; ++i) {  // a launcher kills before it ends, but does not wait for the system
    end.left_over.clear();
    for (const int pid : pids) {
      if (runs(pid)) end.left_over.push_back(pid);
    }
    if (end.left_over.empty()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  for (const int pid : end.left_over) kill(pid, SIGKILL);
  return end;
}

/// How often each job is run: LOCKSTEP_FAULT_RUNS, else 50 where many are asked for, else once.
inline int fault_runs() {
  const char* runs = std::getenv("LOCKSTEP_FAULT_RUNS");
  if (runs != nullptr) return std::atoi(runs);
  return std::getenv("LOCKSTEP_MANY_FAULTS") == nullptr ? 1 : 50;
}

}  // namespace lockstep::tests
