#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include <lockstep/backend/backend.h>

#include "benches/timing.h"
#include "engine/compile/compile.h"
#include "engine/ir/builder.h"
#include "engine/ops/primitives.h"
#include "engine/runtime/run.h"

// What stands outside of maps, on one thread and on as many as there are cores, in turn: medians, and whether the bits
// are the same.
namespace lockstep::benches {

namespace {

using Clock = std::chrono::steady_clock;
using Dims = std::vector<std::int64_t>;

struct Case {
  std::string name;
  ir::FunctionPtr function;
};

ir::FunctionPtr binary(const ir::Primitive& op, const Shape& a, const Shape& b, const Attrs& attrs) {
  ir::Builder builder{ir::AxisSizes()};
  const std::vector<ir::Var> inputs = {builder.input({float32, a, {}}), builder.input({float32, b, {}})};
  return builder.finish(builder.apply(op, inputs, attrs));
}

/// x = tanh(x * x + x), twice.
ir::FunctionPtr chain(std::int64_t elements) {
  ir::Builder builder{ir::AxisSizes()};
  ir::Var x = builder.input({float32, {elements}, {}});
  const auto apply = [&](const ir::Primitive& op, std::vector<ir::Var> operands) {
    return builder.apply(op, operands, {})[0];
  };
  for (int i = 0; i < 2; ++i) {
    const ir::Var square = apply(ops::primitives::mul(), {x, x});
    x = apply(ops::primitives::tanh(), {apply(ops::primitives::add(), {square, x})});
  }
  return builder.finish({x});
}

std::vector<Case> cases() {
  const auto contract = [](std::int64_t a, std::int64_t b) {
    return Attrs{{"contract", std::vector<Dims>{{a}, {b}}}, {"batch", std::vector<Dims>{{}, {}}}};
  };
  const std::vector<Dims> same = {{1, 1}, {1, 1}};
  const Attrs conv = {
      {"strides", Dims{1, 1}}, {"padding", same}, {"dilation", Dims{1, 1}}, {"groups", std::int64_t{1}}};
  return {
      {"product 2048x2048x2048", binary(ops::primitives::dot_general(), {2048, 2048}, {2048, 2048}, contract(1, 0))},
      {"product 2048x2048x2048, first transposed",
       binary(ops::primitives::dot_general(), {2048, 2048}, {2048, 2048}, contract(0, 0))},
      {"convolution 32x56x56x64, 3x3, 64", binary(ops::primitives::conv(), {32, 56, 56, 64}, {3, 3, 64, 64}, conv)},
      {"chain of 16 Mi elements", chain(std::int64_t{1} << 24)}};
}

std::vector<eval::HostArray> operands_of(const ir::Function& function) {
  std::vector<eval::HostArray> arrays;
  for (const ir::Var input : function.inputs()) {
    const ArrayType& type = function.type(input);
    std::shared_ptr<backend::Buffer> buffer;
    for (const auto& backend : backend::built_backends()) {
      if (buffer == nullptr) buffer = backend->allocate(static_cast<std::size_t>(type.nbytes()), Device{});
    }
    auto* values = static_cast<float*>(buffer->data());
    for (std::int64_t i = 0; i < type.size(); ++i) values[i] = static_cast<float>(i % 1013) / 1013.0F - 0.5F;
    arrays.push_back({type, std::move(buffer)});
  }
  return arrays;
}

void time(const Case& c, int threads) {
  const std::vector<eval::HostArray> operands = operands_of(*c.function);
  const auto lower = [&](int n) {
    compile::Options options;
    options.backends = backend::built_backends();
    options.threads = n;
    return compile::lower(c.function, options);
  };
  const auto alone = lower(1), shared = lower(threads);
  std::vector<double> seconds[2];
  std::vector<eval::HostArray> results[2];
  for (int round = 0; round < 11; ++round) {
    for (const int which : {0, 1}) {
      const auto start = Clock::now();
      results[which] = runtime::run(which == 0 ? *alone : *shared, operands);
      seconds[which].push_back(std::chrono::duration<double>(Clock::now() - start).count());
    }
  }
  const backend::Buffer& a = *results[0][0].buffer;
  const backend::Buffer& b = *results[1][0].buffer;
  const bool same = std::memcmp(a.data(), b.data(), static_cast<std::size_t>(results[0][0].type.nbytes())) == 0;
  fmt::print("{:44} {:9.2f} ms {:9.2f} ms   {:5.2f} times{}\n", c.name, 1e3 * median(seconds[0]),
             1e3 * median(seconds[1]), median(seconds[0]) / median(seconds[1]), same ? "" : "   bits differ");
}

}  // namespace
}  // namespace lockstep::benches

/// bench_threads [number of threads]
int main(int count, char** arguments) {
  try {
    const int threads = count > 1 ? std::stoi(arguments[1]) : static_cast<int>(std::thread::hardware_concurrency());
    for (const auto& c : lockstep::benches::cases()) lockstep::benches::time(c, threads);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_threads: %s\n", error.what());
    return 2;
  }
}
