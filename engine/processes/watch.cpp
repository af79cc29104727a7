#include "engine/processes/watch.h"

#include <chrono>
#include <utility>

namespace lockstep::processes {

Watch::Watch(std::function<double()> look) : thread_([this, look = std::move(look)] { run(look); }) {}

void Watch::run(const std::function<double()>& look) {
  std::unique_lock lock(mutex_);
  while (!is_over_) {
    is_woken_ = false;
    lock.unlock();
    const std::chrono::duration<double> pause(look());
    lock.lock();
    changed_.wait_for(lock, pause, [this] { return is_woken_ || is_over_; });
  }
}

void Watch::wake() {
  const std::lock_guard lock(mutex_);
  is_woken_ = true;
  changed_.notify_one();
}

void Watch::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

}  // namespace lockstep::processes
