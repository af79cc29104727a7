#pragma once

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

namespace lockstep::benches {

inline double median(std::vector<double> samples) {
  std::ranges::sort(samples);
  return samples[samples.size() / 2];
}

inline double mean(const std::vector<double>& samples) {
  double sum = 0;
  for (const double sample : samples) sum += sample;
  return sum / static_cast<double>(samples.size());
}

/// Median over 21 samples of the seconds that one call of `f` takes; a sample makes `at_once` calls until it has lasted.
template <class F>
double seconds_per_call(const F& f, int at_once = 1) {
  using Clock = std::chrono::steady_clock;
  constexpr double lasting = 0.01;
  std::vector<double> samples;
  for (int sample = 0; sample < 21; ++sample) {
    int calls = 0;
    const auto start = Clock::now();
    double elapsed = 0;
    do {
      for (int i = 0; i < at_once; ++i) f();
      calls += at_once;
      elapsed = std::chrono::duration<double>(Clock::now() - start).count();
    } while (elapsed < lasting);
    samples.push_back(elapsed / calls);
  }
  return median(std::move(samples));
}

}  // namespace lockstep::benches
