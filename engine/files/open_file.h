// The one place where files are opened, for reading and for writing: below a folder that is held open, never through a link
// that lies in it, and regular files only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <lockstep/error.h>
#include <lockstep/export.h>

namespace lockstep::files {

/// What to do about an error of the system, behind its text: "; free the disk". Empty where that hangs on what was done.
std::string_view remedy_of(int error);

/// A file that could not be opened, read or written. Whoever knows what the file is for makes an error of its own kind of it.
class LOCKSTEP_API FileError : public Error {
 public:
  FileError(std::filesystem::path file, std::string doing, std::string why, int error = 0);
  ~FileError() override;

  const std::filesystem::path& path() const { return path_; }
  /// "opened", "written": it could not be that.
  const std::string& doing() const { return doing_; }
  /// The system's reason, or that the file is a link, a FIFO, a device or a socket.
  const std::string& why() const { return why_; }
  /// The system's error; 0 where the file's kind is the reason.
  int error() const { return error_; }

 private:
  std::filesystem::path path_;
  std::string doing_;
  std::string why_;
  int error_;
};

/// What `work` returns; a FileError becomes an E whose text begins with `who`, which may be empty: "[save] <path> cannot
/// be written: <why>".
template <class E, class Work>
auto with_error(std::string_view who, const Work& work) {
  try {
    return work();
  } catch (const FileError& error) {
    throw E((who.empty() ? std::string() : "[" + std::string(who) + "] ") + error.what());
  }
}

/// An open file of the system, closed at the end.
class LOCKSTEP_API Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  bool is_open() const { return number_ >= 0; }
  int get() const { return number_; }
  int release() { return std::exchange(number_, -1); }

 private:
  int number_ = -1;
};

/// Whether the last part of a path that is read may be a link: one that the user has written may, names in a folder that
/// comes from elsewhere may not.
enum class Links : std::uint8_t { refused, followed };

/// What a path is where it is neither a regular file nor a folder: "a symbolic link", "a FIFO", "a device", "a socket"; ""
/// elsewhere, and where nothing is there. Follows no link.
LOCKSTEP_API std::string_view foreign_kind(const std::filesystem::path& path);
/// The first of a folder's entries, and of those of the folders in it, that is foreign. Throws FileError.
std::optional<std::pair<std::filesystem::path, std::string_view>> foreign_entry(const std::filesystem::path& folder);

/// A regular file. Opening waits for nobody: of what is none, not even a FIFO is opened. Throws FileError.
LOCKSTEP_API Descriptor open_to_read(const std::filesystem::path& path, Links links = Links::refused);
/// Makes a file, which nothing may stand in place of; `more`: O_APPEND. Throws FileError.
Descriptor create_file(const std::filesystem::path& path, int more = 0);
/// Makes a file with a name of its own, that nobody knows before: `beginning`, six letters and digits, `end`; only this user
/// reads it. Throws FileError.
std::pair<Descriptor, std::filesystem::path> create_unforeseen(const std::filesystem::path& folder,
                                                               const std::string& beginning, const std::string& end);
/// A regular file as it is, which has no other name, or a new one; `access`: O_WRONLY or O_RDWR, and O_APPEND; `mode`: who may
/// read and write a new one. Throws FileError.
Descriptor open_or_create(const std::filesystem::path& path, int access, unsigned mode = 0644);

/// All that is in a file. Throws FileError.
std::string read_all(const Descriptor& file, const std::filesystem::path& path);
LOCKSTEP_API std::string read_text(const std::filesystem::path& path, Links links = Links::refused);
/// Throws FileError.
void write_all(const Descriptor& file, const std::filesystem::path& path, std::span<const std::byte> bytes);

/// A file's new content: it is written under a hidden name in the file's folder, which is held open, and takes the file's
/// place whole or not at all. Only a regular file is replaced.
class LOCKSTEP_API Replacement {
 public:
  /// Takes away what killed replacements of this file have left. Throws FileError.
  explicit Replacement(std::filesystem::path target);
  ~Replacement();
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;

  /// Throws FileError.
  void write(std::span<const std::byte> bytes);
  /// Without it all is as it was. Durable where it is `synced`. Throws FileError.
  void commit(bool synced = false);

 private:
  void refuse_foreign() const;

  std::filesystem::path target_;
  Descriptor folder_;
  std::string hidden_;            ///< Its name in the folder until then.
  std::optional<unsigned> mode_;  ///< Who may read and write the one that it replaces.
  Descriptor file_;
};

/// Writes a file, or replaces it. Throws FileError.
LOCKSTEP_API void replace_file(const std::filesystem::path& target, std::span<const std::byte> bytes,
                               bool synced = false);
LOCKSTEP_API void replace_text(const std::filesystem::path& target, std::string_view text);

/// A hidden name in the same folder; XXXXXX makes it a pattern for mkdtemp.
std::filesystem::path hidden_beside(const std::filesystem::path& target, const std::string& suffix = "XXXXXX");
/// Takes away hidden names that killed processes have left, of targets whose name begins, or is (where `whole`), so. What
/// somebody has locked stays. Throws std::bad_alloc.
void remove_hidden(const std::filesystem::path& folder, const std::string& target, bool whole);
/// Whether that is a hidden name of a target whose own begins, or is (where `whole`), so.
bool is_hidden_name(const std::string& name, const std::string& target, bool whole);
/// Takes away what nobody has locked.
void remove_if_left(const std::filesystem::path& path);

}  // namespace lockstep::files
