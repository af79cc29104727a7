#include "engine/checkpoint/pace.h"

#include <chrono>
#include <ctime>
#include <thread>

#include <doctest/doctest.h>

using lockstep::checkpoint::Pace;
using Clock = std::chrono::steady_clock;

namespace {

double processor_seconds() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

void work(double seconds) {
  for (const double begin = processor_seconds(); processor_seconds() - begin < seconds;) {
  }
}

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

}  // namespace

TEST_CASE("a save rests many times as long as its parts take, until somebody waits for it") {
  Pace pace;
  pace.begin();
  double rested = 0, made_late = 0;
  std::thread([&] {
    work(0.01);
    const auto begin = Clock::now();
    pace.rest();
    rested = seconds_since(begin);
  }).join();
  CHECK(rested > 0.1);
  const auto begin = Clock::now();
  pace.begin();
  std::thread saving([&] {
    work(0.5);
    pace.rest();  // 8 seconds
    work(0.1);
    const auto last = Clock::now();
    pace.rest();  // none
    made_late = seconds_since(last);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  pace.hurry();
  saving.join();
  CHECK(seconds_since(begin) < 6);
  CHECK(made_late < 0.5);
  pace.begin();
  pace.hurry();  // before the thread has begun
  std::thread([&] {
    work(0.5);
    const auto last = Clock::now();
    pace.rest();
    made_late = seconds_since(last);
  }).join();
  CHECK(made_late < 4);
}
