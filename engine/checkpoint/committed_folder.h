#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace lockstep::checkpoint {

/// A folder that appears whole or not at all: files are written and synced into a temporary folder beside it, which
/// `commit` syncs, renames and makes durable in its parent. Without commit it vanishes.
class CommittedFolder {
 public:
  /// Throws CheckpointError where `target` exists or its parent cannot be written.
  explicit CommittedFolder(std::filesystem::path target);
  ~CommittedFolder();
  CommittedFolder(const CommittedFolder&) = delete;
  CommittedFolder& operator=(const CommittedFolder&) = delete;

  void write(const std::string& name, std::span<const std::byte> bytes);
  void commit();
  /// Where files stand until then.
  const std::filesystem::path& temporary() const { return temporary_; }

 private:
  std::filesystem::path target_;
  std::filesystem::path temporary_;
};

/// Writes a new file and syncs it. Throws CheckpointError naming file and system error.
void write_file(const std::filesystem::path& path, std::span<const std::byte> bytes);

/// Writes a file, or replaces it, whole or not at all. Throws CheckpointError naming file and system error.
void replace_file(const std::filesystem::path& target, std::span<const std::byte> bytes);

/// A regular file's bytes. Throws CheckpointError naming file and system error.
std::vector<std::byte> read_file(const std::filesystem::path& path);
/// `count` of its bytes from `offset` on. Throws CheckpointError where it has not so many.
std::vector<std::byte> read_file(const std::filesystem::path& path, std::uint64_t offset, std::uint64_t count);

}  // namespace lockstep::checkpoint
