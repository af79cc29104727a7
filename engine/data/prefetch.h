#pragma once

#include <algorithm>
#include <cstddef>

namespace lockstep::data {

/// Has bytes that will be read in a moment brought into the cache. Of many the beginning: the processor sees by itself how
/// it goes on. Always inlined, as calls of a function that has no effect are dropped.
[[gnu::always_inline]] inline void prefetch(const std::byte* from, std::size_t count) {
  constexpr std::size_t line = 64, longest = 4096;
  const std::size_t bytes = std::min(count, longest);
  for (std::size_t at = 0; at < bytes + line; at += line) __builtin_prefetch(from + std::min(at, bytes));
}

}  // namespace lockstep::data
