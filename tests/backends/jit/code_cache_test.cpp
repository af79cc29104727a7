#include "backends/jit/code_cache.h"

#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/skip.h"

namespace lockstep::tests {
namespace {

using backend::jit::CodeCache;
using backend::jit::Loop;
using backend::jit::MachineCode;
using backend::jit::Op;

/// x + constant of any number of elements.
Loop plus(float constant) {
  Loop loop;
  const int x = loop.code.step(Op::load);
  loop.values = {loop.code.step(Op::add, x, loop.code.number(constant))};
  loop.operands = {{}};
  loop.results = {{}};
  return loop;
}

}  // namespace

TEST_CASE("code lives as long as a kernel that runs it: constants without end do not add up") {
  CodeCache cache(backend::usable_isa());
  if (backend::usable_isa() == backend::Isa::none || cache.is_refused())
    return skip("no machine code is made without vector instructions");
  const auto kept = cache.get(plus(-1), "kept");
  REQUIRE(kept != nullptr);
  for (int i = 0; i < 2000; ++i) {
    REQUIRE(cache.get(plus(static_cast<float>(i)), "passing") != nullptr);
    REQUIRE(cache.size() <= 64);
  }
  CHECK(cache.get(plus(-1), "kept") == kept);

  std::vector<std::shared_ptr<const MachineCode>> all;
  for (int i = 0; i < 300; ++i) all.push_back(cache.get(plus(static_cast<float>(i)), "many"));
  for (int i = 0; i < 300; ++i)
    CHECK(cache.get(plus(static_cast<float>(i)), "many") == all[static_cast<std::size_t>(i)]);
}

}  // namespace lockstep::tests
