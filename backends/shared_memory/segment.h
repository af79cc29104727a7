#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <lockstep/backend/communicator.h>

#include "backends/shared_memory/meeting.h"
#include "backends/shared_memory/stream.h"

namespace lockstep::backend::shared_memory {

/// A part of a file, mapped.
class Mapping {
 public:
  Mapping() = default;
  /// Throws CommunicatorError.
  Mapping(const File& file, std::uint64_t offset, std::size_t bytes);
  ~Mapping();
  Mapping(Mapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

/// The memory of a job: rings from each process to each other one, and every process's windows, which take what is used
/// of them. It is a file without a name, gone with the last process that has it.
class Segment {
 public:
  /// Process 0 makes it. Not open where this system has none so large.
  static File make(const Job& job);
  Segment(File file, int processes);

  Ring ring(Channel channel, int from, int to) const;
  /// The first bytes of a window. Where they are more than ever they are mapped once more: what was given stays.
  std::span<std::byte> window(int process, int number, std::size_t bytes);

 private:
  File file_;
  int processes_;
  Mapping rings_;
  std::vector<std::vector<Mapping>> windows_;  ///< By process and number; each larger than those before.
};

}  // namespace lockstep::backend::shared_memory
