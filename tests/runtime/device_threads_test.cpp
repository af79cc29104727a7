#include <algorithm>
#include <atomic>
#include <cfenv>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/backend/device_threads.h>

#include "engine/runtime/team.h"
#include "tests/support/forked.h"
#include "tests/support/skip.h"

namespace lockstep::tests {
namespace {

/// Leaves a team of so many threads idle.
void leave_idle(int devices) {
  runtime::TeamLease(devices, {}).team().run([](int) {});
}

}  // namespace

TEST_CASE("each part is made once, by threads of devices that wait too") {
  leave_idle(2);
  for (const int parts : {0, 1, 2, 3, 16, 1000}) {
    CAPTURE(parts);
    std::vector<std::atomic<int>> made(static_cast<std::size_t>(parts));
    backend::on_waiting_threads(parts, [&](int i) { ++made[static_cast<std::size_t>(i)]; });
    CHECK(std::ranges::all_of(made, [](const auto& times) { return times == 1; }));
  }
  if (std::thread::hardware_concurrency() < 2) return skip("one processor");
  // Two parts that wait for one another end where two threads take them.
  std::atomic<int> begun{0};
  std::vector<std::thread::id> threads(2);
  backend::on_waiting_threads(2, [&](int i) {
    threads[static_cast<std::size_t>(i)] = std::this_thread::get_id();
    ++begun;
    for (int waited = 0; begun < 2 && waited < 20000; ++waited) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  CHECK(begun == 2);
  CHECK(threads[0] != threads[1]);
}

TEST_CASE("of several parts that throw, the lowest one's error is told, and the next call is like any other") {
  leave_idle(2);
  for (int round = 0; round < 50; ++round) {
    std::string text;
    try {
      backend::on_waiting_threads(64, [&](int i) {
        if (i >= 20 + round % 30) throw std::runtime_error(std::to_string(i));
      });
    } catch (const std::runtime_error& error) {
      text = error.what();
    }
    CHECK(text == std::to_string(20 + round % 30));
    std::atomic<int> made{0};
    backend::on_waiting_threads(8, [&](int) { ++made; });
    CHECK(made == 8);
  }
}

TEST_CASE("parts compute as the caller's settings say, and devices as before") {
  leave_idle(2);
  const int before = std::fegetround();
  REQUIRE(std::fesetround(FE_UPWARD) == 0);
  std::atomic<int> otherwise{0};
  backend::on_waiting_threads(64, [&](int) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    otherwise += std::fegetround() == FE_UPWARD ? 0 : 1;
  });
  std::fesetround(before);
  CHECK(otherwise == 0);
  std::atomic<int> changed{0};
  runtime::TeamLease lease(2, {});
  lease.team().run([&](int) { changed += std::fegetround() == before ? 0 : 1; });
  CHECK(changed == 0);
}

TEST_CASE("parts may be made within parts, on several threads at once, and in a child of fork") {
  leave_idle(2);
  std::atomic<int> made{0};
  const auto nested = [&] {
    backend::on_waiting_threads(4, [&](int) { backend::on_waiting_threads(4, [&](int) { ++made; }); });
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) threads.emplace_back(nested);
  for (std::thread& thread : threads) thread.join();
  CHECK(made == 64);
  CHECK(forked([&] {
          made = 0;
          nested();
          return made.load();
        }) == 16);
}

}  // namespace lockstep::tests
