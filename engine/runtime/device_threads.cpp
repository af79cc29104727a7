#include <atomic>
#include <cfenv>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#include <lockstep/backend/device_threads.h>

#ifdef __linux__
#include <sched.h>
#endif

#include "engine/runtime/team.h"

namespace lockstep::backend {
namespace {

/// Asked once: the system reads a file for it.
int cores_of_machine() {
  static const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return cores;
}

/// That this thread may run on.
int own_cores() {
#ifdef __linux__
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
#endif
  return cores_of_machine();
}

/// A thread computes as another one does while this lives.
class FloatSettings {
 public:
  explicit FloatSettings(const std::fenv_t& of_another) {
    std::fegetenv(&before_);
    std::fesetenv(&of_another);
  }
  ~FloatSettings() { std::fesetenv(&before_); }
  FloatSettings(const FloatSettings&) = delete;
  FloatSettings& operator=(const FloatSettings&) = delete;

 private:
  std::fenv_t before_;
};

/// Parts that several threads take in order, until all are taken or one has thrown.
class Parts {
 public:
  Parts(int count, const std::function<void(int)>& part) : count_(count), part_(part), failed_(count) {}

  void take_all() noexcept {
    for (int i = 0; (i = next_.fetch_add(1, std::memory_order_relaxed)) < count_;) {
      try {
        part_(i);
      } catch (...) {
        next_.store(count_, std::memory_order_relaxed);
        const std::lock_guard lock(mutex_);
        if (i < failed_) error_ = std::current_exception();
        failed_ = std::min(i, failed_);
      }
    }
  }
  void rethrow() const {
    if (error_ != nullptr) std::rethrow_exception(error_);
  }

 private:
  const int count_;
  const std::function<void(int)>& part_;
  std::atomic<int> next_{0};
  std::mutex mutex_;
  int failed_;
  std::exception_ptr error_;
};

}  // namespace

int spare_cores(int processes) {
  const int own = own_cores();
  const int devices = runtime::widest_team();
  return own < cores_of_machine() ? own - devices : own - devices * processes;
}

void on_waiting_threads(int parts, const std::function<void(int)>& part) {
  const auto lease = parts > 1 ? runtime::TeamLease::of_idle(own_cores()) : nullptr;
  if (lease == nullptr) {
    for (int i = 0; i < parts; ++i) part(i);
    return;
  }
  Parts shared(parts, part);
  std::fenv_t settings;
  std::fegetenv(&settings);
  lease->team().run([&](int) {
    const FloatSettings callers(settings);
    shared.take_all();
  });
  shared.rethrow();
}

}  // namespace lockstep::backend
