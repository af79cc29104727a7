#include <cstdio>
#include <exception>
#include <functional>
#include <vector>

#include <fmt/format.h>

#include <lockstep/lockstep.h>

#include "timing.h"

// What collectives cost: psum, all_gather and psum_scatter of V shards on D devices of this process, beside the bytes that
// the sum must read and write at least.
namespace lockstep::benches {

namespace {

struct Exchange {
  const char* name;
  std::function<Array(const Array&)> run;
  Layout out;
};

void time(int device_count, std::int64_t shards, std::int64_t elements) {
  const Mesh mesh({{"batch", shards}}, devices("cpu:0-" + std::to_string(device_count - 1)));
  const Array x = ones({shards, elements});
  const std::vector<Exchange> exchanges = {
      {"psum", [](const Array& a) { return psum(a, {"batch"}); }, replicated},
      {"all_gather", [](const Array& a) { return all_gather_invariant(a, "batch"); }, replicated},
      {"psum_scatter", [](const Array& a) { return psum_scatter(a[0], "batch"); }, sharded("batch")},
  };
  for (const Exchange& exchange : exchanges) {
    const auto f = jit([&](const Array& a) {
      return pmap(exchange.run, {.mesh = mesh, .in = {sharded("batch")}, .out = {exchange.out}})(a);
    });
    Array y = f(x);
    const double seconds = seconds_per_call([&] { y = f(x); });
    const double bytes = 4. * static_cast<double>((shards + 1) * elements);
    fmt::print("{:12} {} devices {} shards of {:9} B {:10.2f} us {:7.2f} GB/s\n", exchange.name, device_count, shards,
               4 * elements, 1e6 * seconds, bytes / seconds * 1e-9);
  }
}

}  // namespace
}  // namespace lockstep::benches

int main() {
  try {
    constexpr std::int64_t most_of_8 = 4194304;  // of more, 8 shards and their sum are gigabytes
    for (const std::int64_t elements : {16, 4096, 262144, 1048576, 4194304, 16777216}) {
      lockstep::benches::time(2, 2, elements);
      if (elements <= most_of_8) lockstep::benches::time(2, 8, elements);
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_collectives: %s\n", error.what());
    return 2;
  }
}
