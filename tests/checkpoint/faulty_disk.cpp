#include "tests/checkpoint/faulty_disk.h"

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <utility>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// Defined in the program itself, so that its own calls come here instead of to the C library.

namespace lockstep::tests {
namespace {

std::atomic<int> which{-1};
std::atomic<int> left{0};
std::atomic<int> error_number{0};
std::atomic<bool> failed{false};
std::atomic<bool> stays{false};
std::function<void()> before_fsync;

bool fails(FaultyDisk::Call call) {
  if (which != static_cast<int>(call)) return false;
  const int now = left--;
  if (now > 0 || (now < 0 && !(stays && failed))) return false;
  failed = true;
  errno = error_number;
  return true;
}

bool is_written_file(int descriptor) {
  struct stat status {};
  return fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) &&
         (fcntl(descriptor, F_GETFL) & O_ACCMODE) != O_RDONLY;
}

}  // namespace

FaultyDisk::FaultyDisk(Call call, int nth, int error, Lasts lasts) {
  stays = lasts == Lasts::from_then_on;
  left = nth;
  error_number = error;
  failed = false;
  which = static_cast<int>(call);
}
FaultyDisk::~FaultyDisk() { which = -1; }
bool FaultyDisk::has_failed() { return failed; }

BeforeFsync::BeforeFsync(std::function<void()> before) { before_fsync = std::move(before); }
BeforeFsync::~BeforeFsync() { before_fsync = nullptr; }

}  // namespace lockstep::tests

using lockstep::tests::fails;
using lockstep::tests::FaultyDisk;

extern "C" int fsync(int descriptor) {
  if (lockstep::tests::before_fsync) lockstep::tests::before_fsync();
  if (fails(FaultyDisk::Call::fsync)) return -1;
  return static_cast<int>(syscall(SYS_fsync, descriptor));
}

extern "C" int rename(const char* from, const char* to) noexcept {
  if (fails(FaultyDisk::Call::rename)) return -1;
  return static_cast<int>(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

extern "C" int renameat(int folder, const char* from, int other, const char* to) noexcept {
  if (fails(FaultyDisk::Call::rename)) return -1;
  return static_cast<int>(syscall(SYS_renameat2, folder, from, other, to, 0));
}

extern "C" int renameat2(int folder, const char* from, int other, const char* to, unsigned flags) noexcept {
  if (fails(FaultyDisk::Call::exchange)) return -1;
  return static_cast<int>(syscall(SYS_renameat2, folder, from, other, to, flags));
}

extern "C" int openat(int folder, const char* path, int flags, ...) {
  mode_t mode = 0;
  if ((flags & O_CREAT) != 0) {
    va_list more;
    va_start(more, flags);
    mode = va_arg(more, mode_t);
    va_end(more);
    if (fails(FaultyDisk::Call::open)) return -1;
  }
  return static_cast<int>(syscall(SYS_openat, folder, path, flags, mode));
}

extern "C" int open(const char* path, int flags, ...) {
  mode_t mode = 0;
  if ((flags & O_CREAT) != 0) {
    va_list more;
    va_start(more, flags);
    mode = va_arg(more, mode_t);
    va_end(more);
  }
  return openat(AT_FDCWD, path, flags, mode);
}

extern "C" ssize_t write(int descriptor, const void* bytes, std::size_t count) {
  if (lockstep::tests::which == static_cast<int>(FaultyDisk::Call::write) &&
      lockstep::tests::is_written_file(descriptor) && fails(FaultyDisk::Call::write)) {
    return -1;
  }
  return syscall(SYS_write, descriptor, bytes, count);
}

extern "C" int close(int descriptor) {
  const bool is_faulty = lockstep::tests::which == static_cast<int>(FaultyDisk::Call::close) &&
                         lockstep::tests::is_written_file(descriptor) && fails(FaultyDisk::Call::close);
  const int error = errno;
  const int status = static_cast<int>(syscall(SYS_close, descriptor));
  if (!is_faulty) return status;
  errno = error;
  return -1;  // the descriptor is gone all the same
}

extern "C" char* mkdtemp(char* pattern) noexcept {
  if (fails(FaultyDisk::Call::mkdtemp)) return nullptr;
  static const auto real = reinterpret_cast<char* (*)(char*)>(dlsym(RTLD_NEXT, "mkdtemp"));
  return real(pattern);
}
