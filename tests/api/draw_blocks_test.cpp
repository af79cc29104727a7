// Draws of one block of a larger array, by its number.
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/array_values.h"
#include "tests/support/expect_error.h"

using namespace lockstep;
using tests::check_same_bits;
using tests::expect_error;

namespace {

random::Placement block_number(std::int64_t b, std::int64_t dim = 0) {
  return {.cut = random::Cut{.dim = dim, .axes = {}, .block = b}};
}

/// 16 rows at once, in four blocks, and in six of which the last one has rows beyond.
template <class Draw>
void check_blocks(const Draw& draw) {
  const Array key = random::key(23);
  const Array whole = draw(key, Shape{16, 3}, random::Placement{});
  for (const std::int64_t rows : {4, 3}) {
    std::vector<Array> blocks;
    for (std::int64_t b = 0; b * rows < 16; ++b) blocks.push_back(draw(key, Shape{rows, 3}, block_number(b)));
    check_same_bits(slice_in_dim(concatenate(blocks, 0), 0, 16, 0), whole);
  }
}

}  // namespace

TEST_CASE("blocks that are drawn by their numbers are those of the whole") {
  using Place = random::Placement;
  check_blocks([](const Array& k, const Shape& s, const Place& p) { return random::bits(k, s, 32, p); });
  check_blocks([](const Array& k, const Shape& s, const Place& p) { return random::bits(k, s, 64, p); });
  check_blocks([](const Array& k, const Shape& s, const Place& p) { return random::normal(k, s, float32, p); });
  check_blocks([](const Array& k, const Shape& s, const Place& p) { return random::normal(k, s, bfloat16, p); });
  check_blocks([](const Array& k, const Shape& s, const Place& p) { return random::gamma(k, 0.7, s, float32, p); });
  check_blocks([](const Array& k, const Shape& s, const Place& p) { return random::poisson(k, 12.0, s, int32, p); });
  const auto draw_jitted = [](const Array& k, const Shape& s, const Place& p) {
    return jit([&](const Array& of) { return random::uniform(of, s, float32, 0.0, 1.0, p); })(k);
  };
  check_blocks(draw_jitted);
}

TEST_CASE("blocks are drawn under vmap and in a scan") {
  const Array keys = random::split(random::key(5), 3);
  const auto second = [](const Array& k) { return random::uniform(k, {2, 4}, float32, 0.0, 1.0, block_number(1)); };
  const auto whole = [](const Array& k) { return random::uniform(k, {6, 4}); };
  check_same_bits(vmap(second)(keys), slice_in_dim(vmap(whole)(keys), 2, 4, 1));
  const auto step = [&](const Array& c, const Array& k) { return std::pair(c, second(k)); };
  check_same_bits(scan(step, zeros({}), keys).second, vmap(second)(keys));
}

TEST_CASE("a cut has axes or a block") {
  expect_error<MeshError>(
      [] {
        random::bits(random::key(1), {2}, 32, {.cut = random::Cut{0, {"batch"}, 1}});
      },
      "a cut has axes, whose replicas have the blocks, or a block, not both");
}
