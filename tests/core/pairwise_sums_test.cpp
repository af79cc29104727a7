#include <algorithm>
#include <bit>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/backend/pairwise_sums.h>

using lockstep::backend::PairwiseSums;

namespace {

float joined(std::span<const float> blocks) {
  PairwiseSums<float> sums;
  for (const float block : blocks) sums.add(block);
  return sums.total();
}

/// The largest power of two of blocks that leaves some, and the rest.
float by_halves(std::span<const float> blocks) {
  if (blocks.size() == 1) return blocks[0];
  const std::size_t left = std::bit_floor(blocks.size() - 1);
  return by_halves(blocks.first(left)) + by_halves(blocks.subspan(left));
}

}  // namespace

TEST_CASE("blocks are joined in pairs, and a power of two of them may be joined apart") {
  CHECK(joined({}) == 0);
  std::vector<float> blocks;
  for (int i = 1; i <= 100; ++i) {
    blocks.push_back(1.0F / static_cast<float>(i) - 0.03F);
    const float sum = joined(blocks);
    CHECK(sum == by_halves(blocks));
    for (const std::size_t apart : {2U, 8U}) {
      std::vector<float> joined_apart;
      for (std::size_t first = 0; first < blocks.size(); first += apart) {
        joined_apart.push_back(joined(std::span(blocks).subspan(first, std::min(apart, blocks.size() - first))));
      }
      CHECK(joined(joined_apart) == sum);
    }
  }
}
