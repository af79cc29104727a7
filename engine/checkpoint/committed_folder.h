#pragma once

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

 private:
  std::filesystem::path target_;
  std::filesystem::path temporary_;
};

/// Writes a file, or replaces it, whole or not at all. Throws CheckpointError naming file and system error.
void replace_file(const std::filesystem::path& target, std::span<const std::byte> bytes);

/// A regular file's bytes. Throws CheckpointError naming file and system error.
std::vector<std::byte> read_file(const std::filesystem::path& path);

}  // namespace lockstep::checkpoint
