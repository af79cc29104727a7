#include <doctest/doctest.h>

#include "tests/support/control_flow_program.h"
#include "tests/support/permissive_backend.h"
#include "tests/support/run_compiled.h"
#include "tests/support/thread_processes.h"

namespace lockstep::tests {
namespace {

using ir::Value;
using Values = std::vector<Value>;

ir::AxisSizes mesh(std::vector<ir::AxisSizes::Axis> axes) { return ir::AxisSizes(std::move(axes)); }

/// The results of every process.
std::vector<Bytes> run_everywhere(const ir::FunctionPtr& f, const std::vector<eval::HostArray>& arguments,
                                  int processes) {
  std::vector<Bytes> results(static_cast<std::size_t>(processes));
  run_processes(processes, [&](const std::shared_ptr<Processes>& processes) {
    compile::Options options;
    options.backends = {permissive_backend()};
    options.processes = processes;
    const auto executable = compile::lower(f, options);
    for (int i = 0; i < 2; ++i) {
      results[static_cast<std::size_t>(processes->rank())] = bytes_of(runtime::run(*executable, arguments));
    }
  });
  return results;
}

/// A random body whose first three results are whole; the last one is cut as `spec` says.
ir::FunctionPtr random_map(std::uint64_t seed, MapSpec spec, const std::vector<ArrayType>& types, const Shape& last) {
  const auto body = [&](ir::Builder& b, std::span<const Value> x) {
    std::vector<Value> results = RandomBody(seed, spec.mesh, 12)(b, x);
    for (std::size_t i = 0; i < 3; ++i) spec.out[i].assign(static_cast<std::size_t>(results[i].rank()), "");
    results[3] = ops::broadcast_in_dim(ops::reduce_sum(results[3], {0}), last, {});
    return results;
  };
  std::vector<ArrayType> local;
  for (std::size_t i = 0; i < types.size(); ++i) local.push_back(local_type(types[i], spec.in[i], spec.mesh));
  make_function(local, body, spec.mesh);
  return mapped(types, spec, body);
}

}  // namespace

TEST_CASE("2 and 4 processes give the bits of one") {
  const std::vector<ArrayType> types = {{DType::float32, Shape{8, 8}, {}}, {DType::float32, Shape{3, 8}, {}}};
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    const MapSpec spec{mesh({{"batch", 8}}), 2, {{"batch", ""}, {"", ""}}, {{}, {}, {}, {"", "batch"}}};
    const ir::FunctionPtr f = random_map(seed, spec, types, Shape{2, 3});
    const std::vector<eval::HostArray> arguments = random_host_arrays(types, seed);
    const Bytes expected = evaluated(f, arguments);
    for (int processes : {2, 4}) {
      CAPTURE(processes);
      for (const Bytes& result : run_everywhere(f, arguments, processes)) CHECK(result == expected);
    }
  }
}

TEST_CASE("axes that lie within a process and across processes") {
  const std::vector<ArrayType> types = {{DType::float32, Shape{4, 8}, {}}, {DType::float32, Shape{3, 4}, {}}};
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    const MapSpec spec{
        mesh({{"data", 4}, {"model", 2}}), 1, {{"data", "model"}, {"", "data"}}, {{}, {}, {}, {"model", "data"}}};
    const ir::FunctionPtr f = random_map(seed, spec, types, Shape{2, 3});
    const std::vector<eval::HostArray> arguments = random_host_arrays(types, seed);
    const Bytes expected = evaluated(f, arguments);
    for (int processes : {2, 4, 8}) {
      CAPTURE(processes);
      for (const Bytes& result : run_everywhere(f, arguments, processes)) CHECK(result == expected);
    }
  }
}

TEST_CASE("several axes cut a dimension, in any order, within a process and across processes") {
  const std::vector<ArrayType> types = {{DType::float32, Shape{16, 4}, {}}, {DType::float32, Shape{3, 8}, {}}};
  struct Row {
    Layouts in;
    std::vector<std::string> last;
  };
  const std::vector<Row> rows = {{{{"data,model", ""}, {"", "model"}}, {"", "data,model"}},
                                 {{{"model,data", ""}, {"", "data"}}, {"data,model", ""}},
                                 {{{"model,data", ""}, {"", "data,model"}}, {"model,data", ""}}};
  for (const Row& row : rows) {
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
      CAPTURE(seed);
      MapSpec spec{mesh({{"data", 4}, {"model", 2}}), 1, row.in, {{}, {}, {}, row.last}};
      const std::vector<eval::HostArray> arguments = random_host_arrays(types, seed);
      const ir::FunctionPtr f = random_map(seed, spec, types, Shape{2, 3});
      const Bytes expected = evaluated(f, arguments);
      for (int devices : {1, 2, 8}) {
        spec.devices = devices;
        CHECK(compiled(random_map(seed, spec, types, Shape{2, 3}), arguments, permissive_backend()) == expected);
      }
      for (int processes : {2, 4, 8}) {
        CAPTURE(processes);
        for (const Bytes& result : run_everywhere(f, arguments, processes)) CHECK(result == expected);
      }
    }
  }
}

TEST_CASE("bfloat16 stays float32 between processes") {
  const MapSpec spec{mesh({{"batch", 8}}), 1, {{"batch"}}, {{""}}};
  const ArrayType type{DType::bfloat16, Shape{8}, {}};
  const ir::FunctionPtr f =
      mapped({type}, spec, [](ir::Builder&, std::span<const Value> x) { return Values{ops::psum(x[0], {"batch"})}; });
  const eval::HostArray argument = to_host(type, {256, 1, 0.5, 0.5, 256, 1, 0.5, 0.5});
  const Bytes expected = evaluated(f, {argument});
  for (int processes : {2, 4, 8}) {
    for (const Bytes& result : run_everywhere(f, {argument}, processes)) CHECK(result == expected);
  }
}

TEST_CASE("a large sum is cut into tiles here and chunks between processes") {
  const MapSpec spec{mesh({{"batch", 4}}), 2, {{"batch", ""}}, {{"", ""}}};
  const ArrayType type{DType::float32, Shape{4, 40001}, {}};
  const ir::FunctionPtr f = mapped({type}, spec, [](ir::Builder&, std::span<const Value> x) {
    return Values{ops::psum(ops::sin(x[0]), {"batch"}) * 0.5};
  });
  const std::vector<eval::HostArray> arguments = random_host_arrays({type}, 9);
  const Bytes expected = evaluated(f, arguments);
  for (const Bytes& result : run_everywhere(f, arguments, 2)) CHECK(result == expected);
}

TEST_CASE("loops with collectives over processes, and loops without") {
  const std::vector<ArrayType> types = {{DType::float32, Shape{8, 3}, {}}, {DType::float32, Shape{3}, {}}};
  for (const auto& [name, sizes] : {std::pair("one axis", 8), std::pair("two axes", 4)}) {
    CAPTURE(name);
    const ir::AxisSizes axes = sizes == 8 ? mesh({{"batch", 8}}) : mesh({{"batch", 4}, {"model", 2}});
    const MapSpec spec{axes, 1, {{"batch", ""}, {""}}, {{"batch", ""}, {""}, {"", "", ""}}};
    const ir::FunctionPtr f = mapped(types, spec, [](ir::Builder&, std::span<const Value> v) {
      const Value start = scan({2, 0, 1, false}, {v[0]},
                               [](ir::Builder&, std::span<const Value> u) { return Values{ops::sin(u[0])}; })[0];
      return scan({3, 0, 2, false}, {start, v[1]}, [](ir::Builder&, std::span<const Value> u) {
        const Value s = ops::psum(ops::reduce_sum(u[0], {0}), {"batch"});
        const Value all = ops::apply_one(ops::primitives::all_gather_invariant(), {u[0]},
                                         {{"axis", std::string("batch")}, {"dim", std::int64_t{0}}});
        const Value wide = ops::pvary(ops::broadcast_in_dim(s * u[1], u[0].shape(), {1}), {"batch"});
        return Values{ops::cos(u[0]) * wide, ops::sin(u[1]) + s, all};
      });
    });
    const std::vector<eval::HostArray> arguments = random_host_arrays(types, 4);
    const Bytes expected = evaluated(unrolled(f), arguments);
    for (int processes : {2, 4}) {
      CAPTURE(processes);
      for (const Bytes& result : run_everywhere(f, arguments, processes)) CHECK(result == expected);
    }
  }
}

}  // namespace lockstep::tests
