#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <vector>

#include <fmt/format.h>

#include <lockstep/lockstep.h>

// What a call of a compiled function costs beside its work: the identity of 1 to 1000 leaves of one element, and of one
// donated leaf.
namespace lockstep::benches {

namespace {

using Clock = std::chrono::steady_clock;

/// Median over samples of the seconds that one call of `f` takes.
template <class F>
double seconds_per_call(const F& f) {
  std::vector<double> samples;
  for (int sample = 0; sample < 21; ++sample) {
    int calls = 0;
    const auto start = Clock::now();
    double elapsed = 0;
    do {
      for (int i = 0; i < 16; ++i) f();
      calls += 16;
      elapsed = std::chrono::duration<double>(Clock::now() - start).count();
    } while (elapsed < 0.01);
    samples.push_back(elapsed / calls);
  }
  std::ranges::sort(samples);
  return samples[samples.size() / 2];
}

void run() {
  for (const int leaves : {1, 10, 100, 1000}) {
    const std::vector<Array> x(static_cast<std::size_t>(leaves), ones({1}));
    const auto identity = jit([](const std::vector<Array>& values) { return values; });
    std::vector<Array> y = identity(x);
    fmt::print("identity of {:4} leaves {:8.2f} us\n", leaves, 1e6 * seconds_per_call([&] { y = identity(x); }));
    const auto advance = jit([](const std::vector<Array>& values) {
      std::vector<Array> next;
      for (const Array& value : values) next.push_back(value + 1);
      return next;
    });
    std::vector<Array> z = advance(x);
    fmt::print("increments of {:4} leaves {:6.2f} us, donated {:8.2f} us\n", leaves,
               1e6 * seconds_per_call([&] { y = advance(x); }),
               1e6 * seconds_per_call([&] { z = advance(std::move(z)); }));
  }
}

}  // namespace
}  // namespace lockstep::benches

int main() {
  try {
    lockstep::benches::run();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_dispatch: %s\n", error.what());
    return 2;
  }
}
