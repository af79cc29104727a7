#include <cstdint>
#include <cstdio>
#include <ctime>
#include <exception>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <lockstep/backend/backend.h>

#include "benches/timing.h"
#include "engine/compile/compile.h"
#include "engine/ir/builder.h"
#include "engine/ops/primitives.h"
#include "engine/runtime/run.h"

// Times single ops on one device: compiled with all backends of this build, and with plain loops and ATen's kernels alone. The two take
// turns, and the clock is the thread's own, so that what else the machine does meets both alike. Medians; the last column
// is how many times as fast.
namespace lockstep::benches {

namespace {

using Dims = std::vector<std::int64_t>;

struct Case {
  std::string name;
  const ir::Primitive* op;
  std::vector<Shape> operands;
  Attrs attrs;
  double flops = 0;  ///< Zero where bytes are what counts.
};

/// [rows, depth] x [depth, columns]; of either operand the dimension that is contracted.
Case product(std::string_view name, std::int64_t rows, std::int64_t depth, std::int64_t columns, bool first_transposed,
             bool second_transposed) {
  const Shape a = first_transposed ? Shape{depth, rows} : Shape{rows, depth};
  const Shape b = second_transposed ? Shape{columns, depth} : Shape{depth, columns};
  const std::vector<Dims> contract = {{first_transposed ? 0 : 1}, {second_transposed ? 1 : 0}};
  return {fmt::format("{} {}x{}x{}{}{}", name, rows, depth, columns, first_transposed ? " t" : "",
                      second_transposed ? " 't" : ""),
          &ops::primitives::dot_general(),
          {a, b},
          {{"contract", contract}, {"batch", std::vector<Dims>{{}, {}}}},
          2.0 * static_cast<double>(rows * depth * columns)};
}

/// A square kernel with padding that keeps the extents but for the stride; forward and both gradients.
void add_convolutions(std::vector<Case>& cases, std::string_view name, const Shape& x, std::int64_t window,
                      std::int64_t features, std::int64_t stride, std::int64_t groups) {
  const std::int64_t extent = (x[1] - 1) / stride + 1;
  const std::int64_t padding = window - 1 - (x[1] - 1) % stride;
  const Dims pair = {padding / 2, padding - padding / 2};
  const Shape kernel = {window, window, x[3] / groups, features};
  const Shape y = {x[0], extent, extent, features};
  const Attrs attrs = {{"strides", Dims{stride, stride}},
                       {"padding", std::vector<Dims>{pair, pair}},
                       {"dilation", Dims{1, 1}},
                       {"groups", groups}};
  const double flops = 2.0 * static_cast<double>(y.size() * kernel[0] * kernel[1] * kernel[2]);
  const std::string text = fmt::format("{} {}x{}x{}x{}", name, x[0], x[1], x[2], x[3]);
  cases.push_back({text, &ops::primitives::conv(), {x, kernel}, attrs, flops});
  cases.push_back({text + " input gradient",
                   &ops::primitives::conv_input_grad(),
                   {y, kernel},
                   attrs.with("spatial", Dims{x[1], x[2]}),
                   flops});
  cases.push_back({text + " kernel gradient",
                   &ops::primitives::conv_kernel_grad(),
                   {x, y},
                   attrs.with("window", Dims{window, window}),
                   flops});
}

void add_pooling(std::vector<Case>& cases, const Shape& x) {
  const Shape y = {x[0], x[1] / 2, x[2] / 2, x[3]};
  const std::string text = fmt::format("max pool {}x{}x{}x{}", x[0], x[1], x[2], x[3]);
  const Attrs attrs = {{"window", Dims{2, 2}}, {"strides", Dims{2, 2}}, {"padding", std::vector<Dims>{{0, 0}, {0, 0}}}};
  cases.push_back({text, &ops::primitives::window_max(), {x}, attrs});
  cases.push_back({text + " gradient", &ops::primitives::window_scatter(), {y, y}, {{"spatial", Dims{x[1], x[2]}}}});
  cases.push_back({"sum" + text.substr(3), &ops::primitives::window_sum(), {x}, attrs});
}

/// Queries, keys and values of one shape [batch, length, heads, features], no bias, and a mask that hides nothing. What
/// a causal window hides counts as computed.
void add_attention(std::vector<Case>& cases, std::string_view name, const Shape& q, bool is_causal) {
  const Shape lse = {q[0], q[1], q[2]}, one = {1, 1, 1, 1};
  const Attrs attrs = {{"scale", 0.125}, {"window", is_causal ? Dims{-1, 0} : Dims{-1, -1}}};
  const double flops = 4.0 * static_cast<double>(q.size() * q[1]);
  const std::string text =
      fmt::format("{} attention {}x{}x{}x{}{}", name, q[0], q[1], q[2], q[3], is_causal ? " causal" : "");
  cases.push_back({text, &ops::primitives::attention(), {q, q, q, one, one}, attrs, flops});
  cases.push_back({text + " gradient",
                   &ops::primitives::attention_grad(),
                   {q, q, q, one, one, q, lse, q, lse},
                   attrs,
                   2.5 * flops});
}

std::vector<Case> cases() {
  std::vector<Case> list;
  for (const std::int64_t n : {8, 16, 32, 64, 256, 1024}) list.push_back(product("square", n, n, n, false, false));
  list.push_back(product("mlp", 64, 784, 512, false, false));
  list.push_back(product("mlp", 784, 64, 512, true, false));
  list.push_back(product("mlp", 64, 512, 512, false, true));
  list.push_back(product("mlp", 64, 512, 10, false, false));
  list.push_back(product("gpt", 512, 256, 1024, false, false));
  list.push_back(product("gpt", 256, 512, 1024, true, false));
  list.push_back(product("lstm", 16, 256, 1024, false, false));
  list.push_back(product("lstm", 256, 16, 1024, true, false));
  for (const std::int64_t n : {64, 256, 1024, 4096}) {
    list.push_back(product("vector", 1, n, n, false, false));
    list.push_back(product("vector", 1, n, n, false, true));
  }
  list.push_back(product("vector", 1, 4096, 10, false, false));
  list.push_back(product("vector", 784, 4096, 1, true, false));
  add_convolutions(list, "cnn", {32, 28, 28, 1}, 3, 32, 1, 1);
  add_convolutions(list, "cnn", {32, 14, 14, 32}, 3, 64, 1, 1);
  add_convolutions(list, "resnet20", {32, 32, 32, 16}, 3, 16, 1, 1);
  add_convolutions(list, "resnet20 stride 2", {32, 32, 32, 16}, 3, 32, 2, 1);
  add_convolutions(list, "resnet20", {32, 8, 8, 64}, 3, 64, 1, 1);
  add_convolutions(list, "resnet18", {16, 4, 4, 512}, 3, 512, 1, 1);
  add_convolutions(list, "pointwise", {8, 28, 28, 64}, 1, 256, 1, 1);
  add_convolutions(list, "depthwise", {8, 28, 28, 64}, 3, 64, 1, 64);
  add_attention(list, "vit", {16, 64, 3, 64}, false);
  add_attention(list, "gpt", {4, 128, 4, 64}, true);
  add_attention(list, "long", {1, 1024, 4, 64}, true);
  add_attention(list, "narrow", {4, 256, 4, 32}, false);
  add_attention(list, "wide", {2, 256, 4, 128}, true);
  add_pooling(list, {32, 28, 28, 32});
  add_pooling(list, {32, 14, 14, 64});
  return list;
}

/// The case's operands: floats in [-1, 1), integers zero, bools true.
std::vector<eval::HostArray> draw(const std::vector<ArrayType>& types, const backend::Backend& memory) {
  std::mt19937 bits(7);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<eval::HostArray> arrays;
  for (const ArrayType& type : types) {
    std::vector<float> values(static_cast<std::size_t>(type.size()));
    if (type.dtype == float32) {
      for (float& x : values) x = uniform(bits);
    }
    std::span<const std::byte> bytes = std::as_bytes(std::span(values));
    const std::vector<std::byte> truths(values.size(), std::byte{1});
    if (type.dtype == bool_) bytes = truths;
    arrays.push_back(eval::host_array(type, bytes, memory));
  }
  return arrays;
}

ir::FunctionPtr function_of(const Case& c, const std::vector<ArrayType>& types) {
  ir::Builder builder{ir::AxisSizes()};
  std::vector<ir::Var> inputs;
  for (const ArrayType& type : types) inputs.push_back(builder.input(type));
  return builder.finish(builder.apply(*c.op, inputs, c.attrs));
}

/// Seconds that the calling thread has run; kernels of one device run on it.
double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

compile::Options options_with(const std::vector<std::shared_ptr<const backend::Backend>>& backends) {
  compile::Options options;
  options.backends = backends;
  return options;
}

class Contestant {
 public:
  Contestant(const ir::FunctionPtr& function, const std::vector<std::shared_ptr<const backend::Backend>>& backends,
             std::vector<eval::HostArray> operands)
      : executable_(compile::lower(function, options_with(backends))), operands_(std::move(operands)) {
    runtime::run(*executable_, operands_);
  }

  /// Seconds a run, over runs that take at least `least` seconds together.
  double time(double least) const {
    const double start = thread_seconds();
    double elapsed = 0;
    int runs = 0;
    for (; elapsed < least; ++runs) {
      runtime::run(*executable_, operands_);
      elapsed = thread_seconds() - start;
    }
    return elapsed / runs;
  }

 private:
  std::shared_ptr<const executable::Executable> executable_;
  std::vector<eval::HostArray> operands_;
};

void compare(const Case& c, const std::vector<std::shared_ptr<const backend::Backend>>& aten) {
  std::vector<ArrayType> types;
  for (const Shape& shape : c.operands) types.push_back({float32, shape, {}});
  if (c.op->name == "window_scatter") types[0].dtype = int32;
  if (c.op->name.starts_with("attention")) types[4].dtype = bool_;
  const ir::FunctionPtr function = function_of(c, types);
  const Contestant ours(function, backend::built_backends(), draw(types, *aten[0]));
  const Contestant theirs(function, aten, draw(types, *aten[0]));
  std::vector<double> our_times, their_times;
  for (int round = 0; round < 9; ++round) {
    our_times.push_back(ours.time(0.004));
    their_times.push_back(theirs.time(0.004));
  }
  const double a = median(our_times), b = median(their_times);
  fmt::print("{:44} {:10.1f} us {:7.1f} GFLOP/s   ATen {:10.1f} us {:7.1f} GFLOP/s   {:6.2f}\n", c.name, 1e6 * a,
             c.flops / a * 1e-9, 1e6 * b, c.flops / b * 1e-9, b / a);
}

void run(std::string_view filter) {
  std::vector<std::shared_ptr<const backend::Backend>> aten;
  for (const auto& backend : backend::built_backends()) {
    if (backend->name() == "cpu" || backend->name() == "aten") aten.push_back(backend);
  }
  for (const Case& c : cases()) {
    if (c.name.find(filter) != std::string::npos) compare(c, aten);
  }
}

}  // namespace
}  // namespace lockstep::benches

/// bench_ops [part of the names to time]
int main(int count, char** arguments) {
  try {
    lockstep::benches::run(count > 1 ? arguments[1] : "");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_ops: %s\n", error.what());
    return 2;
  }
}
