#include "engine/core/process_end.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include <lockstep/error.h>

namespace lockstep {
namespace {

std::atomic<bool> is_ending{false};

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

struct OwnState {
  ThreadState* const state = taken_state();
  ~OwnState() {
    const std::lock_guard lock(states().mutex);
    state->is_taken = false;
  }
};

ThreadState& own_state() {
  thread_local const OwnState own;
  return *own.state;
}

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

void end_process(int status, void* /*none*/) {
  if (is_ending.exchange(true)) return;
  if (!stop_threads() || is_at_work(&own_state())) end_now(status);
}

}  // namespace

InLibrary::InLibrary(std::string_view op) {
  ThreadState& own = own_state();
  if (own.depth++ > 0) return;
  own.is_inside.store(true);
  if (!is_ending.load()) return;
  own.is_inside.store(false);
  --own.depth;
  throw BackendError(
      std::string(op) +
      ": the process is ending, and what computes is taken apart; expected work that is over before; join "
      "threads and finish before main returns or exit is called");
}

InLibrary::~InLibrary() {
  ThreadState& own = own_state();
  if (--own.depth > 0) return;
  own.is_inside.store(false, std::memory_order_release);
  // What first calls have made is destroyed in turn: the look at who computes comes before, so it is asked for behind them.
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
  if (times.fetch_add(1, std::memory_order_relaxed) < most_times) ::on_exit(end_process, nullptr);
#endif
}

}  // namespace lockstep
