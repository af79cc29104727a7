#include "backends/aten/cut_kernel.h"

#include <algorithm>

#include "backends/cpu/blocks.h"

namespace lockstep::backends::aten {

namespace {

std::int64_t rounded_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

Cut Cut::of_moves(std::int64_t extent, std::int64_t bytes, std::int64_t grain) {
  constexpr std::int64_t least_bytes = std::int64_t{1} << 16;
  const std::int64_t parts = std::clamp<std::int64_t>(bytes / least_bytes, 1, cpu::most_parts);
  return {extent, rounded_up((extent + parts - 1) / parts, grain)};
}

std::vector<std::unique_ptr<Kernel>> CutKernel::parts_of(std::int64_t count) const {
  std::vector<std::unique_ptr<Kernel>> result;
  if (cut_.extent <= count) return result;
  for (std::int64_t first = 0; first < cut_.extent; first += count) {
    result.push_back(make_part_({first, std::min(first + count, cut_.extent)}));
  }
  return result;
}

}  // namespace lockstep::backends::aten
