#include <array>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>

#include <unistd.h>

#include <lockstep/backend/backend.h>
#include <lockstep/processes.h>
#include <lockstep/version.h>

namespace lockstep {
namespace {

/// Each of these makes a library take other kernels or another order of additions.
constexpr std::array<const char*, 12> bit_changing = {"ATEN_CPU_CAPABILITY",
                                                      "LOCKSTEP_MAX_ISA",
                                                      "MKL_CBWR",
                                                      "MKL_DYNAMIC",
                                                      "MKL_ENABLE_INSTRUCTIONS",
                                                      "MKL_NUM_THREADS",
                                                      "OMP_DYNAMIC",
                                                      "OMP_NUM_THREADS",
                                                      "ONEDNN_CPU_ISA_HINTS",
                                                      "ONEDNN_DEFAULT_FPMATH_MODE",
                                                      "ONEDNN_EXPERIMENTAL_BNORM_STATS_ONE_PASS",
                                                      "ONEDNN_MAX_CPU_ISA"};

std::string processor_model() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

}  // namespace

std::map<std::string, std::string> machine_description() {
  std::map<std::string, std::string> entries = {
      {"lockstep", std::string(version())},
      {"random_stream_version", std::to_string(random_stream_version)},
      {"processor", processor_model()},
      {"cache_l1", std::to_string(sysconf(_SC_LEVEL1_DCACHE_SIZE))},
      {"cache_l2", std::to_string(sysconf(_SC_LEVEL2_CACHE_SIZE))},
      {"cache_l3", std::to_string(sysconf(_SC_LEVEL3_CACHE_SIZE))},
  };
  for (const auto& backend : backend::built_backends()) {
    entries["backend " + std::string(backend->name())] = backend->version();
  }
  for (const char* variable : bit_changing) {
    if (const char* value = std::getenv(variable); value != nullptr) entries[std::string("env ") + variable] = value;
  }
  return entries;
}

}  // namespace lockstep
