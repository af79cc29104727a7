#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace lockstep::checkpoint {

/// How much of a core a save beside the training takes: behind each part it rests so many times as long as the part took
/// processor time. One long burst would keep a device waiting, and all others wait for that one.
class Pace {
 public:
  /// For a save that a new thread will make.
  void begin();
  /// Behind a part.
  void rest();
  /// Somebody waits: no rest from now on, and an end to the one that lasts. On any thread.
  void hurry();

 private:
  std::mutex mutex_;
  std::condition_variable hurried_;
  bool is_hurried_ = false;
  int rests_ = 0;           ///< As long as the work, each.
  std::int64_t taken_ = 0;  ///< Nanoseconds of processor time of the thread, when it last rested.
};

}  // namespace lockstep::checkpoint
