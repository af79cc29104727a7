#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/bits_of_one.h"
#include "tests/support/expect_error.h"
#include "tests/support/launcher.h"

namespace lockstep::tests {
namespace {

/// Sums of several sizes, from a few bytes to several pieces, and blocks of one.
std::string fingerprint_of_sums() {
  const Mesh mesh({{"batch", 4}}, devices("cpu:0-0"));
  const auto sums = pmap(
      [](const Array& x, const Array& y) {
        const Array large = psum(sin(x), {"batch"});
        return std::vector{large, psum(cos(y), {"batch"}), psum(sum(y * pvary(large[0][0], {"batch"})), {"batch"}),
                           psum(y, {"batch"}) * 0.5F, psum_scatter(x, "batch", 1)};
      },
      {.mesh = mesh,
       .in = {sharded("batch"), sharded("batch")},
       .out = {
           {{"0", replicated}, {"1", replicated}, {"2", replicated}, {"3", replicated}, {"4", sharded("batch", 1)}}}});
  const Array x = random::normal(random::key(3), {4, 900004});
  const Array y = random::normal(random::key(4), {8, 7});
  std::vector<Tree> leaves;
  for (int i = 0; i < 3; ++i) {
    for (const Array& result : jit(sums)(x, y)) leaves.emplace_back(result);
  }
  return fingerprint(Tree::list(leaves));
}

}  // namespace

TEST_CASE("what each process on one host does" * doctest::skip()) {
  const std::shared_ptr<Processes>& all = world();
  CHECK(all->name() == "shared_memory");
  std::vector<int> own(1 << 20, all->rank() + 1), both(own.size() * static_cast<std::size_t>(all->size()));
  all->all_gather(std::as_bytes(std::span(own)), std::as_writable_bytes(std::span(both)));
  for (std::size_t i = 0; i < both.size(); i += 4093) CHECK(both[i] == static_cast<int>(i / own.size()) + 1);
  for (const std::size_t bytes : {std::size_t{100}, std::size_t{3} << 20}) {
    const int next = (all->rank() + 1) % all->size();
    all->window(all->rank(), 1, bytes).back() = static_cast<std::byte>(all->rank() + 5);
    all->meet({"a test"}, bytes);
    CHECK(all->window(next, 1, bytes).back() == static_cast<std::byte>(next + 5));
  }
  CHECK_THROWS_WITH_AS(all->broadcast({}, all->size()), doctest::Contains("shared_memory: broadcast from process"),
                       CommunicatorError);
  say_bits(fingerprint_of_sums());
}

TEST_CASE("2 and 4 processes of one host give the bits of one, through windows") {
  if (!can_launch()) return skip(no_launcher());
  const std::string expected = fingerprint_of_sums();
  check_bits_of_one("what each process on one host does", expected);
}

TEST_CASE("which communicator the environment asks for" * doctest::skip()) {
  std::printf("it is %s.\n", std::string(world()->name()).c_str());
}

TEST_CASE("another communicator can be asked for, and one process alone needs none") {
  if (!can_launch()) return skip(no_launcher());
  const std::string test_case = "which communicator the environment asks for";
  CHECK(count(launched(2, test_case), "it is shared_memory.") == 2);
  CHECK(count(launched(2, test_case, "LOCKSTEP_COMMUNICATOR=shared_memory "), "it is shared_memory.") == 2);
  CHECK(count(launched(2, test_case, "LOCKSTEP_COMMUNICATOR=mpi "), "it is mpi.") == 2);
  CHECK(count(launched(2, test_case, "ulimit -f 100000; "), "it is mpi.") == 2);
  CHECK(count(launched(1, test_case), "it is shared_memory.") == 0);
}

}  // namespace lockstep::tests
