#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/expect_error.h"
#include "tests/support/mapped_program.h"
#include "tests/support/permissive_backend.h"
#include "tests/support/run_compiled.h"
#include "tests/support/thread_processes.h"

namespace lockstep::tests {
namespace {

using ir::Value;

const std::vector<ArrayType> types = {{DType::float32, Shape{8, 3}, {}}, {DType::float32, Shape{3}, {}}};

/// A sum over `shards` shards of rate * x * w.
ir::FunctionPtr program(double rate, int shards = 8, int devices = 1) {
  const MapSpec spec{ir::AxisSizes({{"batch", shards}}), devices, {{"batch", ""}, {""}}, {{""}}};
  return mapped(types, spec, [rate](ir::Builder&, std::span<const Value> x) {
    const Value w = ops::broadcast_in_dim(x[1], x[0].shape(), {1});
    return std::vector{ops::psum(ops::reduce_sum(ops::mul(x[0], w) * rate, {0}), {"batch"})};
  });
}

struct Call {
  ir::FunctionPtr function;
  std::vector<eval::HostArray> arguments;
  int times = 3;
  Precision precision = Precision::float32;
};

/// What the processes say where the last one does `last`, and the others `most`.
std::vector<std::string> said(const Call& most, const Call& last, int count = 2,
                              const std::vector<ProcessEntries>& descriptions = {{}, {}}) {
  return errors_of_processes(
      count,
      [&](const std::shared_ptr<Processes>& processes) {
        const Call& own = processes->rank() == count - 1 ? last : most;
        compile::Options options;
        options.backends = {permissive_backend()};
        options.processes = processes;
        options.precision = own.precision;
        const auto executable = compile::lower(own.function, options);
        CHECK(executable->communicates());
        for (int i = 0; i < own.times; ++i) runtime::run(*executable, own.arguments);
      },
      [&](int process) { return ProcessOptions{.description = descriptions[process == count - 1 ? 1 : 0]}; });
}

}  // namespace

TEST_CASE("before the first call processes compare what they run, and all say what differs") {
  const std::vector<eval::HostArray> arguments = random_host_arrays(types, 1);
  const Call most{program(0.5), arguments};
  for (const std::string& text : said(most, most, 4)) CHECK(text == "");

  std::vector<eval::HostArray> others = arguments;
  others[1] = random_host_arrays(types, 2)[1];
  struct Case {
    Call last;
    std::string part;
  };
  const std::vector<Case> cases = {
      {{program(0.5), others}, "a compiled function: the value of argument 1 is 'bytes with the hash "},
      {{program(0.25), arguments}, "a compiled function: the program is '"},
      {{program(0.5, 4), arguments}, "the mesh is 'batch 8' in process 0, 'batch 4' in process 1"},
      {{program(0.5, 8, 2), arguments}, "the number of devices a process is '1' in process 0, '2' in process 1"},
      {{program(0.5), arguments, 3, Precision::bfloat16}, "the precision is 'float32' in process 0, 'bfloat16' in"},
  };
  for (const Case& c : cases) {
    for (const std::string& text : said(most, c.last)) {
      CAPTURE(text);
      CHECK(contains(text, c.part));
    }
  }
  const std::vector<std::string> environment =
      said(most, most, 2, {{{"'env OMP_DYNAMIC'", "1"}}, {{"'processor'", "other"}}});
  for (const std::string& text : environment) {
    CAPTURE(text);
    CHECK(contains(text, "'env OMP_DYNAMIC' is '1' in process 0, absent in process 1"));
  }
}

TEST_CASE("what gathers or exchanges outside of maps is compared, and what lies cut by how it lies, not by its bytes") {
  const Attrs rows = {{"axes", std::vector<std::string>{"data", "model"}},
                      {"sizes", std::vector<std::int64_t>{2, 2}},
                      {"devices", device_names(1)},
                      {"layout", std::vector<std::string>{"data", ""}},
                      {"given", true}};
  const Attrs columns = rows.with("layout", std::vector<std::string>{"", "data"}).with("given", false);
  const Attrs whole = rows.with("layout", std::vector<std::string>{"", ""}).with("given", false);
  const auto moved = [](const Attrs& from, const Attrs& to) {
    return make_function({{DType::float32, Shape{8, 4}, {}}, {DType::float32, Shape{3}, {}}},
                         [&](ir::Builder&, std::span<const Value> v) {
                           const Value x = ops::apply_one(ops::primitives::reshard(), {v[0]}, from);
                           return std::vector{ops::apply_one(ops::primitives::reshard(), {x}, to), v[1] * 2.0};
                         });
  };
  // Each process has half of the first argument, with values of its own.
  const auto given = [](std::uint64_t seed, const Shape& part = {4, 4}, std::uint64_t second = 9) {
    const std::vector<eval::HostArray> first = random_host_arrays({{DType::float32, part, {}}}, seed);
    return std::vector{first[0], random_host_arrays({{DType::float32, Shape{3}, {}}}, second)[0]};
  };
  for (const Attrs& to : {whole, columns}) {
    for (const std::string& text : said({moved(rows, to), given(1)}, {moved(rows, to), given(2)})) CHECK(text == "");
    for (const std::string& text : said({moved(rows, to), given(1)}, {moved(rows, to), given(2, {4, 4}, 10)})) {
      CAPTURE(text);
      CHECK(contains(text, "a compiled function: the value of argument 1 is 'bytes with the hash "));
    }
  }
  const Attrs otherwise = rows.with("layout", std::vector<std::string>{"", "data"});
  const Call gathers{moved(rows, whole), given(1)};
  for (const Call& last : {Call{moved(rows, columns), given(2)}, Call{moved(otherwise, whole), given(1, {8, 2})}}) {
    for (const std::string& text : said(gathers, last)) {
      CAPTURE(text);
      CHECK(contains(text, "a compiled function: the program is '"));
    }
  }
}

TEST_CASE("another number of calls, and a call that throws, end all processes") {
  const std::vector<eval::HostArray> arguments = random_host_arrays(types, 1);
  const Call most{program(0.5), arguments};
  const std::vector<std::string> fewer = said(most, {program(0.5), arguments, 2});
  CHECK(fewer[1] == "");
  CHECK(contains(fewer[0], "process 1 has ended after "));
  CHECK(contains(fewer[0], "in call 3 of program "));
}

}  // namespace lockstep::tests
