#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/backend/isa.h>

#include "engine/core/fold_tree.h"
#include "engine/ops/primitives.h"
#include "tests/backends/aten/kernel_runs.h"
#include "tests/support/backend_op.h"
#include "tests/support/dims.h"

// dot_general with `sum_blocks`: the order of sums, as plain loops have it, whatever the other extents are.
namespace lockstep::tests {

namespace {

/// a [rows, depth] or turned, b [depth, columns] or turned.
struct ProductCase {
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
Memory drawn_memory(std::int64_t count, std::mt19937& random) {
  std::normal_distribution<T> normal;
  std::vector<T> values(static_cast<std::size_t>(count));
  for (T& value : values) value = normal(random);
  return Memory(std::as_bytes(std::span<const T>(values)));
}

/// Run in any order. There are some where b is large.
void check_product_parts(const BackendOp& product, const std::vector<Memory>& operands,
                         const std::vector<std::byte>& whole) {
  std::vector<std::unique_ptr<backend::Kernel>> parts =
      aten().make_parts({product.op, product.attrs, product.inputs, product.outputs, {}}, *product.kernel);
  if (backend::usable_isa() != backend::Isa::none && product.inputs[1].size() >= 160000) CHECK(parts.size() > 1);
  if (parts.empty()) return;
  const std::vector<ArrayView> inputs = {contiguous_view(operands[0].data(), float32, product.inputs[0].shape),
                                         contiguous_view(operands[1].data(), float32, product.inputs[1].shape)};
  const Memory result(whole.size());
  const ArrayView output = contiguous_view(result.data(), float32, product.outputs[0].shape);
  std::ranges::reverse(parts);
  for (const std::unique_ptr<backend::Kernel>& part : parts) {
    const Memory scratch(part->scratch_bytes());
    part->run({inputs, {&output, 1}, scratch.data()});
  }
  CHECK(result.bytes() == whole);
}

template <class T>
void check_product(const ProductCase& c, DType dtype) {
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
  operands.push_back(drawn_memory<T>(a_shape.size(), random));
  operands.push_back(drawn_memory<T>(b_shape.size(), random));
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
  if (dtype == float32) check_product_parts(product, operands, result);
}

}  // namespace

TEST_CASE("a product whose order is asked for has the bits of plain loops at every extent") {
  const std::shared_ptr<void> settings = aten().enter_thread();
  std::mt19937 random(3);
  const auto between = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  std::vector<ProductCase> cases = {{1, 1, 1, 1, false, false},       {64, 130, 100, 1, false, true},
                                    {1, 700, 64, 8, true, true},      {97, 1, 48, 4, true, false},
                                    {5, 70, 256, 128, false, false},  {497, 77, 530, 1, false, false},
                                    {13, 70, 257, 1, true, true},     {8, 400, 400, 1, false, false},
                                    {400, 400, 400, 1, false, false}, {64, 400, 800, 2, false, true}};
  for (int i = 0; i < 60; ++i) {
    const std::int64_t blocks = std::int64_t{1} << between(0, 4);
    cases.push_back(
        {between(1, 60), between(1, 90), blocks * between(1, 20), blocks, between(0, 1) == 1, between(0, 1) == 1});
  }
  for (const ProductCase& c : cases) {
    check_product<float>(c, float32);
    check_product<double>(c, float64);
  }
}

}  // namespace lockstep::tests
