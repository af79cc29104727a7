#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace lockstep::data {

/// A file read from the front, inflated if it is gzip. Throws DataError naming the file for everything that fails.
class GzipFile {
 public:
  explicit GzipFile(std::filesystem::path path);
  ~GzipFile();
  GzipFile(const GzipFile&) = delete;
  GzipFile& operator=(const GzipFile&) = delete;

  const std::string& name() const { return name_; }
  /// An upper bound of the plain length: the file's own, or what deflate can at most make of it.
  std::uint64_t longest() const { return longest_; }
  /// Bytes read, fewer than asked for only at the end.
  std::size_t read(std::span<std::byte> bytes);

 private:
  struct Handle;
  std::string name_;
  std::uint64_t longest_ = 0;
  std::unique_ptr<Handle> handle_;
};

}  // namespace lockstep::data
