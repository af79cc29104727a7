#include "engine/checkpoint/pace.h"

#include <chrono>
#include <ctime>

namespace lockstep::checkpoint {
namespace {

/// Of this thread, in nanoseconds.
std::int64_t processor_time() {
  timespec time = {};
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) != 0) return 0;
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// A cnn of 3 ms a step that saves 3.4 MB again and again, on devices that take all cores, then loses about 2 %; a sixteenth
// of a core writes about 60 MB a second.
constexpr int rests = 16;

}  // namespace

void Pace::begin() {
  const std::lock_guard lock(mutex_);
  is_hurried_ = false;
  taken_ = 0;
}

void Pace::rest() {
  const std::int64_t now = processor_time();
  std::unique_lock lock(mutex_);
  const std::chrono::nanoseconds pause((now - taken_) * rests);
  hurried_.wait_for(lock, pause, [&] { return is_hurried_; });
  taken_ = processor_time();
}

void Pace::hurry() {
  const std::lock_guard lock(mutex_);
  is_hurried_ = true;
  hurried_.notify_all();
}

}  // namespace lockstep::checkpoint
