#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include "engine/core/fold_tree.h"
#include "engine/ops/primitives.h"
#include "tests/backends/aten/kernel_runs.h"
#include "tests/support/backend_op.h"

// dot_general with `sum_blocks`: the order of sums, as plain loops have it, whatever the other extents are.
namespace lockstep::tests {

namespace {

using Dims = std::vector<std::int64_t>;

/// a [rows, depth] or turned, b [depth, columns] or turned.
struct Case {
  std::int64_t rows, columns, depth, blocks;
  bool a_turned, b_turned;
};

template <class T>
std::vector<T> elements(const Memory& memory, std::int64_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  std::memcpy(values.data(), memory.data(), values.size() * sizeof(T));
  return values;
}

/// Wholes and fractions of both signs, so that sums in other orders differ.
template <class T>
Memory drawn(std::int64_t count, std::mt19937& random) {
  std::normal_distribution<T> normal;
  std::vector<T> values(static_cast<std::size_t>(count));
  for (T& value : values) value = normal(random);
  return Memory(std::as_bytes(std::span<const T>(values)));
}

template <class T>
void check(const Case& c, DType dtype) {
  CAPTURE(c.rows);
  CAPTURE(c.columns);
  CAPTURE(c.depth);
  CAPTURE(c.blocks);
  const Shape a_shape = c.a_turned ? Shape{c.depth, c.rows} : Shape{c.rows, c.depth};
  const Shape b_shape = c.b_turned ? Shape{c.columns, c.depth} : Shape{c.depth, c.columns};
  const Attrs attrs{{"contract", std::vector<Dims>{{c.a_turned ? 0 : 1}, {c.b_turned ? 1 : 0}}},
                    {"batch", std::vector<Dims>{{}, {}}},
                    {"sum_blocks", c.blocks}};
  const BackendOp product(aten(), ops::primitives::dot_general(), {{dtype, a_shape, {}}, {dtype, b_shape, {}}}, attrs);
  REQUIRE(product.kernel != nullptr);
  std::mt19937 random(7);
  std::vector<Memory> operands;
  operands.push_back(drawn<T>(a_shape.size(), random));
  operands.push_back(drawn<T>(b_shape.size(), random));
  const auto a = elements<T>(operands[0], a_shape.size()), b = elements<T>(operands[1], b_shape.size());
  const auto result = product.run(std::span<const Memory>(operands))[0];
  const auto in_order = [&](std::int64_t i, std::int64_t j, std::int64_t block) {
    T sum = 0;
    for (std::int64_t k = block * (c.depth / c.blocks); k < (block + 1) * (c.depth / c.blocks); ++k) {
      const T x = a[static_cast<std::size_t>(c.a_turned ? k * c.rows + i : i * c.depth + k)];
      const T y = b[static_cast<std::size_t>(c.b_turned ? j * c.depth + k : k * c.columns + j)];
      sum = std::fma(x, y, sum);
    }
    return sum;
  };
  std::vector<T> expected;
  for (std::int64_t i = 0; i < c.rows; ++i) {
    for (std::int64_t j = 0; j < c.columns; ++j) {
      expected.push_back(fold_tree<T>(
          0, c.blocks, [&](std::int64_t block, TreeNode) { return in_order(i, j, block); },
          [](T left, T right, TreeNode) { return left + right; }));
    }
  }
  REQUIRE(result.size() == expected.size() * sizeof(T));
  CHECK(std::memcmp(result.data(), expected.data(), result.size()) == 0);
}

}  // namespace

TEST_CASE("a product whose order is asked for has the bits of plain loops at every extent") {
  const std::shared_ptr<void> settings = aten().enter_thread();
  std::mt19937 random(3);
  const auto between = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  std::vector<Case> cases = {{1, 1, 1, 1, false, false},
                             {64, 130, 100, 1, false, true},
                             {1, 700, 64, 8, true, true},
                             {97, 1, 48, 4, true, false},
                             {5, 70, 256, 128, false, false}};
  for (int i = 0; i < 60; ++i) {
    const std::int64_t blocks = std::int64_t{1} << between(0, 4);
    cases.push_back(
        {between(1, 60), between(1, 90), blocks * between(1, 20), blocks, between(0, 1) == 1, between(0, 1) == 1});
  }
  for (const Case& c : cases) {
    check<float>(c, float32);
    check<double>(c, float64);
  }
}

}  // namespace lockstep::tests
