// Work that waits for other processes, some of it at a time.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

namespace lockstep::tests {

/// Calls `work` with 0 to count - 1, `at_a_time` of them at a time, each on another thread. It checks nothing itself.
inline void for_each_at_once(std::size_t count, std::size_t at_a_time, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < std::min(at_a_time, count); ++i) {
    threads.emplace_back([&] {
      for (std::size_t mine = next++; mine < count; mine = next++) work(mine);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace lockstep::tests
