#pragma once

#include <functional>

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lockstep::tests {

/// What `child` returns in a process forked here; -1 where that does not end by itself within `seconds`, or throws.
inline int forked(const std::function<int()>& child, unsigned seconds = 20) {
  const ::pid_t process = ::fork();
  if (process == 0) {
    ::alarm(seconds);
    try {
      ::_exit(child());
    } catch (...) {
      ::_exit(255);
    }
  }
  int status = 0;
  REQUIRE(::waitpid(process, &status, 0) == process);
  return WIFEXITED(status) && WEXITSTATUS(status) != 255 ? WEXITSTATUS(status) : -1;
}

}  // namespace lockstep::tests
