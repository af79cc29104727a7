#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <lockstep/export.h>

#include "engine/files/open_file.h"

namespace lockstep::data {

/// A file's bytes, mapped into memory: pages come as they are read. Throws DataError for what is no regular file or cannot
/// be opened; `who` is the reader that errors name.
class LOCKSTEP_API MappedFile {
 public:
  MappedFile(const std::filesystem::path& path, std::string who);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& name() const { return name_; }
  std::size_t size() const { return size_; }
  /// A part, which must lie inside. The file's length is asked for each time: reading what somebody cut off meanwhile
  /// would end the process, so it is a DataError.
  std::span<const std::byte> bytes(std::size_t begin, std::size_t size) const;
  std::span<const std::byte> bytes() const { return bytes(0, size_); }
  /// A part will be read in a moment: the system is told to read it ahead, once for each piece of the file, and what it has
  /// comes into the cache. Nothing where it reaches beyond the end.
  void expect(std::size_t begin, std::size_t size) const noexcept;

 private:
  std::string who_;
  std::string name_;
  int descriptor_ = -1;
  const std::byte* begin_ = nullptr;
  std::size_t size_ = 0;
  std::unique_ptr<std::atomic<bool>[]> is_read_ahead_;  ///< Of each piece.
};

/// Opens a regular file that the user has named; follows links. Throws DataError, as MappedFile does.
files::Descriptor open_data_file(const std::filesystem::path& path, const std::string& who);

/// All bytes of a file, read rather than mapped: nothing that is done to the file later matters. Throws likewise.
std::vector<std::byte> read_file(const std::filesystem::path& path, const std::string& who);

inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace lockstep::data
