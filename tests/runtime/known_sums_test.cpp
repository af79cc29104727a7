#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "tests/runtime/values.h"
#include "tests/support/mapped_program.h"
#include "tests/support/permissive_backend.h"
#include "tests/support/run_compiled.h"
#include "tests/support/thread_processes.h"

// Sums over shards that a map waits for, of what every process has: each makes them for itself.
namespace lockstep::tests {
namespace {

using ir::Value;

const ir::AxisSizes& batch_and_model() {
  static const ir::AxisSizes mesh({{"batch", 4}, {"model", 2}});
  return mesh;
}

using Summand = std::function<Value(const Value&)>;

/// Rows [16, 3], cut along both axes, times something of a sum over all shards.
ir::FunctionPtr weighted(const Summand& summand, const AxisSet& axes = {"batch", "model"},
                         DType dtype = DType::float32) {
  const MapSpec spec{batch_and_model(), 1, {{"batch,model", ""}}, {{"batch,model", ""}}};
  return mapped({{dtype, Shape{16, 3}, {}}}, spec, [&](ir::Builder&, std::span<const Value> x) {
    Value sum = ops::psum(summand(x[0]), axes);
    ops::Dims all;
    for (int d = 0; d < sum.rank(); ++d) all.push_back(d);
    if (sum.rank() > 0) sum = ops::reduce_sum(sum, all);
    const AxisSet missing = AxisSet{"batch", "model"}.without(sum.type().varying);
    return Values{x[0] *
                  ops::broadcast_in_dim(ops::pvary(ops::sin(ops::convert(sum, dtype)), missing), x[0].shape(), {})};
  });
}

Value total(const Value& x) { return ops::reduce_sum(x, {0, 1}); }

/// Collectives that a call begins in a process of `count`, once each of them has given the bits of one process.
std::uint64_t collectives_of_a_call(const ir::FunctionPtr& f, int count) {
  const std::vector<eval::HostArray> arguments = random_host_arrays(f->input_types(), 3);
  const Bytes expected = evaluated(f, arguments);
  std::mutex mutex;
  std::uint64_t begun = 0;
  run_processes(count, [&](const std::shared_ptr<Processes>& processes) {
    compile::Options options;
    options.backends = {permissive_backend()};
    options.processes = processes;
    options.verify = true;
    const auto executable = compile::lower(f, options);
    const Bytes first = bytes_of(runtime::run(*executable, arguments));
    const std::uint64_t before = processes->collectives();
    const Bytes second = bytes_of(runtime::run(*executable, arguments));
    const std::lock_guard lock(mutex);
    begun = processes->collectives() - before;
    CHECK(first == expected);
    CHECK(second == expected);
  });
  return begun;
}

/// Of what leaves the map: its blocks are gathered.
constexpr std::uint64_t of_result = 1;

}  // namespace

TEST_CASE("a sum over all shards of what is little to compute is made by each process, with the bits of one") {
  const std::vector<std::pair<const char*, Summand>> summands = {
      {"rows", total},
      {"the rows' own shape", [](const Value& x) { return x; }},
      {"some arithmetic", [](const Value& x) { return total(ops::cos(x) * x + x); }},
      {"a number that is the same in all shards",
       [](const Value& x) {
         return ops::pvary(ops::full(x.builder(), DType::float32, Shape{}, 2), {"batch", "model"});
       }},
  };
  for (const auto& [name, summand] : summands) {
    CAPTURE(name);
    const ir::FunctionPtr f = weighted(summand);
    for (const int processes : {2, 4, 8}) CHECK(collectives_of_a_call(f, processes) == of_result);
    const std::vector<eval::HostArray> arguments = random_host_arrays(f->input_types(), 3);
    CHECK(compiled(f, arguments, permissive_backend()) == evaluated(f, arguments));
  }
}

TEST_CASE("it still counts among the collectives of the plan") {
  compile::Options options;
  options.backends = {permissive_backend()};
  const auto executable = compile::lower(weighted(total), options);
  CHECK(executable->plan().collectives == 1);
}

TEST_CASE("other sums cross the processes") {
  using Pairs = std::vector<std::vector<std::int64_t>>;
  const auto squared = [](const Value& x) {
    return total(ops::apply_one(ops::primitives::dot_general(), {x, x},
                                {{"contract", Pairs{{0}, {0}}}, {"batch", Pairs{{}, {}}}}));
  };
  const auto many = [](const Value& x) { return ops::broadcast_in_dim(total(x), Shape{65}, {}); };
  CHECK(collectives_of_a_call(weighted(squared), 2) > of_result);           // a product
  CHECK(collectives_of_a_call(weighted(many), 2) > of_result);              // a large result
  CHECK(collectives_of_a_call(weighted(total, {"batch"}), 2) > of_result);  // not over all shards
  CHECK(collectives_of_a_call(weighted([](const Value& x) { return total(ops::convert(x, DType::bfloat16)); }), 2) >
        of_result);  // added up in a wider dtype
}

TEST_CASE("a sum that nothing in the map waits for goes with those that come behind it") {
  const MapSpec spec{ir::AxisSizes({{"batch", 4}}), 1, {{"batch", ""}}, {{}, {""}}};
  const ir::FunctionPtr f =
      mapped({{DType::float32, Shape{8, 100}, {}}}, spec, [](ir::Builder&, std::span<const Value> x) {
        const Value sums = ops::psum(ops::reduce_sum(x[0], {0}), {"batch"});
        return Values{ops::psum(total(x[0]), {"batch"}) * 0.5, sums};
      });
  CHECK(collectives_of_a_call(f, 2) == 1);
}

}  // namespace lockstep::tests
