#include "engine/core/process_end.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#ifdef __linux__
#include <linux/membarrier.h>
#include <sys/syscall.h>
#endif
#include <unistd.h>

#include <lockstep/error.h>

namespace lockstep {
namespace {

std::atomic<bool> is_ending{false};
std::atomic<const void*> ending_thread{nullptr};  ///< The state of the thread that ends the process.

/// A thread's own; others read it in the end.
struct ThreadState {
  std::atomic<bool> is_inside{false};
  std::atomic<bool> has_workers{false};
  bool is_taken = true;
  int depth = 0;
  std::uint64_t calls = 0;
};

/// Never destroyed: threads may end after everything else.
struct States {
  std::mutex mutex;
  std::vector<ThreadState*> all;
};
States& states() {
  static States& made = *new States;
  return made;
}

ThreadState* taken_state() {
  States& of = states();
  const std::lock_guard lock(of.mutex);
  const auto idle = std::ranges::find_if(of.all, [](const ThreadState* state) { return !state->is_taken; });
  if (idle != of.all.end()) {
    (*idle)->is_taken = true;
    return *idle;
  }
  of.all.push_back(new ThreadState);
  return of.all.back();
}

/// Without a look at who initialises it, for each call of a compiled function asks.
[[gnu::tls_model("initial-exec")]] thread_local constinit ThreadState* own_pointer = nullptr;

struct OwnState {
  ThreadState* const state = taken_state();
  ~OwnState() {
    const std::lock_guard lock(states().mutex);
    state->is_taken = false;
  }
};

[[gnu::noinline]] ThreadState& first_own_state() {
  thread_local const OwnState own;
  own_pointer = own.state;
  return *own.state;
}

ThreadState& own_state() { return own_pointer != nullptr ? *own_pointer : first_own_state(); }

struct Stops {
  std::mutex mutex;
  std::list<std::function<bool()>> all;
};
Stops& stops() {
  static Stops& made = *new Stops;
  return made;
}

/// Whether a thread computes that nobody waits for.
bool is_at_work(const ThreadState* own) {
  States& of = states();
  const std::lock_guard lock(of.mutex);
  return std::ranges::any_of(of.all, [own](const ThreadState* state) {
    return state->is_inside.load() && (state != own || state->has_workers.load());
  });
}

bool stop_threads() {
  bool are_over = true;
  const std::lock_guard lock(stops().mutex);
  for (const std::function<bool()>& stop : stops().all) are_over = stop() && are_over;
  return are_over;
}

/// Nothing is destroyed.
[[noreturn]] void end_now(int status) {
  std::cout.flush();
  std::fflush(nullptr);
  ::_exit(status);
}

/// A full memory barrier in every thread of the process: afterwards this thread sees what the others wrote before it, and
/// they see what this thread wrote.
void order_all_threads() noexcept {
#ifdef __linux__
  if (::syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0) return;
#endif
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void end_process(int status, void* /*none*/) {
  ending_thread.store(&own_state());
  if (is_ending.exchange(true)) return;
  order_all_threads();
  if (!stop_threads() || is_at_work(&own_state())) end_now(status);
}

}  // namespace

InLibrary::InLibrary(std::string_view op) {
  ThreadState& own = own_state();
  if (own.depth++ > 0) return;
  // One of the two sees the other's write: the end of the process makes all threads order theirs.
  own.is_inside.store(true, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (!is_ending.load(std::memory_order_relaxed)) return;
  own.is_inside.store(false);
  --own.depth;
  // A thread that nobody waits for is gone with the process: an error of its own would end it otherwise.
  if (ending_thread.load() != &own) std::this_thread::sleep_for(std::chrono::seconds(1));
  throw BackendError(
      std::string(op) +
      ": the process is ending, and what computes is taken apart; expected work that is over before; join "
      "threads and finish before main returns or exit is called");
}

InLibrary::~InLibrary() {
  ThreadState& own = own_state();
  if (--own.depth > 0) return;
  own.is_inside.store(false, std::memory_order_release);
  // Exit handlers run in reverse order: one registered after a first call runs before what that call made is destroyed.
  if (std::has_single_bit(++own.calls)) watch_process_end();
}

WithWorkers::WithWorkers(bool has_workers) noexcept : has_workers_(has_workers) {
  if (has_workers_) has_workers_ = !own_state().has_workers.exchange(true, std::memory_order_relaxed);
}

WithWorkers::~WithWorkers() {
  if (has_workers_) own_state().has_workers.store(false, std::memory_order_relaxed);
}

AtProcessEnd::AtProcessEnd(std::function<bool()> stop) {
  const std::lock_guard lock(stops().mutex);
  place_ = stops().all.insert(stops().all.end(), std::move(stop));
}

AtProcessEnd::~AtProcessEnd() {
  const std::lock_guard lock(stops().mutex);
  stops().all.erase(place_);
}

void watch_process_end() {
#ifdef __GLIBC__
  constexpr int most_times = 10000;
  static std::atomic<int> times{0};
  static const bool is_registered = ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
  static_cast<void>(is_registered);
  if (times.fetch_add(1, std::memory_order_relaxed) < most_times) ::on_exit(end_process, nullptr);
#endif
}

}  // namespace lockstep
