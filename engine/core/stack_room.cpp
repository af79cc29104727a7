#include "engine/core/stack_room.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <pthread.h>

#include <lockstep/error.h>

namespace lockstep {
namespace {

struct Stack {
  std::uintptr_t begin = 0;   ///< Its lowest address.
  std::uintptr_t lowest = 0;  ///< Below this one there is no room any more.
};

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
  return {begin, begin + std::min(reserve, size / 4)};
}

}  // namespace

bool has_stack_room() noexcept {
  thread_local const Stack stack = stack_of_thread();
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  return here >= stack.lowest || here < stack.begin;
}

void expect_stack_room() {
  if (has_stack_room()) return;
  throw TraceError(
      "the stack of this thread is used up; expected functions that end: one that traces or calls itself without end "
      "has "
      "no program; write scan, fori_loop or while_loop, or a C++ loop");
}

}  // namespace lockstep
