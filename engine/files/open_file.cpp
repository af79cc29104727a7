// Opening and replacing files by the system's calls that take a folder's descriptor and a name in it.
#include "engine/files/open_file.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/files/folder_entries.h"

namespace lockstep::files {
namespace {

[[noreturn]] void fail_for_errno(const std::filesystem::path& path, const std::string& doing, int error) {
  throw FileError(path, doing, std::strerror(error), error);
}

[[noreturn]] void fail_for_kind(const std::filesystem::path& path, const std::string& doing, std::string_view kind) {
  throw FileError(
      path, doing,
      "it is " + std::string(kind) + ", no regular file; take it away, or put the file itself in its place");
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

/// Of what may stand in a folder for a regular file; a folder is told by the system's own error.
std::string_view foreign_kind_of(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFLNK:
      return "a symbolic link";
    case S_IFIFO:
      return "a FIFO";
    case S_IFCHR:
    case S_IFBLK:
      return "a device";
    case S_IFSOCK:
      return "a socket";
    default:
      return "";
  }
}

/// The folder of a path, held open for what is done to names in it.
Descriptor hold_folder(const std::filesystem::path& path, const std::string& doing) {
  Descriptor folder(::open(folder_of(path).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder.is_open()) fail_for_errno(path, doing, errno);
  return folder;
}

/// A name in a folder that is held open.
struct Place {
  const Descriptor& folder;
  std::string name;
  const std::filesystem::path& path;
};

/// Whether something is there; throws where that is foreign.
bool is_there(const Place& place, Links links, const std::string& doing) {
  struct stat status {};
  const int flags = links == Links::followed ? 0 : AT_SYMLINK_NOFOLLOW;
  if (::fstatat(place.folder.get(), place.name.c_str(), &status, flags) != 0) {
    if (errno == ENOENT) return false;
    fail_for_errno(place.path, doing, errno);
  }
  const std::string_view kind = foreign_kind_of(status.st_mode);
  if (!kind.empty()) fail_for_kind(place.path, doing, kind);
  return true;
}

/// Opens what is there, or makes it where the flags say so, and looks at it again: it may be another one by now.
Descriptor open_at(const Place& place, int flags, Links links, const std::string& doing, mode_t mode = 0644) {
  const int no_link = links == Links::followed ? 0 : O_NOFOLLOW;
  Descriptor file(
      ::openat(place.folder.get(), place.name.c_str(), flags | no_link | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, mode));
  if (!file.is_open()) fail_for_errno(place.path, doing, errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail_for_errno(place.path, "examined", errno);
  if (S_ISDIR(status.st_mode)) fail_for_kind(place.path, doing, "a folder");
  if (!S_ISREG(status.st_mode)) fail_for_kind(place.path, doing, foreign_kind_of(status.st_mode));
  if ((flags & O_ACCMODE) != O_RDONLY && status.st_nlink > 1) {
    throw FileError(place.path, doing,
                    "it has " + std::to_string(status.st_nlink) +
                        " names (hard links), of which each would change; take it away, or put a copy in its place");
  }
  return file;
}

constexpr std::size_t suffix_size = 6;

/// Letters and digits that nobody can tell before, for a file of this folder.
std::string unforeseen_suffix(const std::filesystem::path& folder) {
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  std::array<unsigned char, suffix_size> drawn{};
  for (std::size_t done = 0; done < drawn.size();) {
    const ssize_t got = ::getrandom(drawn.data() + done, drawn.size() - done, 0);
    if (got < 0 && errno != EINTR) fail_for_errno(folder, "given a new file", errno);
    if (got > 0) done += static_cast<std::size_t>(got);
  }
  std::string suffix;
  for (const unsigned char byte : drawn) suffix += letters[byte % letters.size()];
  return suffix;
}

}  // namespace

std::string_view remedy_of(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "; free the disk";
    case EMFILE:
    case ENFILE:
      return "; raise the limit of open files (ulimit -n)";
    case EACCES:
    case EPERM:
      return "; let this user do that";
    case EROFS:
      return "; name a place that may be written";
    case EIO:
      return "; the disk or its file system fails, look at it";
    default:
      return "";
  }
}

FileError::FileError(std::filesystem::path file, std::string doing, std::string why, int error)
    : Error(file.string() + " cannot be " + doing + ": " + why + std::string(remedy_of(error))),
      path_(std::move(file)),
      doing_(std::move(doing)),
      why_(std::move(why)),
      error_(error) {}
FileError::~FileError() = default;

Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

std::string_view foreign_kind(const std::filesystem::path& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 ? foreign_kind_of(status.st_mode) : std::string_view();
}

namespace {

std::optional<std::pair<std::filesystem::path, std::string_view>> foreign_entry_within(
    const std::filesystem::path& folder, int levels) {
  std::vector<std::string> names = names_in(folder);
  std::ranges::sort(names);
  for (const std::string& name : names) {
    const std::filesystem::path path = folder / name;
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0) {
      if (errno == ENOENT) continue;
      fail_for_errno(path, "examined", errno);
    }
    if (const std::string_view kind = foreign_kind_of(status.st_mode); !kind.empty()) return std::pair(path, kind);
    if (levels == 0 || !S_ISDIR(status.st_mode)) continue;
    if (auto found = foreign_entry_within(path, levels - 1)) return found;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::pair<std::filesystem::path, std::string_view>> foreign_entry(const std::filesystem::path& folder) {
  constexpr int levels = 4;  // a run's files lie no deeper
  return foreign_entry_within(folder, levels);
}

Descriptor open_to_read(const std::filesystem::path& path, Links links) {
  const Descriptor folder = hold_folder(path, "opened");
  const Place place{folder, path.filename().string(), path};
  if (!is_there(place, links, "opened")) fail_for_errno(path, "opened", ENOENT);
  return open_at(place, O_RDONLY, links, "opened");
}

Descriptor create_file(const std::filesystem::path& path, int more) {
  const Descriptor folder = hold_folder(path, "opened");
  const Place place{folder, path.filename().string(), path};
  static_cast<void>(is_there(place, Links::refused, "opened"));
  return open_at(place, O_WRONLY | O_CREAT | O_EXCL | more, Links::refused, "opened");
}

std::pair<Descriptor, std::filesystem::path> create_unforeseen(const std::filesystem::path& folder,
                                                               const std::string& beginning, const std::string& end) {
  constexpr int tries = 100;
  for (int i = 0;; ++i) {
    const std::filesystem::path path = folder / (beginning + unforeseen_suffix(folder) + end);
    const Descriptor held = hold_folder(path, "opened");
    const Place place{held, path.filename().string(), path};
    try {
      return {open_at(place, O_WRONLY | O_CREAT | O_EXCL, Links::refused, "opened", 0600), path};
    } catch (const FileError& error) {
      if (error.error() != EEXIST || i == tries) throw;
    }
  }
}

Descriptor open_or_create(const std::filesystem::path& path, int access, unsigned mode) {
  const Descriptor folder = hold_folder(path, "opened");
  const Place place{folder, path.filename().string(), path};
  constexpr int tries = 100;
  for (int i = 0;; ++i) {
    const bool there = is_there(place, Links::refused, "opened");
    try {
      return open_at(place, there ? access : access | O_CREAT | O_EXCL, Links::refused, "opened", mode);
    } catch (const FileError& error) {  // it came, or went, in between
      if (error.error() != (there ? ENOENT : EEXIST) || i == tries) throw;
    }
  }
}

std::string read_all(const Descriptor& file, const std::filesystem::path& path) {
  struct stat status {};
  std::string text;
  if (::fstat(file.get(), &status) == 0 && status.st_size > 0) {
    try {
      text.reserve(static_cast<std::size_t>(status.st_size));
    } catch (const std::exception&) {
      fail_for_errno(path, "read", ENOMEM);
    }
  }
  std::array<char, std::size_t{1} << 14> part{};
  for (;;) {
    const ssize_t got = ::read(file.get(), part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_for_errno(path, "read", errno);
    if (got == 0) return text;
    text.append(part.data(), static_cast<std::size_t>(got));
  }
}

std::string read_text(const std::filesystem::path& path, Links links) {
  return read_all(open_to_read(path, links), path);
}

void write_all(const Descriptor& file, const std::filesystem::path& path, std::span<const std::byte> bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t wrote = ::write(file.get(), bytes.data() + done, bytes.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) fail_for_errno(path, "written", errno);
    done += static_cast<std::size_t>(wrote);
  }
}

std::filesystem::path hidden_beside(const std::filesystem::path& target, const std::string& suffix) {
  return folder_of(target) / ("." + target.filename().string() + "." + suffix);
}

bool is_hidden_name(const std::string& name, const std::string& target, bool whole) {
  if (name.size() < target.size() + suffix_size + 2 || !name.starts_with("." + target)) return false;
  const std::size_t dot = name.size() - suffix_size - 1;
  const bool ends_so = name[dot] == '.' && std::all_of(name.begin() + static_cast<std::ptrdiff_t>(dot) + 1, name.end(),
                                                       [](unsigned char c) { return std::isalnum(c) != 0; });
  return ends_so && (!whole || dot == target.size() + 1);
}

void remove_if_left(const std::filesystem::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.is_open() && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0) static_cast<void>(remove_tree(path));
}

void remove_hidden(const std::filesystem::path& folder, const std::string& target, bool whole) {
  std::error_code ignored;  // another time, then
  for (const std::string& name : names_in(folder, ignored)) {
    if (is_hidden_name(name, target, whole)) remove_if_left(folder / name);
  }
}

Replacement::Replacement(std::filesystem::path target) : target_(std::move(target)) {
  folder_ = hold_folder(target_, "written");
  struct stat status {};
  if (::fstatat(folder_.get(), target_.filename().c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) {
    mode_ = status.st_mode & 0777;
  }
  refuse_foreign();
  remove_hidden(folder_of(target_), target_.filename().string(), true);
  constexpr int tries = 100;
  for (int i = 0; !file_.is_open(); ++i) {
    hidden_ = "." + target_.filename().string() + "." + unforeseen_suffix(folder_of(target_));
    const std::filesystem::path path = folder_of(target_) / hidden_;
    try {
      file_ =
          open_at({folder_, hidden_, path}, O_WRONLY | O_CREAT | O_EXCL, Links::refused, "made", mode_.value_or(0666));
    } catch (const FileError& error) {
      if (error.error() != EEXIST || i == tries) throw;
    }
  }
  static_cast<void>(::flock(file_.get(), LOCK_EX | LOCK_NB));  // a disk without locks does without
}

Replacement::~Replacement() {
  if (!hidden_.empty()) ::unlinkat(folder_.get(), hidden_.c_str(), 0);
}

void Replacement::refuse_foreign() const {
  struct stat status {};
  if (::fstatat(folder_.get(), target_.filename().c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return;
  if (S_ISDIR(status.st_mode)) fail_for_errno(target_, "written", EISDIR);
  if (!S_ISREG(status.st_mode)) fail_for_kind(target_, "replaced", foreign_kind_of(status.st_mode));
}

void Replacement::write(std::span<const std::byte> bytes) { write_all(file_, target_, bytes); }

void Replacement::commit(bool synced) {
  if (mode_ && ::fchmod(file_.get(), *mode_) != 0) fail_for_errno(target_, "made readable", errno);
  if (synced && ::fsync(file_.get()) != 0) fail_for_errno(target_, "synced", errno);
  if (::close(file_.release()) != 0) fail_for_errno(target_, "closed", errno);
  refuse_foreign();
  const std::string name = target_.filename().string();
  if (::renameat(folder_.get(), hidden_.c_str(), folder_.get(), name.c_str()) != 0) {
    fail_for_errno(target_, "put in place", errno);
  }
  hidden_.clear();
  if (!synced) return;
  const Descriptor folder(::open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.is_open()) fail_for_errno(folder_of(target_), "opened", errno);
  if (::fsync(folder.get()) != 0) fail_for_errno(folder_of(target_), "synced", errno);
}

void replace_file(const std::filesystem::path& target, std::span<const std::byte> bytes, bool synced) {
  Replacement file(target);
  file.write(bytes);
  file.commit(synced);
}

void replace_text(const std::filesystem::path& target, std::string_view text) {
  replace_file(target, std::as_bytes(std::span(text)));
}

}  // namespace lockstep::files
