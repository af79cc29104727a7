#include <atomic>
#include <cfenv>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#include <lockstep/backend/device_threads.h>

#ifdef __linux__
#include <sched.h>
#endif

#include "engine/executable/shares.h"
#include "engine/runtime/run.h"
#include "engine/runtime/team.h"

namespace lockstep::backend {
namespace {

/// Asked once: the system reads a file for it.
int cores_of_machine() {
  static const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return cores;
}

/// That this thread may run on.
int bound_cores() {
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

/// Parts that several threads make. Where one throws, those below it are made all the same.
class Parts {
 public:
  Parts(int count, int devices, const std::function<void(int)>& part)
      : count_(count), devices_(devices), part_(part), shares_(devices), failed_(count) {
    for (int d = 0; d < devices; ++d) shares_.deal(d, static_cast<std::uint32_t>(first_of(d + 1) - first_of(d)));
  }

  void make(int device) noexcept {
    for (std::int64_t i = 0; (i = shares_.take_first(device)) >= 0;) make_one(device, i);
    for (int other = 0; other < devices_; ++other) {
      for (std::int64_t i = 0; (i = shares_.take_last(other)) >= 0;) make_one(other, i);
    }
  }
  void rethrow() const {
    if (error_ != nullptr) std::rethrow_exception(error_);
  }

 private:
  int first_of(int device) const { return static_cast<int>(static_cast<std::int64_t>(count_) * device / devices_); }
  void make_one(int device, std::int64_t item) noexcept {
    const int i = first_of(device) + static_cast<int>(item);
    if (i > failed_.load(std::memory_order_relaxed)) return;
    try {
      part_(i);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (i < failed_.load(std::memory_order_relaxed)) {
        error_ = std::current_exception();
        failed_.store(i, std::memory_order_relaxed);
      }
    }
  }

  const int count_;
  const int devices_;
  const std::function<void(int)>& part_;
  executable::Shares shares_;
  std::mutex mutex_;
  std::atomic<int> failed_;  ///< The lowest part that has thrown.
  std::exception_ptr error_;
};

}  // namespace

int own_cores(int processes) {
  const int own = bound_cores();
  return own < cores_of_machine() ? own : own / processes;
}

int devices_of_calls() { return runtime::take_widest_call(); }

void on_waiting_threads(int parts, const std::function<void(int)>& part) {
  const auto lease = parts > 1 ? runtime::TeamLease::of_idle(bound_cores()) : nullptr;
  if (lease == nullptr) {
    for (int i = 0; i < parts; ++i) part(i);
    return;
  }
  Parts shared(parts, lease->team().devices(), part);
  std::fenv_t settings;
  std::fegetenv(&settings);
  lease->team().run([&](int device) {
    const FloatSettings callers(settings);
    shared.make(device);
  });
  shared.rethrow();
}

}  // namespace lockstep::backend
