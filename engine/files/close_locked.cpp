#include "engine/files/close_locked.h"

#include <cerrno>

#include <sys/file.h>
#include <unistd.h>

namespace lockstep::files {

int close_locked(int descriptor, int owner) {
  if (owner == ::getpid()) static_cast<void>(::flock(descriptor, LOCK_UN));
  return ::close(descriptor) == 0 ? 0 : errno;
}

}  // namespace lockstep::files
