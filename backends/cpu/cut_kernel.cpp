#include "backends/cpu/cut_kernel.h"

#include <algorithm>

#include <lockstep/backend/round_up.h>

#include "backends/cpu/blocks.h"

namespace lockstep::backend::cpu {

Cut Cut::of_moves(std::int64_t extent, std::int64_t bytes, std::int64_t grain) {
  constexpr std::int64_t least_bytes = std::int64_t{1} << 16;
  const std::int64_t parts = std::clamp<std::int64_t>(bytes / least_bytes, 1, most_parts);
  return {extent, round_up(ceil_div(extent, parts), grain)};
}

std::vector<std::unique_ptr<Kernel>> CutKernel::parts_of(std::int64_t count) const {
  std::vector<std::unique_ptr<Kernel>> result;
  if (cut_.extent <= count) return result;
  for (std::int64_t first = 0; first < cut_.extent; first += count) {
    result.push_back(make_part_({first, std::min(first + count, cut_.extent)}));
  }
  return result;
}

}  // namespace lockstep::backend::cpu
