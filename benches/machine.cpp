#include <cstdio>
#include <exception>

#include <fmt/format.h>

#include <lockstep/profile.h>

// What one device reaches here just now, as a line of JSON: compare.py measures it beside the systems.
int main() {
  try {
    const lockstep::Peak peak = lockstep::measure_peak();
    fmt::print("{{\"product_gflops\":{:.1f},\"copy_gbytes\":{:.2f}}}\n", peak.flops_per_second * 1e-9,
               peak.bytes_per_second * 1e-9);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_machine: %s\n", error.what());
    return 2;
  }
}
