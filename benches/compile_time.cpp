#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <lockstep/lockstep.h>

#include "timing.h"

// How the time of tracing and of the first call grows with a program's length.
namespace lockstep::benches {

namespace {

using Clock = std::chrono::steady_clock;

struct Program {
  std::string name;
  std::function<Array(const Array&)> function;
};

/// Element-wise ops one behind the other.
Program chain(int ops) {
  return {fmt::format("chain of {} ops", ops), [ops](const Array& x) {
            Array y = x;
            for (int i = 0; i < ops; ++i) y = i % 2 == 0 ? tanh(y) : y * x;
            return y;
          }};
}

/// The gradient of a network of that many layers by its input.
Program layers(int depth) {
  const auto loss = [depth](const Array& x) {
    const Array weights = broadcast_to(x, {x.shape()[0], x.shape()[0]});
    Array y = expand_dims(x, 0);
    for (int i = 0; i < depth; ++i) y = tanh(matmul(y, weights * (0.01 * (i + 1))));
    return sum(y);
  };
  return {fmt::format("gradient of {} layers", depth), grad(loss)};
}

/// The gradient of so many convolutions, each dilated by one more than the one before.
Program dilated_convolutions(int count) {
  const auto loss = [count](const Array& x) {
    const std::int64_t channels = x.shape()[0];
    const Array kernel = 0.01 * broadcast_to(x, {3, 3, channels, channels});
    Array y = broadcast_to(x, {16, 32, 32, channels});
    for (std::int64_t d = 1; d <= count; ++d) {
      y = relu(conv_general_dilated(y, kernel, {.padding = "SAME", .rhs_dilation = {d, d}}));
    }
    return sum(y);
  };
  return {fmt::format("{} dilated convolutions", count), grad(loss)};
}

double milliseconds(const std::function<void()>& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// Medians of several compilations of what is the same program but for a constant: none comes from a cache.
void time(const Program& program) {
  constexpr int rounds = 5;
  const Array x = full({64}, 0.5);
  std::vector<double> tracing, first, second;
  for (int round = 0; round < rounds; ++round) {
    const auto f = [&program, round](const Array& a) { return program.function(a) + (1.0 + round); };
    tracing.push_back(milliseconds([&] { trace_function(f, x); }));
    const auto compiled = jit(f);
    first.push_back(milliseconds([&] { compiled(x); }));
    second.push_back(milliseconds([&] { compiled(x); }));
  }
  fmt::print("{:28} traced in {:9.2f} ms   first call {:9.2f} ms   next call {:9.3f} ms\n", program.name,
             median(tracing), median(first), median(second));
}

}  // namespace
}  // namespace lockstep::benches

int main() {
  using namespace lockstep::benches;
  try {
    for (const int ops : {10, 100, 1000}) time(chain(ops));
    for (const int depth : {1, 10, 100}) time(layers(depth));
    time(dilated_convolutions(8));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_compile_time: %s\n", error.what());
    return 2;
  }
}
