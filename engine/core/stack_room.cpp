#include "engine/core/stack_room.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <pthread.h>

#include <lockstep/error.h>

namespace lockstep {
namespace {

/// Addresses of this thread's stack: all of it, and below `lowest` there is no room any more.
struct Stack {
  std::uintptr_t begin = 0, lowest = 0, end = 0;
};

[[gnu::tls_model("initial-exec")]] thread_local constinit Stack own_stack;

Stack stack_of_thread() noexcept {
  constexpr std::size_t reserve = std::size_t{1} << 20;
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return {};
  void* address = nullptr;
  std::size_t size = 0;
  const bool is_known = pthread_attr_getstack(&attributes, &address, &size) == 0;
  pthread_attr_destroy(&attributes);
  if (!is_known) return {};
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  return {begin, begin + std::min(reserve, size / 4), begin + size};
}

[[gnu::noinline]] bool has_room_at(std::uintptr_t here) noexcept {
  if (own_stack.end == 0) own_stack = stack_of_thread();
  return here >= own_stack.lowest || here < own_stack.begin;
}

}  // namespace

bool has_stack_room() noexcept {
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  return (here >= own_stack.lowest && here < own_stack.end) || has_room_at(here);
}

void expect_stack_room() {
  if (has_stack_room()) return;
  throw TraceError(
      "the stack of this thread is used up; expected functions that end: one that traces or calls itself without end "
      "has "
      "no program; write scan, fori_loop or while_loop, or a C++ loop");
}

}  // namespace lockstep
