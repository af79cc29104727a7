#include "engine/eval/collectives.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include <lockstep/error.h>

#include "engine/core/fold_tree.h"
#include "engine/eval/blocks.h"
#include "engine/eval/shards.h"
#include "engine/ops/primitives.h"
#include "engine/ops/reference_backend.h"
#include "tests/support/expect_error.h"

namespace lockstep::eval {

using namespace ir;

using tests::error_text;

TEST_CASE("the tree of sums depends on the number of values alone") {
  const auto tree = [](int n) {
    return fold_tree<std::string>(
        0, n, [](std::int64_t i, TreeNode) { return std::to_string(i); },
        [](const std::string& a, const std::string& b, TreeNode) { return "(" + a + "+" + b + ")"; });
  };
  CHECK(tree(1) == "0");
  CHECK(tree(2) == "(0+1)");
  CHECK(tree(4) == "((0+1)+(2+3))");
  CHECK(tree(8) == "(((0+1)+(2+3))+((4+5)+(6+7)))");
  CHECK(tree(5) == "((0+1)+(2+(3+4)))");
}

TEST_CASE("siblings in the tree of sums have buffers of their own") {
  using Buffer = std::pair<std::int64_t, int>;
  std::map<Buffer, std::string> buffers;
  const auto write = [&](TreeNode node, const std::string& text) {
    buffers[{node.level, node.side}] = text;
    return Buffer{node.level, node.side};
  };
  for (const int n : {1, 2, 3, 5, 8, 13}) {
    std::string all;
    for (int i = 0; i < n; ++i) all += std::to_string(i) + ",";
    const Buffer root = fold_tree<Buffer>(
        0, n, [&](std::int64_t i, TreeNode node) { return write(node, std::to_string(i) + ","); },
        [&](const Buffer& a, const Buffer& b, TreeNode node) { return write(node, buffers[a] + buffers[b]); });
    CHECK(buffers[root] == all);
  }
}

TEST_CASE("shards are numbered row-major over the mesh") {
  const Shards shards(AxisSizes({{"a", 2}, {"b", 4}}));
  CHECK(shards.count() == 8);
  CHECK(shards.coordinate(6, "a") == 1);
  CHECK(shards.coordinate(6, "b") == 2);
  CHECK(shards.group(6, "a") == std::vector<std::int64_t>{2, 6});
  CHECK(shards.group(6, "b") == std::vector<std::int64_t>{4, 5, 6, 7});
  CHECK(shards.representative(6, {"a"}) == 4);
  CHECK(shards.representative(6, {"b"}) == 2);
  CHECK(shards.representative(6, {"a", "b"}) == 6);
  CHECK(shards.representative(6, {}) == 0);
  int calls = 0;
  const std::vector<std::int64_t> shared = shards.share<std::int64_t>({"b"}, [&](std::int64_t shard) {
    ++calls;
    return 10 * shard;
  });
  CHECK(calls == 4);
  CHECK(shared == std::vector<std::int64_t>{0, 10, 20, 30, 0, 10, 20, 30});
  CHECK(Shards(AxisSizes()).count() == 1);
}

TEST_CASE("blocks are cut out and placed") {
  const std::vector<std::uint16_t> whole = {0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23};
  const Block block{{3, 4}, {2, 2}, {1, 2}, sizeof(std::uint16_t)};
  std::vector<std::uint16_t> part(4);
  cut_block(block, whole.data(), part.data());
  CHECK(part == std::vector<std::uint16_t>{12, 13, 22, 23});
  std::vector<std::uint16_t> target(12);
  place_block(block, part.data(), target.data());
  CHECK(target == std::vector<std::uint16_t>{0, 0, 0, 0, 0, 0, 12, 13, 0, 0, 22, 23});

  std::uint16_t scalar = 0;
  cut_block({{}, {}, {}, sizeof(scalar)}, &whole[3], &scalar);
  CHECK(scalar == 3);
  cut_block({{3, 0}, {1, 0}, {2, 0}, sizeof(scalar)}, nullptr, nullptr);
}

TEST_CASE("only half precision is summed in another dtype") {
  CHECK(accumulation_dtype(float16) == float32);
  CHECK(accumulation_dtype(bfloat16) == float32);
  CHECK(accumulation_dtype(float64) == float64);
  CHECK(accumulation_dtype(int8) == int8);
}

TEST_CASE("what is no collective is refused") {
  CHECK(error_text<IrError>([] {
          run_collective({ops::primitives::add(), {}, {}, {}}, Shards(AxisSizes()), {}, *ops::reference_backend());
        }) == "run_collective: add is no collective");
}

}  // namespace lockstep::eval
