#include "engine/executable/shares.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "engine/runtime/barrier.h"

namespace lockstep::tests {

namespace {

using executable::Shares;

/// Works through step after step as a walker does; adds one to what stands for each item in `done`.
void work(Shares& shares, runtime::Barrier& barrier, int device, int devices, int steps,
          std::vector<std::vector<std::atomic<int>>>& done) {
  for (int step = 0; step < steps; ++step) {
    const auto run = [&](int owner, std::int64_t item) {
      ++done[static_cast<std::size_t>(owner)][static_cast<std::size_t>(item)];
      if (device == step % devices) std::this_thread::yield();
    };
    shares.deal(device, static_cast<std::uint32_t>(done[static_cast<std::size_t>(device)].size()));
    for (std::int64_t item = 0; (item = shares.take_first(device)) >= 0;) run(device, item);
    for (int other = 1; other < devices; ++other) {
      const int from = (device + other) % devices;
      for (std::int64_t item = 0; (item = shares.take_last(from)) >= 0;) run(from, item);
    }
    barrier.arrive_and_wait();
  }
}

}  // namespace

TEST_CASE("a share is taken from either end until nothing is left") {
  Shares shares(2);
  CHECK(shares.take_first(0) == -1);
  CHECK(shares.take_last(1) == -1);
  shares.deal(1, 4);
  CHECK(shares.take_first(0) == -1);
  CHECK(shares.take_first(1) == 0);
  CHECK(shares.take_last(1) == 3);
  CHECK(shares.take_first(1) == 1);
  CHECK(shares.take_last(1) == 2);
  CHECK(shares.take_last(1) == -1);
  CHECK(shares.take_first(1) == -1);
  shares.deal(1, 3);
  CHECK(shares.take_last(1) == 2);
  shares.deal(1, 0);
  CHECK(shares.take_first(1) == -1);
  shares.deal(1, 1);
  CHECK(shares.take_first(1) == 0);
}

TEST_CASE("devices that take from each other's shares do every item of every step once") {
  for (const int devices : {2, 3, 5}) {
    constexpr int steps = 300;
    std::vector<std::vector<std::atomic<int>>> done;
    for (int d = 0; d < devices; ++d) done.emplace_back(static_cast<std::size_t>(d == 1 ? 0 : 3 + 7 * d));
    Shares shares(devices);
    runtime::Barrier barrier(devices);
    std::vector<std::thread> threads;
    for (int d = 0; d < devices; ++d) {
      threads.emplace_back([&, d] { work(shares, barrier, d, devices, steps, done); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& share : done) {
      for (const std::atomic<int>& times : share) CHECK(times == steps);
    }
  }
}

}  // namespace lockstep::tests
