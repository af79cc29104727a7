#include "memory.h"

#include <fstream>
#include <string>

namespace lockstep::benches {

namespace {

double status(const std::string& field) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(field)) return std::stod(line.substr(field.size())) / 1024;
  }
  return 0;
}

}  // namespace

double resident_mib() { return status("VmRSS:"); }
double peak_resident_mib() { return status("VmHWM:"); }

}  // namespace lockstep::benches
