// How much more work twice as much takes, in something that other programs on the machine do not change.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace lockstep::tests {

/// What this thread does: instructions where the processor counts them, else nanoseconds of its own processor time.
class WorkCounter {
 public:
  WorkCounter() {
    perf_event_attr attributes;
    std::memset(&attributes, 0, sizeof attributes);
    attributes.size = sizeof attributes;
    attributes.type = PERF_TYPE_HARDWARE;
    attributes.config = PERF_COUNT_HW_INSTRUCTIONS;
    attributes.exclude_kernel = 1;
    instructions_ = static_cast<int>(syscall(SYS_perf_event_open, &attributes, 0, -1, -1, 0));
  }
  ~WorkCounter() {
    if (instructions_ >= 0) close(instructions_);
  }
  WorkCounter(const WorkCounter&) = delete;
  WorkCounter& operator=(const WorkCounter&) = delete;

  double done() const {
    std::int64_t count = 0;
    if (instructions_ >= 0 && read(instructions_, &count, sizeof count) == sizeof count)
      return static_cast<double>(count);
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return 1e9 * static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec);
  }
  bool counts_instructions() const { return instructions_ >= 0; }

 private:
  int instructions_ = -1;
};

/// The work of `run(2 * n)` by that of `run(n)`, each the least of a few runs in turn: 2 where it is linear, 4 where it is
/// quadratic. `run(n)` gives a function that is measured. Processor time also grows where other programs use the caches, so
/// it is taken again while the ratio is high.
inline double work_ratio(const std::function<std::function<void()>(int)>& run, int n) {
  const WorkCounter counter;
  const int times = counter.counts_instructions() ? 2 : 5, most = counter.counts_instructions() ? 2 : 25;
  constexpr double surely_linear = 2.4;
  const std::function<void()> once = run(n), twice = run(2 * n);
  double least = std::numeric_limits<double>::max(), least_twice = least;
  const auto measured = [&](const std::function<void()>& work, double& smallest) {
    const double before = counter.done();
    work();
    smallest = std::min(smallest, counter.done() - before);
  };
  for (int i = 0; i < times || (i < most && least_twice > surely_linear * least); ++i) {
    measured(once, least);
    measured(twice, least_twice);
  }
  return least_twice / least;
}

}  // namespace lockstep::tests
