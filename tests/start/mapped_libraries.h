#pragma once

// Shared objects that this process has mapped.

#include <fstream>
#include <string>

namespace lockstep::tests {

/// Whether a file whose name has `part` in it is mapped.
inline bool is_mapped(const std::string& part) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(part) != std::string::npos) return true;
  }
  return false;
}

}  // namespace lockstep::tests
