#pragma once

#include <array>
#include <cstdio>
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

}  // namespace lockstep::tests
