#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <thread>

namespace lockstep::processes {

/// How a process waits for others: it asks again and again while an answer is near, then sleeps between two questions for
/// an eighth of the time it has slept so far, at most a millisecond: that adds little to a wait, and takes little of a
/// processor. Near is what one process of a step may be behind the others: who sleeps gives the core away, and where
/// others run on it meanwhile, the caches too (steps of a small network took 2 to 7 percent longer with a tenth of it,
/// with 2, 4 and 8 processes on two cores).
class Waiting {
 public:
  explicit Waiting(double seconds)
      : end_(Clock::now() + std::chrono::duration_cast<Clock::duration>(Seconds(seconds))) {}

  bool is_over() const { return Clock::now() >= end_; }
  /// Something has come, and so many bytes are on their way: what moves them may be these questions.
  void progressed(std::size_t bytes) {
    const Seconds moving(static_cast<double>(bytes) / slowest_bytes_per_second);
    awake_until_ = Clock::now() + near + std::chrono::duration_cast<Clock::duration>(moving);
  }
  void pause() const {
    const auto now = Clock::now();
    if (now < awake_until_) return std::this_thread::yield();
    std::this_thread::sleep_for(std::clamp<Clock::duration>((now - awake_until_) / 8, shortest, longest));
  }

 private:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;
  static constexpr std::chrono::microseconds near{2000};
  static constexpr std::chrono::microseconds shortest{20};
  static constexpr std::chrono::microseconds longest{1000};
  static constexpr double slowest_bytes_per_second = 2.5e8;

  Clock::time_point end_;
  Clock::time_point awake_until_ = Clock::now() + near;
};

}  // namespace lockstep::processes
