#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <vector>

#include <mpi.h>

// MPI_Allreduce of float32 by size: what `bench_processes exchange` and `bench_collectives` are compared with. Under
// mpirun; what it prints has the same form.

namespace {

double seconds_per_call(std::vector<float>& sent, std::vector<float>& received, double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto timed = [&] {
    const auto start = Clock::now();
    MPI_Allreduce(sent.data(), received.data(), static_cast<int>(sent.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  double first = 0;
  for (int i = 0; i < 5; ++i) first = timed();
  std::int64_t calls = std::clamp<std::int64_t>(static_cast<std::int64_t>(seconds / first), 15, 20000);
  MPI_Bcast(&calls, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
  std::vector<double> samples;
  for (std::int64_t i = 0; i < calls; ++i) samples.push_back(timed());
  std::ranges::sort(samples);
  return samples[samples.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (std::size_t bytes = 1024; bytes <= (std::size_t{64} << 20); bytes *= 4) {
    std::vector<float> sent(bytes / sizeof(float), 1.F);
    std::vector<float> received(sent.size());
    const double seconds = seconds_per_call(sent, received, 0.5);
    if (rank == 0) std::printf("{\"bytes\": %zu, \"seconds\": %.9f}\n", bytes, seconds);
  }
  MPI_Finalize();
  return 0;
}
