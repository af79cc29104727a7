#pragma once

#include <algorithm>
#include <cstdint>

#include <lockstep/backend/round_up.h>

namespace lockstep::backend::cpu {

/// Into how many parts the work of a kernel is cut at most.
constexpr std::int64_t most_parts = 16;

/// How many of `extent` indices at once, at most `most` but at least one, make blocks of one size but for the last.
constexpr std::int64_t equal_blocks(std::int64_t extent, std::int64_t most) {
  most = std::clamp<std::int64_t>(most, 1, extent);
  const std::int64_t blocks = ceil_div(extent, most);
  return ceil_div(extent, blocks);
}

}  // namespace lockstep::backend::cpu
