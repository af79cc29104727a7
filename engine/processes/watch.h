#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace lockstep::processes {

/// A thread that looks at something now and then, beside what the program does.
class Watch {
 public:
  /// `look` says in how many seconds to look again; it throws nothing. Throws std::system_error where there is no thread.
  explicit Watch(std::function<double()> look);
  ~Watch() { stop(); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// Looks now.
  void wake();
  /// Looks no more.
  void stop();

 private:
  void run(const std::function<double()>& look);

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_woken_ = false;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace lockstep::processes
