#pragma once

#include <string>
#include <string_view>

#include <sys/mman.h>
#include <unistd.h>

namespace lockstep::tests {

/// A file in memory, for readers that take a path: one a process, that each input is written to in turn.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(::memfd_create("fuzzed", MFD_CLOEXEC)) {}
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  /// The path of a file that holds these bytes, until the next ones.
  std::string holding(std::string_view bytes) const {
    if (::ftruncate(descriptor_, 0) != 0) return "";
    for (off_t at = 0; !bytes.empty();) {
      const ssize_t done = ::pwrite(descriptor_, bytes.data(), bytes.size(), at);
      if (done <= 0) return "";
      at += done;
      bytes.remove_prefix(static_cast<std::size_t>(done));
    }
    return "/proc/self/fd/" + std::to_string(descriptor_);
  }

 private:
  int descriptor_;
};

inline std::string file_in_memory(std::string_view bytes) {
  static const MemoryFile file;
  return file.holding(bytes);
}

}  // namespace lockstep::tests
