#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <lockstep/export.h>

#include "engine/files/open_file.h"

namespace lockstep::checkpoint {

class Pace;

/// What a folder's name must be before it is written.
enum class Target : std::uint8_t { free, taken };

/// A folder that appears whole or not at all: files are written and synced into a temporary folder beside it, which
/// `commit` syncs, renames and makes durable in its parent. Without commit it vanishes. While it lives it is locked, so
/// that a folder which a killed process has left is told from one that is being written.
class CommittedFolder {
 public:
  /// Makes parents, and removes what killed saves of this target have left. Of one that is taken, `commit` puts the new
  /// folder in the old one's place. Throws CheckpointError where `target` exists, or does not where it should, or its parent
  /// cannot be made or written.
  explicit CommittedFolder(std::filesystem::path target, Target is = Target::free);
  ~CommittedFolder();
  CommittedFolder(const CommittedFolder&) = delete;
  CommittedFolder& operator=(const CommittedFolder&) = delete;

  void write(const std::string& name, std::span<const std::byte> bytes);
  void commit();
  /// Where files stand until then.
  const std::filesystem::path& temporary() const { return temporary_; }

 private:
  std::filesystem::path target_;
  Target is_;
  std::filesystem::path temporary_;
  int lock_ = -1;
};

/// Throws CheckpointError where a link, a FIFO, a device or a socket is there.
void refuse_foreign(const std::filesystem::path& path);

/// What is in a folder; nothing where there is none. Throws CheckpointError where it cannot be read.
std::vector<std::string> names_in(const std::filesystem::path& folder);

/// Makes a folder and its parents, each durable in its own. Throws CheckpointError naming folder and system error.
void make_folder(const std::filesystem::path& folder);

/// Removes folders and files that killed processes have left in `folder` on the way to a target whose name begins so:
/// ".step-12.a1b2c3" of "step-". What somebody still writes stays.
void remove_remains(const std::filesystem::path& folder, const std::string& beginning);

/// Gives folders in `folder` whose name begins so their names again where a process was killed while it replaced them in a
/// file system that cannot exchange two names. Throws CheckpointError naming folder and system error.
void restore_replaced(const std::filesystem::path& folder, const std::string& beginning);

/// Removes a folder so that no half of it is ever seen under its name.
void remove_folder(const std::filesystem::path& target);

/// A new file that is written piece by piece, with a rest behind each where there is a pace. Throws CheckpointError naming
/// file and system error.
class NewFile {
 public:
  explicit NewFile(std::filesystem::path path, Pace* pace = nullptr);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(std::span<const std::byte> bytes);
  /// Syncs and closes it.
  void finish();

 private:
  std::filesystem::path path_;
  Pace* pace_;
  files::Descriptor file_;
};

/// Writes a new file and syncs it. Throws CheckpointError naming file and system error.
void write_file(const std::filesystem::path& path, std::span<const std::byte> bytes);

/// Writes a file, or replaces it, whole or not at all. Throws CheckpointError naming file and system error.
LOCKSTEP_API void replace_file(const std::filesystem::path& target, std::span<const std::byte> bytes);

/// A regular file's bytes; a link is followed where it says so. Throws CheckpointError naming file and system error.
std::vector<std::byte> read_file(const std::filesystem::path& path, files::Links links = files::Links::refused);
/// The same as text; no link.
std::string read_text(const std::filesystem::path& path);
/// `count` of its bytes from `offset` on. Throws CheckpointError where it has not so many.
std::vector<std::byte> read_file(const std::filesystem::path& path, std::uint64_t offset, std::uint64_t count);

}  // namespace lockstep::checkpoint
