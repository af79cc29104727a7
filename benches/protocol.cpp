#include "protocol.h"

#include <chrono>
#include <cstdio>
#include <iostream>

#include "memory.h"

namespace lockstep::benches {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

}  // namespace

void make_first_steps(const std::function<double()>& step, double memory_before) {
  const auto begin = Clock::now();
  const double loss = step();
  std::printf("{\"first_call_s\":%.6f,\"losses\":[%.8f", seconds_since(begin), loss);
  for (int i = 1; i < 5; ++i) std::printf(",%.8f", step());
  std::printf("],\"memory_mib\":%.1f}\n", peak_resident_mib() - memory_before);
  std::fflush(stdout);
}

void make_timed_steps(const std::function<double()>& step) {
  for (double seconds = 0; std::cin >> seconds;) {
    const auto start = Clock::now();
    int steps = 0;
    do {
      step();
      ++steps;
    } while (seconds_since(start) < seconds);
    std::printf("{\"ms\":%.6f}\n", 1e3 * seconds_since(start) / steps);
    std::fflush(stdout);
  }
}

}  // namespace lockstep::benches
