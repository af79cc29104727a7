#include "engine/files/close_locked.h"

#include <sys/file.h>
#include <unistd.h>

namespace lockstep::files {

void close_locked(int descriptor, int owner) {
  if (owner == ::getpid()) static_cast<void>(::flock(descriptor, LOCK_UN));
  ::close(descriptor);
}

}  // namespace lockstep::files
