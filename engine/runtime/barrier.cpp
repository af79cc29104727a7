#include "engine/runtime/barrier.h"

#include <cstdlib>
#include <string_view>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lockstep::runtime {
namespace {

void pause_briefly() {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

// About 100 us of pauses on current processors: longer than what usually stands between two barriers of a step, and than
// the making of a batch between two steps, behind which a device that had gone to sleep cost as much again; much shorter
// than a scheduler's slice.
constexpr int spins_with_a_core_each = 5000;
constexpr int spins_when_crowded = 20;

/// OpenMP's variable for programs that share their cores with others: waiting threads sleep.
bool shall_sleep() {
  static const bool passive = [] {
    const char* const policy = std::getenv("OMP_WAIT_POLICY");
    return policy != nullptr && (std::string_view(policy) == "passive" || std::string_view(policy) == "PASSIVE");
  }();
  return passive;
}

}  // namespace

Waiter::Waiter(int threads) {
  const unsigned cores = std::thread::hardware_concurrency();
  spins_ = static_cast<unsigned>(threads) <= cores && !shall_sleep() ? spins_with_a_core_each : spins_when_crowded;
}

void Waiter::wait(const std::atomic<std::uint32_t>& value, std::uint32_t old) const {
  for (int i = 0; i < spins_; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    pause_briefly();
  }
  while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
}

void Barrier::arrive_and_wait() {
  const std::uint32_t generation = generation_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
    arrived_.store(0, std::memory_order_relaxed);
    generation_.store(generation + 1, std::memory_order_release);
    generation_.notify_all();
    return;
  }
  waiter_.wait(generation_, generation);
}

}  // namespace lockstep::runtime
