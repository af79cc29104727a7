#include "engine/checkpoint/pace.h"

#include <chrono>
#include <cstdlib>
#include <ctime>

#include <lockstep/backend/device_threads.h>

namespace lockstep::checkpoint {
namespace {

/// Of this thread, in nanoseconds.
std::int64_t processor_time() {
  timespec time = {};
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) != 0) return 0;
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

void Pace::begin(int processes) {
  const std::lock_guard lock(mutex_);
  is_hurried_ = false;
  const bool is_core_free = backend::spare_cores(processes) > 0;
  rests_ = is_core_free ? 3 : 32;
  if (const char* given = std::getenv("PACE")) rests_ = std::atoi(given);
  taken_ = 0;
}

void Pace::rest() {
  const std::int64_t now = processor_time();
  std::unique_lock lock(mutex_);
  const std::chrono::nanoseconds pause((now - taken_) * rests_);
  hurried_.wait_for(lock, pause, [&] { return is_hurried_; });
  taken_ = processor_time();
}

void Pace::hurry() {
  const std::lock_guard lock(mutex_);
  is_hurried_ = true;
  hurried_.notify_all();
}

}  // namespace lockstep::checkpoint
