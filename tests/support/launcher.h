#pragma once

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

// mpirun, for tests of several processes.
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
inline std::string no_launcher() {
  if (output_of("command -v mpirun").empty()) return "mpirun is not on the path";
  const std::string output = output_of(mpirun(1) + "echo launched 2>&1");
  return output.find("unable to find network interfaces") == std::string::npos ? "" : "no network interface is up";
}

/// Whether this process is one of several that a test launched.
inline bool is_launched() { return std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr; }

/// What `processes` of this program print, each running the test case of that name; `settings` stand before the command.
inline std::string launched(int processes, const std::string& test_case, const std::string& settings = {}) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  return output_of(settings + mpirun(processes) + "'" + program + "' -tc=\"" + test_case + "\" 2>&1");
}

/// How often `part` stands in `text`.
inline std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

}  // namespace lockstep::tests
