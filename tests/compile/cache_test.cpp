#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "engine/compile/compile.h"
#include "engine/ops/values.h"
#include "tests/support/control_flow_program.h"

namespace lockstep::tests {
namespace {

/// sin(x) + k
ir::FunctionPtr shifted(double k) {
  return make_function({{DType::float32, Shape{3}, {}}}, [k](ir::Builder&, std::span<const ir::Value> x) {
    const ir::Value y = ops::sin(x[0]);
    return std::vector{ops::add(y, ops::full_like(y, k))};
  });
}

}  // namespace

TEST_CASE("equal functions share one executable, other options another") {
  compile::Options options;
  options.backends = {ops::reference_backend()};
  const auto first = compile::compile(shifted(1), options);
  const compile::CacheStatistics before = compile::cache_statistics();
  CHECK(compile::compile(shifted(1), options) == first);
  CHECK(compile::compile(shifted(2), options) != first);
  options.threads = 2;
  CHECK(compile::compile(shifted(1), options) != first);
  const compile::CacheStatistics after = compile::cache_statistics();
  CHECK(after.hits == before.hits + 1);
  CHECK(after.misses == before.misses + 2);
}

TEST_CASE("threads that compile one function get one executable") {
  compile::Options options;
  options.backends = {ops::reference_backend()};
  std::vector<std::shared_ptr<const executable::Executable>> got(8);
  std::vector<std::thread> threads;
  for (auto& executable : got) threads.emplace_back([&] { executable = compile::compile(shifted(17), options); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& executable : got) CHECK(executable == got[0]);
}

TEST_CASE("the cache is bounded: the oldest entry goes first") {
  compile::Options options;
  options.backends = {ops::reference_backend()};
  const auto kept = compile::compile(shifted(-1), options);
  const auto dropped = compile::compile(shifted(-2), options);
  for (int i = 0; i < 4095; ++i) {
    compile::compile(shifted(1000 + i), options);
    if (i % 1000 == 0) compile::compile(shifted(-1), options);
  }
  CHECK(compile::cache_statistics().entries == 4096);
  CHECK(compile::compile(shifted(-1), options) == kept);
  CHECK(compile::compile(shifted(-2), options) != dropped);
}

TEST_CASE("an executable prints its regions, kernels and slots") {
  compile::Options options;
  options.backends = {ops::reference_backend()};
  CHECK(compile::lower(shifted(1), options)->print() ==
        "devices 1, arena 0, shard 0 x 0, scratch 128, constants 0\n"
        "step 0: once\n"
        "  device 0\n"
        "    f32[3]@scratch = sin f32[3]@arg0\n"
        "    f32[3]@scratch+64 = full\n"
        "    f32[3]@out0 = add f32[3]@scratch f32[3]@scratch+64\n"
        "out0 f32[3] in arg0 where donated\n");
}

namespace {

/// A scan of three steps of `body`, its result scaled.
ir::FunctionPtr scaled_scan(double scale) {
  const ArrayType type{DType::float32, Shape{3}, {}};
  return make_function({type, type}, [=](ir::Builder&, std::span<const ir::Value> in) {
    const auto r = scan({3, 1, 1, false}, {in[0], in[1]},
                        [](ir::Builder&, std::span<const ir::Value> v) { return std::vector{ops::sin(v[1]) + v[0]}; });
    return std::vector{r[0] * scale};
  });
}

}  // namespace

TEST_CASE("programs with one body share its executable") {
  compile::Options options;
  options.backends = {ops::reference_backend()};
  compile::compile(scaled_scan(1.5), options);
  const compile::CacheStatistics before = compile::cache_statistics();
  compile::compile(scaled_scan(2.5), options);
  const compile::CacheStatistics after = compile::cache_statistics();
  CHECK(after.hits == before.hits + 1);
  CHECK(after.misses == before.misses + 1);
}

TEST_CASE("a plan shows loops with their bodies indented") {
  compile::Options options;
  options.backends = {ops::reference_backend()};
  const auto executable = compile::lower(scaled_scan(2), options);
  CHECK(executable->plan().kernels == 3 + 2);
  CHECK(executable->print() ==
        "devices 1, arena 0, shard 0 x 0, scratch 1344, constants 0\n"
        "step 0: once\n"
        "  device 0\n"
        "    f32[3]@scratch+1280 = scan f32[3]@arg0 f32[3]@arg1, 3 times\n"
        "      body: devices 1, arena 0, shard 0 x 0, scratch 64, constants 0\n"
        "        step 0: once\n"
        "          device 0\n"
        "            f32[3]@scratch = sin f32[3]@arg1\n"
        "            f32[3]@out0 = add f32[3]@scratch f32[3]@arg0\n"
        "        out0 f32[3] in arg1 where donated\n"
        "    f32[3]@scratch = full\n"
        "    f32[3]@out0 = mul f32[3]@scratch+1280 f32[3]@scratch\n"
        "out0 f32[3] in arg0 where donated\n");
}

}  // namespace lockstep::tests
