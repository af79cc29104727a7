#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lockstep/checkpoint.h>
#include <lockstep/error.h>

#include "engine/files/close_locked.h"
#include "engine/files/open_file.h"

namespace lockstep::checkpoint {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& why) {
  throw CheckpointError(fmt::format("[checkpoint] {}: {}", path.string(), why));
}

std::string owner_text() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) return fmt::format("process {}", getpid());
  return fmt::format("process {} on {}", getpid(), host.data());
}

/// What stands in the file, which takes no memory.
std::array<char, 512> owner_text(int descriptor) {
  std::array<char, 512> text{};
  if (pread(descriptor, text.data(), text.size() - 1, 0) <= 0) return {"another process"};
  return text;
}

/// Whether the path still leads to that file: its last owner may have taken it away.
bool is_at(const std::filesystem::path& path, int descriptor) {
  struct stat there {};
  struct stat open {};
  return lstat(path.c_str(), &there) == 0 && fstat(descriptor, &open) == 0 && there.st_ino == open.st_ino &&
         there.st_dev == open.st_dev;
}

int open_lock_file(const std::filesystem::path& path) {
  try {
    // Whoever can open it can lock it: nobody but this user.
    return files::open_or_create(path, O_RDWR, 0600).release();
  } catch (const files::FileError& error) {
    refuse(path, "cannot be opened: " + error.why() + std::string(files::remedy_of(error.error())));
  }
}

/// The open and locked file. The system gives up the lock of a process that is gone.
int locked(const std::filesystem::path& path) {
  for (;;) {
    const int descriptor = open_lock_file(path);
    if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
      const int error = errno;
      const auto owner = owner_text(descriptor);
      close(descriptor);
      if (error != EWOULDBLOCK) refuse(path, fmt::format("cannot be locked: {}", std::strerror(error)));
      refuse(path, std::string(owner.data()) + " writes this folder; wait for its end, or name another folder");
    }
    if (is_at(path, descriptor)) return descriptor;
    close(descriptor);
  }
}

}  // namespace

WriterLock::WriterLock(const std::filesystem::path& folder)
    : path_(folder / "writer.lock"), descriptor_(locked(path_)), owner_(getpid()) {
  std::string text;
  try {
    text = owner_text();
  } catch (...) {
    close(descriptor_);
    throw;
  }
  for (int tries = 0; tries < 100; ++tries) {
    const bool written = ftruncate(descriptor_, 0) == 0 &&
                         pwrite(descriptor_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
    if (written) return;
    if (errno != EINTR) break;
  }
  const int error = errno;
  close(descriptor_);
  refuse(path_, fmt::format("cannot be written: {}{}", std::strerror(error), files::remedy_of(error)));
}

WriterLock::WriterLock(WriterLock&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)), owner_(other.owner_) {}

WriterLock& WriterLock::operator=(WriterLock&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(owner_, other.owner_);
  return *this;
}

WriterLock::~WriterLock() {
  if (descriptor_ < 0) return;
  if (owner_ == getpid()) unlink(path_.c_str());
  static_cast<void>(files::close_locked(descriptor_, owner_));  // it holds a name, nothing that could be lost
}

}  // namespace lockstep::checkpoint
