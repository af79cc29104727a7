#include <cstdio>
#include <exception>
#include <vector>

#include <fmt/format.h>

#include <lockstep/lockstep.h>

#include "timing.h"

// What a call of a compiled function costs beside its work: the identity of 1 to 1000 leaves of one element, and of one
// donated leaf.
namespace lockstep::benches {

namespace {

/// Calls are short beside a look at the clock.
constexpr int calls_at_once = 16;

void run() {
  for (const int leaves : {1, 10, 100, 1000}) {
    const std::vector<Array> x(static_cast<std::size_t>(leaves), ones({1}));
    const auto identity = jit([](const std::vector<Array>& values) { return values; });
    std::vector<Array> y = identity(x);
    fmt::print("identity of {:4} leaves {:8.2f} us\n", leaves,
               1e6 * seconds_per_call([&] { y = identity(x); }, calls_at_once));
    const auto advance = jit([](const std::vector<Array>& values) {
      std::vector<Array> next;
      for (const Array& value : values) next.push_back(value + 1);
      return next;
    });
    std::vector<Array> z = advance(x);
    fmt::print("increments of {:4} leaves {:6.2f} us, donated {:8.2f} us\n", leaves,
               1e6 * seconds_per_call([&] { y = advance(x); }, calls_at_once),
               1e6 * seconds_per_call([&] { z = advance(std::move(z)); }, calls_at_once));
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
