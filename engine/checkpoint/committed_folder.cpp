#include "engine/checkpoint/committed_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lockstep/error.h>

#include "engine/checkpoint/pace.h"
#include "engine/files/folder_entries.h"
#include "engine/files/open_file.h"

namespace lockstep::checkpoint {
namespace {

[[noreturn]] void fail_to_commit(const std::filesystem::path& path, const std::string& doing) {
  const int error = errno;
  throw CheckpointError("[checkpoint] " + path.string() + " cannot be " + doing + ": " + std::strerror(error) +
                        std::string(files::remedy_of(error)));
}

void sync_folder(const std::filesystem::path& folder) {
  const files::Descriptor descriptor(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!descriptor.is_open()) fail_to_commit(folder, "opened");
  if (fsync(descriptor.get()) != 0) fail_to_commit(folder, "synced");
}

std::filesystem::path parent_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

// Of what is on its way out, and of what comes back unless another stands in its place by then.
constexpr const char* removed = "remove";
constexpr const char* replaced = "before";

/// Hides it under a name that the next save takes away; that name.
std::filesystem::path moved_aside(const std::filesystem::path& target, const char* suffix, const std::string& doing) {
  std::filesystem::path hidden = files::hidden_beside(target, suffix);
  files::remove_if_left(hidden);
  if (rename(target.c_str(), hidden.c_str()) != 0) fail_to_commit(target, doing);
  return hidden;
}

/// Gives each the other's name, at once where the file system can.
void exchange_folders(const std::filesystem::path& one, const std::filesystem::path& other) {
#ifdef RENAME_EXCHANGE
  if (renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE) == 0) return;
  if (errno != EINVAL && errno != ENOSYS) fail_to_commit(other, "replaced");
#endif
  const std::filesystem::path aside = moved_aside(other, replaced, "replaced");
  if (rename(one.c_str(), other.c_str()) != 0) {
    const int error = errno;
    static_cast<void>(rename(aside.c_str(), other.c_str()));
    errno = error;
    fail_to_commit(other, "replaced");
  }
  if (rename(aside.c_str(), one.c_str()) != 0) fail_to_commit(aside, "renamed");
}

}  // namespace

void refuse_foreign(const std::filesystem::path& path) {
  const std::string_view kind = files::foreign_kind(path);
  if (kind.empty()) return;
  throw CheckpointError("[checkpoint] " + path.string() + " is " + std::string(kind) +
                        "; expected a folder of its own, take it away, or name another one");
}

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  return files::with_error<CheckpointError>("checkpoint", [&] { return files::names_in(folder); });
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  if (folder.empty() || std::filesystem::is_directory(folder, error)) return;
  make_folder(folder.parent_path());
  if (mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) fail_to_commit(folder, "made");
  if (!std::filesystem::is_directory(folder, error)) {
    if (error) throw CheckpointError("[checkpoint] " + folder.string() + " cannot be examined: " + error.message());
    throw CheckpointError("[checkpoint] " + folder.string() + " is no folder; name another one");
  }
  sync_folder(parent_of(folder));
}

void remove_remains(const std::filesystem::path& folder, const std::string& beginning) {
  files::remove_hidden(folder, beginning, false);
}

void restore_replaced(const std::filesystem::path& folder, const std::string& beginning) {
  const std::string suffix = std::string(".") + replaced;
  for (const std::string& name : names_in(folder)) {
    if (!files::is_hidden_name(name, beginning, false) || !name.ends_with(suffix)) continue;
    const std::filesystem::path target = folder / name.substr(1, name.size() - 1 - suffix.size());
    std::error_code ignored;
    if (std::filesystem::exists(target, ignored)) continue;
    if (rename((folder / name).c_str(), target.c_str()) != 0) fail_to_commit(target, "restored");
  }
}

void remove_folder(const std::filesystem::path& target) {
  const std::filesystem::path hidden = moved_aside(target, removed, "removed");
  if (const int error = files::remove_tree(hidden); error != 0) {
    throw CheckpointError("[checkpoint] " + hidden.string() + " cannot be removed: " + std::strerror(error));
  }
}

CommittedFolder::CommittedFolder(std::filesystem::path target, Target is) : target_(std::move(target)), is_(is) {
  refuse_foreign(target_);
  std::error_code ignored;
  if (std::filesystem::exists(target_, ignored) != (is == Target::taken)) {
    throw CheckpointError("[checkpoint] " + target_.string() +
                          (is == Target::free ? " exists already; save under another name"
                                              : " is not there to be replaced; save it first"));
  }
  make_folder(parent_of(target_));
  files::remove_hidden(parent_of(target_), target_.filename().string(), true);
  std::string pattern = files::hidden_beside(target_).string();
  if (mkdtemp(pattern.data()) == nullptr) fail_to_commit(pattern, "made");
  temporary_ = std::move(pattern);
  lock_ = open(temporary_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ >= 0) static_cast<void>(flock(lock_, LOCK_EX | LOCK_NB));  // a disk without locks does without
}

CommittedFolder::~CommittedFolder() {
  try {
    if (!temporary_.empty()) static_cast<void>(files::remove_tree(temporary_));
  } catch (const std::bad_alloc&) {  // the next save takes it away
  }
  if (lock_ >= 0) close(lock_);
}

void CommittedFolder::write(const std::string& name, std::span<const std::byte> bytes) {
  write_file(temporary_ / name, bytes);
}

void CommittedFolder::commit() {
  if (chmod(temporary_.c_str(), 0755) != 0) fail_to_commit(temporary_, "made readable");
  sync_folder(temporary_);
  if (is_ == Target::taken) {
    exchange_folders(temporary_, target_);  // what is temporary from here on goes with this
    sync_folder(parent_of(target_));
    return;
  }
  if (rename(temporary_.c_str(), target_.c_str()) != 0) fail_to_commit(target_, "put in place");
  const std::filesystem::path temporary = std::exchange(temporary_, {});
  try {
    sync_folder(parent_of(target_));
  } catch (...) {  // what is not durable is not there: it may be saved again
    if (rename(target_.c_str(), temporary.c_str()) == 0) temporary_ = temporary;
    throw;
  }
}

NewFile::NewFile(std::filesystem::path path, Pace* pace)
    : path_(std::move(path)),
      pace_(pace),
      file_(files::with_error<CheckpointError>("checkpoint", [&] { return files::create_file(path_); })) {}

NewFile::~NewFile() = default;

void NewFile::write(std::span<const std::byte> bytes) {
  files::with_error<CheckpointError>("checkpoint", [&] { files::write_all(file_, path_, bytes); });
  if (pace_ != nullptr) pace_->rest();
}

void NewFile::finish() {
  if (fsync(file_.get()) != 0) fail_to_commit(path_, "synced");
  if (close(file_.release()) != 0) fail_to_commit(path_, "closed");
  if (pace_ != nullptr) pace_->rest();
}

void write_file(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  NewFile file(path);
  file.write(bytes);
  file.finish();
}

void replace_file(const std::filesystem::path& target, std::span<const std::byte> bytes) {
  files::with_error<CheckpointError>("checkpoint", [&] { files::replace_file(target, bytes, true); });
}

namespace {

/// A regular file to read; another one is named, and what it is.
files::Descriptor opened(const std::filesystem::path& path, files::Links links) {
  return files::with_error<CheckpointError>("checkpoint", [&] { return files::open_to_read(path, links); });
}

std::uint64_t size_of_file(const files::Descriptor& descriptor, const std::filesystem::path& path) {
  struct stat status {};
  if (fstat(descriptor.get(), &status) != 0) fail_to_commit(path, "examined");
  return static_cast<std::uint64_t>(status.st_size);
}

std::vector<std::byte> read_from(const files::Descriptor& descriptor, const std::filesystem::path& path,
                                 std::uint64_t offset, std::uint64_t count) {
  std::vector<std::byte> bytes;
  try {
    bytes.resize(static_cast<std::size_t>(count));
  } catch (const std::exception&) {
    throw CheckpointError("[checkpoint] " + path.string() + ": there is no memory for its " + std::to_string(count) +
                          " bytes; expected a file that memory holds");
  }
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t got =
        ::pread(descriptor.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_to_commit(path, "read");
    if (got == 0) throw CheckpointError("[checkpoint] " + path.string() + " became shorter while it was read");
    done += static_cast<std::size_t>(got);
  }
  return bytes;
}

}  // namespace

std::vector<std::byte> read_file(const std::filesystem::path& path, files::Links links) {
  const files::Descriptor descriptor = opened(path, links);
  return read_from(descriptor, path, 0, size_of_file(descriptor, path));
}

std::vector<std::byte> read_file(const std::filesystem::path& path, std::uint64_t offset, std::uint64_t count) {
  const files::Descriptor descriptor = opened(path, files::Links::refused);
  const std::uint64_t size = size_of_file(descriptor, path);
  if (offset > size || count > size - offset) {
    throw CheckpointError("[checkpoint] " + path.string() + " has " + std::to_string(size) + " bytes; expected " +
                          std::to_string(count) + " from byte " + std::to_string(offset) + " on");
  }
  return read_from(descriptor, path, offset, count);
}

std::string read_text(const std::filesystem::path& path) {
  const std::vector<std::byte> bytes = read_file(path);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace lockstep::checkpoint
