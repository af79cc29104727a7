#include "engine/compile/memory/memory_plan.h"

#include <random>
#include <vector>

#include <doctest/doctest.h>

namespace lockstep::tests {

using compile::Interval;
using compile::MemoryPlan;

TEST_CASE("values that live together never overlap") {
  std::mt19937_64 bits(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<Interval> intervals(1 + bits() % 60);
    std::size_t sum = 0;
    for (Interval& interval : intervals) {
      interval.bytes = bits() % 5 == 0 ? 0 : bits() % 5000;
      interval.first = static_cast<std::int64_t>(bits() % 40);
      interval.last = interval.first + static_cast<std::int64_t>(bits() % 12);
      sum += (interval.bytes + 64) / 64 * 64 + 64;
    }
    const MemoryPlan plan = compile::plan_memory(intervals);
    CHECK(plan.bytes <= sum);
    int clashes = 0;
    for (std::size_t i = 0; i < intervals.size(); ++i) {
      const Interval& a = intervals[i];
      clashes += plan.offsets[i] % 64 == 0 && plan.offsets[i] + a.bytes <= plan.bytes ? 0 : 1;
      for (std::size_t j = 0; j < i; ++j) {
        const Interval& b = intervals[j];
        const bool in_time = a.first <= b.last && b.first <= a.last;
        const bool in_space =
            plan.offsets[i] < plan.offsets[j] + b.bytes && plan.offsets[j] < plan.offsets[i] + a.bytes;
        clashes += in_time && in_space && a.bytes > 0 && b.bytes > 0 ? 1 : 0;
      }
    }
    CHECK(clashes == 0);
  }
}

TEST_CASE("values that follow each other share memory") {
  const MemoryPlan plan = compile::plan_memory({{1000, 0, 1}, {1000, 2, 3}, {500, 1, 2}});
  CHECK(plan.offsets[0] == 0);
  CHECK(plan.offsets[1] == 0);
  CHECK(plan.offsets[2] == 1024);
  CHECK(plan.bytes == 1536);
}

}  // namespace lockstep::tests
