#pragma once

#include <cstddef>
#include <fstream>

#include <unistd.h>

namespace lockstep::tests {

/// Of this process.
inline std::size_t resident_bytes() {
  std::size_t size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}
inline std::size_t address_bytes() {
  std::size_t size = 0;
  std::ifstream("/proc/self/statm") >> size;
  return size * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace lockstep::tests
