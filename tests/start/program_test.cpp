// What the program costs before it does anything.

#include <algorithm>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lockstep::tests {
namespace {

struct Cost {
  double seconds;  ///< Of the processor.
  long kilobytes;  ///< Resident, at the most.
};

Cost cost_of_version() {
  const pid_t child = fork();
  if (child == 0) {
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, 1);
    execl(LOCKSTEP_PROGRAM, "lockstep", "--version", nullptr);
    _exit(127);
  }
  REQUIRE(child > 0);
  int status = 0;
  rusage usage = {};
  REQUIRE(wait4(child, &status, 0, &usage) == child);
  REQUIRE(status == 0);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return {seconds(usage.ru_utime) + seconds(usage.ru_stime), usage.ru_maxrss};
}

}  // namespace

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("the program says its version in 30 ms and 20 MB") {
  Cost best = cost_of_version();
  for (int i = 0; i < 9; ++i) {
    const Cost next = cost_of_version();
    best = {std::min(best.seconds, next.seconds), std::min(best.kilobytes, next.kilobytes)};
  }
  CHECK(best.seconds <= 0.03);
  CHECK(best.kilobytes <= 20'000);
}
#endif

}  // namespace lockstep::tests
