#include "tests/checkpoint/faulty_disk.h"

#include <atomic>
#include <cerrno>

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

// Defined in the program itself, so that its own calls come here instead of to the C library.

namespace lockstep::tests {
namespace {

std::atomic<int> which{-1};
std::atomic<int> left{0};
std::atomic<int> error_number{0};
std::atomic<bool> failed{false};

bool fails(FaultyDisk::Call call) {
  if (which != static_cast<int>(call) || left-- != 0) return false;
  failed = true;
  errno = error_number;
  return true;
}

}  // namespace

FaultyDisk::FaultyDisk(Call call, int nth, int error) {
  left = nth;
  error_number = error;
  failed = false;
  which = static_cast<int>(call);
}
FaultyDisk::~FaultyDisk() { which = -1; }
bool FaultyDisk::has_failed() { return failed; }

}  // namespace lockstep::tests

extern "C" int fsync(int descriptor) {
  using lockstep::tests::FaultyDisk;
  if (lockstep::tests::fails(FaultyDisk::Call::fsync)) return -1;
  return static_cast<int>(syscall(SYS_fsync, descriptor));
}

extern "C" int rename(const char* from, const char* to) noexcept {
  using lockstep::tests::FaultyDisk;
  if (lockstep::tests::fails(FaultyDisk::Call::rename)) return -1;
  return static_cast<int>(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}
