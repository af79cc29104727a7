#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/runtime/values.h"
#include "tests/support/mapped_program.h"
#include "tests/support/permissive_backend.h"
#include "tests/support/run_compiled.h"
#include "tests/support/thread_processes.h"

// What is cut over the processes and gathered where it is read.
namespace lockstep::tests {
namespace {

using ir::Value;

constexpr std::int64_t width = 64;

const ir::AxisSizes& line() {
  static const ir::AxisSizes mesh({{"data", 4}});
  return mesh;
}

Value gathered(const Value& block, std::int64_t dim) {
  return ops::apply_one(ops::primitives::all_gather_invariant(), {block},
                        {{"axis", std::string("data")}, {"dim", dim}});
}

Value matrix_product(const Value& x, const Value& w) {
  using Pairs = std::vector<std::vector<std::int64_t>>;
  return ops::apply_one(ops::primitives::dot_general(), {x, w},
                        {{"batch", Pairs{{}, {}}}, {"contract", Pairs{{1}, {0}}}});
}

/// Four layers, and what comes back through them: each weight is read twice but for the last one.
ir::FunctionPtr there_and_back(int devices) {
  const ArrayType weight{DType::float32, Shape{width, width}, {}};
  const std::vector<ArrayType> types = {weight, weight, weight, weight, {DType::float32, Shape{8, width}, {}}};
  const MapSpec spec{
      line(), devices, {{"data", ""}, {"data", ""}, {"data", ""}, {"data", ""}, {"data", ""}}, {{"data", ""}}};
  return mapped(types, spec, [](ir::Builder&, std::span<const Value> x) {
    Values wholes;
    for (std::size_t i = 0; i < 4; ++i) wholes.push_back(gathered(x[i], 0));
    Value h = x[4];
    for (const Value& w : wholes) h = ops::sin(matrix_product(h, w));
    for (std::size_t i = 3; i-- > 0;) h = ops::sin(matrix_product(h, wholes[i]));
    return Values{h};
  });
}

}  // namespace

TEST_CASE("what is gathered of arguments is whole while it is read, and gathered again where others were between") {
  const std::int64_t whole = width * width * 4;
  for (const int devices : {1, 2}) {
    const ir::FunctionPtr f = there_and_back(devices);
    const std::vector<eval::HostArray> arguments = random_host_arrays(f->input_types(), 3);
    const Bytes expected = evaluated(f, arguments);
    for (const int processes : {1, 2, 4}) {
      if (devices * processes > 4) continue;
      for (const bool has_windows : {false, true}) {
        CAPTURE(devices);
        CAPTURE(processes);
        CAPTURE(has_windows);
        std::mutex mutex;
        const auto run = [&](const std::shared_ptr<Processes>& together) {
          compile::Options options = verified(permissive_backend());
          options.processes = together;
          const auto executable = compile::lower(f, options);
          const executable::PlanReport plan = executable->plan();
          std::vector<Bytes> results;
          for (int i = 0; i < 3; ++i) results.push_back(bytes_of(runtime::run(*executable, arguments)));
          const std::lock_guard lock(mutex);
          for (const Bytes& result : results) CHECK(result == expected);
          const bool is_late = processes > 1 && devices * processes == 4;
          CHECK(plan.collectives == (is_late ? 7 : 4));
          if (is_late) CHECK(static_cast<std::int64_t>(plan.arena_bytes) < 3 * whole);
        };
        run_processes(
            processes, run, [](int) { return ProcessOptions(); }, has_windows);
      }
    }
  }
}

TEST_CASE("blocks of all processes are gathered into place, along any dimension, in several pieces") {
  struct Row {
    Shape block;
    std::int64_t dim;
    DType dtype;
  };
  const std::vector<Row> rows = {{Shape{3, 5, 2}, 0, DType::float32},
                                 {Shape{3, 5, 2}, 1, DType::bfloat16},
                                 {Shape{3, 5, 2}, 2, DType::float32},
                                 {Shape{7, 70001}, 1, DType::float32},
                                 {Shape{300001}, 0, DType::float32}};
  for (const Row& row : rows) {
    CAPTURE(row.dim);
    const ArrayType type{
        row.dtype, row.block.with(static_cast<int>(row.dim), 4 * row.block[static_cast<int>(row.dim)]), {}};
    std::vector<std::string> cut(static_cast<std::size_t>(row.block.rank()));
    const std::vector<std::string> whole = cut;
    cut[static_cast<std::size_t>(row.dim)] = "data";
    const ir::FunctionPtr f = mapped({type}, {line(), 1, {cut}, {whole}}, [&](ir::Builder&, std::span<const Value> x) {
      return Values{gathered(ops::sin(x[0]), row.dim)};
    });
    const std::vector<eval::HostArray> arguments = random_host_arrays({type}, 6);
    const Bytes expected = evaluated(f, arguments);
    for (const int processes : {2, 4}) {
      for (const bool has_windows : {false, true}) {
        std::mutex mutex;
        const auto run = [&](const std::shared_ptr<Processes>& together) {
          compile::Options options = verified(permissive_backend());
          options.processes = together;
          const auto executable = compile::lower(f, options);
          for (int i = 0; i < 3; ++i) {
            const Bytes result = bytes_of(runtime::run(*executable, arguments));
            const std::lock_guard lock(mutex);
            CHECK(result == expected);
          }
        };
        run_processes(
            processes, run, [](int) { return ProcessOptions(); }, has_windows);
      }
    }
  }
}

TEST_CASE("of two processes with windows, sums over shards are made where the other one reads them") {
  const ArrayType type{DType::float32, Shape{4, 40001}, {}};
  const MapSpec spec{line(), 1, {{"data", ""}}, {{"", ""}}};
  const ir::FunctionPtr f = mapped({type}, spec, [](ir::Builder&, std::span<const Value> x) {
    return Values{ops::psum(ops::sin(x[0]), {"data"}) * 0.5};
  });
  const std::vector<eval::HostArray> arguments = random_host_arrays({type}, 9);
  const Bytes expected = evaluated(f, arguments);
  for (const bool has_windows : {false, true}) {
    std::mutex mutex;
    const auto run = [&](const std::shared_ptr<Processes>& together) {
      compile::Options options = verified(permissive_backend());
      options.processes = together;
      const auto executable = compile::lower(f, options);
      const Bytes result = bytes_of(runtime::run(*executable, arguments));
      const std::lock_guard lock(mutex);
      CHECK(result == expected);
      CHECK((executable->window_bytes >= 40001 * 4) == has_windows);
      CHECK((executable->print().find("@window") != std::string::npos) == has_windows);
    };
    run_processes(
        2, run, [](int) { return ProcessOptions(); }, has_windows);
  }
}

}  // namespace lockstep::tests
