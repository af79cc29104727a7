#include <array>
#include <cstdio>
#include <memory>
#include <string>

#include <doctest/doctest.h>

#include <lockstep/error.h>
#include <lockstep/processes.h>

#include "tests/support/bits_of_one.h"
#include "tests/support/launcher.h"
#include "tests/support/mapped_program.h"
#include "tests/support/run_compiled.h"

namespace lockstep::tests {
namespace {

using ir::Value;

ir::FunctionPtr step() {
  const MapSpec spec{ir::AxisSizes({{"batch", 8}}), 1, {{"batch", ""}, {""}}, {{"", ""}, {"batch", ""}, {""}}};
  return mapped({{DType::float32, Shape{16, 300}, {}}, {DType::float32, Shape{300}, {}}}, spec,
                [](ir::Builder&, std::span<const Value> x) {
                  const Value w = ops::broadcast_in_dim(x[1], x[0].shape(), {1});
                  const Value y = ops::sin(ops::mul(x[0], w));
                  const Value g = ops::psum(ops::reduce_sum(y, {0}), {"batch"});
                  return std::vector{ops::psum(y, {"batch"}), y * 0.5, ops::sub(x[1], g * 0.25)};
                });
}

/// FNV-1a over all results of the step, run by these processes.
std::string hash_of_step(const std::shared_ptr<Processes>& processes) {
  const ir::FunctionPtr f = step();
  compile::Options options;
  options.backends = {ops::reference_backend()};
  options.processes = processes;
  const auto executable = compile::lower(f, options);
  std::uint64_t hash = 1469598103934665603ULL;
  for (const auto& array : bytes_of(runtime::run(*executable, random_host_arrays(f->input_types(), 11)))) {
    for (std::byte b : array) hash = (hash ^ static_cast<std::uint64_t>(b)) * 1099511628211ULL;
  }
  return std::to_string(hash);
}

}  // namespace

TEST_CASE("what each launched process does" * doctest::skip()) {
  const std::shared_ptr<Processes>& all = world();
  CHECK(all->name() == "mpi");
  std::array<int, 1> root = {all->rank() == 1 ? 7 : 0};
  all->broadcast(std::as_writable_bytes(std::span(root)), 1);
  CHECK(root[0] == 7);
  CHECK_THROWS_WITH_AS(all->broadcast({}, all->size()), doctest::Contains("mpi: broadcast from process"),
                       CommunicatorError);
  CHECK_THROWS_WITH_AS(all->all_gather(std::as_bytes(std::span(root)), {}), doctest::Contains("room for 0 bytes"),
                       CommunicatorError);
  std::array<std::byte, 3> three{};
  CHECK_THROWS_WITH_AS(all->all_to_all(three, three), doctest::Contains("give every process a block of equal size"),
                       CommunicatorError);
  say_bits(hash_of_step(all));
}

TEST_CASE("2 and 4 launched processes give the bits of one") {
  if (!tests::can_launch()) return tests::skip(tests::no_launcher());
  const std::string expected = hash_of_step(nullptr);
  check_bits_of_one("what each launched process does", expected, "LOCKSTEP_COMMUNICATOR=mpi ");
}

TEST_CASE("without a launcher there is one process and no MPI_Init") {
  CHECK(world()->name() == "single_process");
  CHECK(world()->size() == 1);
  std::array<int, 2> sent = {3, 4};
  std::array<int, 2> received = {0, 0};
  world()->all_to_all(std::as_bytes(std::span(sent)), std::as_writable_bytes(std::span(received)));
  CHECK(received == sent);
  CHECK_THROWS_WITH_AS(world()->broadcast({}, 1), doctest::Contains("broadcast from process 1 of 1"),
                       CommunicatorError);
  CHECK_THROWS_WITH_AS(world()->all_gather(std::as_bytes(std::span(sent)), {}),
                       doctest::Contains("room for 0 bytes, expected 8"), CommunicatorError);
}

}  // namespace lockstep::tests
