#include "backends/jit/code_cache.h"

#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include "tests/backends/jit/loops.h"

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

TEST_CASE("code lives as long as a kernel that runs it, the newest without one: constants without end do not add up") {
  for (const backend::Isa isa : usable_sets()) {
    CodeCache cache(isa);
    if (cache.is_refused()) return skip("the system lets no page be executed that was written");
    const auto kept = cache.get(plus(-1), "kept");
    REQUIRE(kept != nullptr);
    for (int i = 0; i < 2000; ++i) {
      REQUIRE(cache.get(plus(static_cast<float>(i)), "passing") != nullptr);
      REQUIRE(cache.size() <= 2 * (CodeCache::newest_kept + 1));
    }
    const std::weak_ptr<const MachineCode> newest = cache.get(plus(1999), "passing"),
                                           older = cache.get(plus(0), "again");
    CHECK(!newest.expired());
    for (std::size_t i = 0; i < CodeCache::newest_kept; ++i) {
      REQUIRE(cache.get(plus(static_cast<float>(i + 1)), "passing") != nullptr);
    }
    CHECK(newest.expired());
    CHECK(older.expired());
    CHECK(cache.get(plus(-1), "kept") == kept);

    std::vector<std::shared_ptr<const MachineCode>> all;
    for (int i = 0; i < 300; ++i) all.push_back(cache.get(plus(static_cast<float>(i)), "many"));
    for (std::size_t i = 0; i < all.size(); ++i) CHECK(cache.get(plus(static_cast<float>(i)), "many") == all[i]);
  }
}

}  // namespace lockstep::tests
