#include "engine/runtime/forks.h"

#include <atomic>

#ifndef _WIN32
#include <pthread.h>
#endif

namespace lockstep::runtime {
namespace {

constinit std::atomic<std::uint64_t> fork_count{0};

/// Has the count raised in each child. Where there is no fork, or no memory to be told of it, the count stays.
bool watch_forks() {
#ifndef _WIN32
  return ::pthread_atfork(nullptr, nullptr, [] { fork_count.fetch_add(1, std::memory_order_relaxed); }) == 0;
#else
  return false;
#endif
}

}  // namespace

std::uint64_t forks() {
  [[maybe_unused]] static const bool watched = watch_forks();
  return fork_count.load(std::memory_order_relaxed);
}

}  // namespace lockstep::runtime
