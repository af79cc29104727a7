#include <cerrno>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include <unistd.h>

#include <lockstep/backend/backend.h>
#include <lockstep/processes.h>
#include <lockstep/version.h>

#include "engine/api/processes/library_variables.h"
#include "engine/files/open_file.h"

namespace lockstep {
namespace {

/// What the system says of its processors; empty where it does not. Throws FileError where it would, and reading fails: a
/// run would be of an unknown processor ever after.
std::string described_processors() {
  try {
    return files::read_text("/proc/cpuinfo");
  } catch (const files::FileError& error) {
    if (error.error() == ENOENT || error.error() == EACCES || error.error() == EPERM) return "";
    throw;
  }
}

/// "AMD EPYC, family 26, model 2, stepping 1": two generations may have one name and other bits. Of the first processor.
std::string processor_model() {
  std::map<std::string, std::string> fields;
  std::istringstream cpuinfo(described_processors());
  for (std::string line; std::getline(cpuinfo, line) && !line.empty();) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string name = line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1);
    fields.emplace(name, colon + 2 <= line.size() ? line.substr(colon + 2) : "");
  }
  if (!fields.contains("model name")) return "unknown";
  std::string text = fields["model name"];
  for (const auto& [field, word] : {std::pair{"cpu family", "family"}, {"model", "model"}, {"stepping", "stepping"}}) {
    if (fields.contains(field)) text += std::string(", ") + word + " " + fields[field];
  }
  return text;
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
    const std::string version = backend->version();
    if (!version.empty()) entries["backend " + std::string(backend->name())] = version;
  }
  for (const std::string_view variable : bit_changing_variables()) {
    const std::string name(variable);
    if (const char* value = std::getenv(name.c_str()); value != nullptr) entries["env " + name] = value;
  }
  return entries;
}

}  // namespace lockstep
