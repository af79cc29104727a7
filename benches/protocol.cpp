#include "protocol.h"

#include <chrono>
#include <cstdio>
#include <iomanip>
#include <iostream>
#include <sstream>
#include <utility>

#include "memory.h"

namespace lockstep::benches {

namespace {

using Clock = std::chrono::steady_clock;

double in_seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }
double seconds_since(Clock::time_point start) { return in_seconds(Clock::now() - start); }

std::string compiler() {
  const std::string version = __VERSION__;
  return version.starts_with("Clang") ? version : "g++ " + version;
}

std::string json_object(const Versions& versions) {
  std::ostringstream out;
  for (const auto& [name, version] : versions) {
    out << (out.tellp() == 0 ? '{' : ',') << std::quoted(name) << ':' << std::quoted(version);
  }
  out << '}';
  return out.str();
}

}  // namespace

void make_first_steps(const std::function<double()>& step, double memory_before, Versions versions) {
  const auto begin = Clock::now();
  const double loss = step();
  const auto end = Clock::now();
  std::printf("{\"first_call_s\":%.6f,\"first_loss_at\":%.6f,\"losses\":[%.8f", in_seconds(end - begin),
              in_seconds(end.time_since_epoch()), loss);
  for (int i = 1; i < 5; ++i) std::printf(",%.8f", step());
  versions["compiler"] = compiler();
  std::printf("],\"memory_mib\":%.1f,\"versions\":%s}\n", peak_resident_mib() - memory_before,
              json_object(versions).c_str());
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
