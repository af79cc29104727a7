#include "engine/compile/memory/memory_plan.h"

#include <algorithm>
#include <numeric>

#include <lockstep/backend/round_up.h>

namespace lockstep::compile {
namespace {

std::size_t aligned(std::size_t bytes) { return backend::round_up(std::max<std::size_t>(bytes, 1), buffer_alignment); }

bool overlap(const Interval& a, const Interval& b) { return a.first <= b.last && b.first <= a.last; }

}  // namespace

MemoryPlan plan_memory(const std::vector<Interval>& intervals) {
  std::vector<std::size_t> order(intervals.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return intervals[a].bytes > intervals[b].bytes; });
  MemoryPlan plan;
  plan.offsets.resize(intervals.size());
  std::vector<std::size_t> by_offset;  // those placed, lowest first
  for (std::size_t i : order) {
    const std::size_t bytes = aligned(intervals[i].bytes);
    std::size_t offset = 0;
    for (std::size_t other : by_offset) {
      if (!overlap(intervals[i], intervals[other])) continue;
      if (offset + bytes <= plan.offsets[other]) break;
      offset = std::max(offset, plan.offsets[other] + aligned(intervals[other].bytes));
    }
    plan.offsets[i] = offset;
    plan.bytes = std::max(plan.bytes, offset + bytes);
    const auto position = std::upper_bound(by_offset.begin(), by_offset.end(), offset,
                                           [&](std::size_t o, std::size_t j) { return o < plan.offsets[j]; });
    by_offset.insert(position, i);
  }
  return plan;
}

}  // namespace lockstep::compile
