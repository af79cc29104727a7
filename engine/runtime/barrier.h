#pragma once

#include <atomic>
#include <cstdint>

namespace lockstep::runtime {

/// Waits until `value` differs from `old`: spins for a while where the machine has a core for every thread, then sleeps.
class Waiter {
 public:
  /// How often to look before sleeping, for `threads` that wait for one another on this machine.
  explicit Waiter(int threads);
  void wait(const std::atomic<std::uint32_t>& value, std::uint32_t old) const;

 private:
  int spins_;
};

/// Where a fixed number of threads meet, again and again.
class Barrier {
 public:
  explicit Barrier(int threads) : threads_(threads), waiter_(threads) {}

  void arrive_and_wait();

 private:
  const std::uint32_t threads_;
  const Waiter waiter_;
  alignas(64) std::atomic<std::uint32_t> arrived_{0};
  alignas(64) std::atomic<std::uint32_t> generation_{0};
};

}  // namespace lockstep::runtime
