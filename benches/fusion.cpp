#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <vector>

#include <fmt/format.h>

#include <lockstep/lockstep.h>

#include "benches/fusion_loop.h"
#include "benches/timing.h"

// A chain of eight element-wise ops, compiled by Lockstep, against the same loop compiled by the C++ compiler for this
// machine, one thread each.
namespace lockstep::benches {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int shards = 1;

template <class F>
double seconds_of(const F& f) {
  const auto start = Clock::now();
  f();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Medians of both, run in turn.
template <class A, class B>
std::pair<double, double> medians(const A& a, const B& b, int calls) {
  std::vector<double> first, second;
  for (int sample = 0; sample < 15; ++sample) {
    first.push_back(seconds_of([&] {
                      for (int i = 0; i < calls; ++i) a();
                    }) /
                    calls);
    second.push_back(seconds_of([&] {
                       for (int i = 0; i < calls; ++i) b();
                     }) /
                     calls);
  }
  return {median(std::move(first)), median(std::move(second))};
}

/// In a map over one shard, so that one device runs it all.
Array chain(const Array& x) { return sqrt(maximum((x * 1.5F + 0.25F) * x - 0.5F, 0.0F) + 1.0F) * 2.0F; }

void run() {
  const Mesh mesh({{"batch", shards}}, devices("cpu:0"));
  const auto step = jit(pmap(chain, {.mesh = mesh, .in = {sharded("batch")}, .out = {sharded("batch")}}));
  fmt::print("{:>10} {:>12} {:>12} {:>7}\n", "bytes", "lockstep us", "g++ us", "ratio");
  for (const std::int64_t bytes : {std::int64_t{64} << 10, std::int64_t{1} << 20, std::int64_t{256} << 20}) {
    const std::int64_t n = bytes / 4;
    const Array x = random::uniform(random::key(1), {n}, float32);
    const std::vector<float> in = x.to_vector<float>();
    std::vector<float> out(in.size());
    Array y = step(x);
    fusion_loop(in.data(), out.data(), n);
    const int calls = static_cast<int>(std::max<std::int64_t>(1, (std::int64_t{64} << 20) / bytes));
    // In place: new memory for each result would be all that is timed of large ones.
    const auto [ours, theirs] =
        medians([&] { y = step(std::move(y)); }, [&] { fusion_loop(out.data(), out.data(), n); }, calls);
    const std::vector<float> given = y.to_vector<float>();
    const bool equal = std::ranges::equal(given, out, [](float a, float b) {
      return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
    });
    fmt::print("{:>10} {:>12.2f} {:>12.2f} {:>7.2f}{}\n", bytes, 1e6 * ours, 1e6 * theirs, theirs / ours,
               equal ? "" : "  bits differ");
  }
}

}  // namespace
}  // namespace lockstep::benches

int main() {
  try {
    lockstep::benches::run();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_fusion: %s\n", error.what());
    return 2;
  }
}
