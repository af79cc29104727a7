// mpirun, for tests of several processes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "tests/support/skip.h"

namespace lockstep::tests {

inline std::string output_of(const std::string& command) {
  std::string text;
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::array<char, 256> line{};
  while (pipe != nullptr && std::fgets(line.data(), line.size(), pipe.get()) != nullptr) text += line.data();
  return text;
}

inline std::string mpirun(int processes) {
  return "mpirun --allow-run-as-root --oversubscribe -n " + std::to_string(processes) + " ";
}

/// Why nothing can be launched here, or an empty text. Open MPI's processes find each other through a network interface,
/// be it the loopback: where none is up it cannot start any program.
inline const std::string& no_launcher() {
  static const std::string reason = [] {
    if (std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr) return std::string("this process was launched itself");
    if (output_of("command -v mpirun").empty()) return std::string("mpirun is not on the path");
    const std::string output = output_of(mpirun(1) + "echo launched 2>&1");
    const bool is_offline = output.find("unable to find network interfaces") != std::string::npos;
    return std::string(is_offline ? "no network interface is up" : "");
  }();
  return reason;
}
inline bool can_launch() { return no_launcher().empty(); }

/// The command that runs one test case of this program, be it one that `doctest::skip` leaves out by itself.
inline std::string run_of_case(const std::string& test_case) {
  return "'" + std::filesystem::read_symlink("/proc/self/exe").string() + "' --no-skip -tc=\"" + test_case + "\"";
}

/// What `processes` of this program print, each running the test case of that name; `settings` stand before the command.
inline std::string launched(int processes, const std::string& test_case, const std::string& settings = {}) {
  return output_of(settings + mpirun(processes) + run_of_case(test_case) + " 2>&1");
}

/// How often `part` stands in `text`.
inline std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

}  // namespace lockstep::tests
