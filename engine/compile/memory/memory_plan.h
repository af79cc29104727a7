#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <lockstep/backend/aligned_memory.h>

namespace lockstep::compile {

using backend::buffer_alignment;

/// A value's live range, of liveness analysis: memory wanted from time `first` to time `last`, both included.
struct Interval {
  std::size_t bytes = 0;
  std::int64_t first = 0;
  std::int64_t last = 0;
};

struct MemoryPlan {
  std::vector<std::size_t> offsets;  ///< One per interval, multiples of 64.
  std::size_t bytes = 0;
};

/// Dynamic storage allocation (Wilson et al. 1995) offline: first fit, largest interval first: two intervals that
/// overlap in time never overlap in memory.
MemoryPlan plan_memory(const std::vector<Interval>& intervals);

}  // namespace lockstep::compile
