#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace lockstep::backend::jit {

/// Tells profilers and people of machine code that has no file. An empty path: that is not done.
class CodeRecord {
 public:
  /// `map`: a line "<address> <bytes> lockstep:<label>" is appended for each code, numbers in hexadecimal, as `perf report`
  /// reads it. `folder`: each code is written to a file of its own, <number>-<label>.bin, and the folder made.
  CodeRecord(std::filesystem::path map, std::filesystem::path folder);
  /// What LOCKSTEP_PERF_MAP (/tmp/perf-<process>.map, where perf looks for it; 0 or unset: none) and LOCKSTEP_DUMP_CODE (a
  /// folder) say.
  static CodeRecord of_environment();

  /// Throws BackendError where a file cannot be written.
  void add(std::span<const std::byte> code, std::string_view label);

 private:
  std::filesystem::path map_, folder_;
  int number_ = 0;
};

}  // namespace lockstep::backend::jit
