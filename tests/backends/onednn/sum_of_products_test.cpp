#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tests/backends/onednn/onednn_runs.h"
#include "tests/backends/onednn/tree_sums.h"

// The products of all shards and their sum in one kernel: the bits of each product's own kernel and a tree of additions.
namespace lockstep::tests {

namespace {

struct SumCase {
  Shape first, second;
  std::int64_t of_first, of_second;
  std::size_t leaves;
  bool in_parts;
};

void check(const SumCase& c) {
  const Attrs attrs = contraction(c.of_first, c.of_second);
  const BackendOp product(onednn(), ops::primitives::dot_general(), {{float32, c.first, {}}, {float32, c.second, {}}},
                          attrs);
  std::vector<Memory> operands;
  std::vector<ArrayType> types;
  std::vector<ArrayView> views;
  std::vector<std::vector<float>> leaves;
  for (std::size_t leaf = 0; leaf < c.leaves; ++leaf) {
    std::vector<Memory> drawn = draw_operands(product, leaf);
    leaves.push_back(floats(product.run(drawn)[0]));
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      views.push_back(contiguous_view(drawn[i].data(), float32, product.inputs[i].shape));
      types.push_back(product.inputs[i]);
      operands.push_back(std::move(drawn[i]));
    }
  }
  const std::vector<float> expected = tree_sum(leaves, 0, c.leaves);
  const backend::KernelRequest request{"sum_of_products", attrs, types, product.outputs, {}};
  const std::unique_ptr<backend::Kernel> whole = onednn().make_kernel(request);
  // Elsewhere oneDNN's own products have other bits.
  if (backend::usable_isa() == backend::Isa::avx512) REQUIRE(whole != nullptr);
  if (whole != nullptr) check_sum(request, *whole, views, expected, c.in_parts);
}

}  // namespace

TEST_CASE("a sum of products has the bits of the products and of a tree of additions") {
  if (!offers()) return skip(not_offered);
  const std::shared_ptr<void> settings = onednn().enter_thread();
  const std::vector<SumCase> cases = {{{16, 784}, {16, 512}, 0, 0, 8, true}, {{32, 784}, {32, 512}, 0, 0, 2, true},
                                      {{30, 700}, {30, 200}, 0, 0, 4, true}, {{16, 49}, {16, 65}, 0, 0, 2, false},
                                      {{50, 17}, {17, 70}, 1, 0, 4, false},  {{3, 130}, {3, 10}, 0, 0, 16, false},
                                      {{30, 203}, {30, 70}, 0, 0, 16, false}};
  for (const SumCase& c : cases) {
    CAPTURE(to_string(c.first));
    CAPTURE(to_string(c.second));
    check(c);
  }
}

TEST_CASE("sums of products of other dtypes and of what does not lie as matrices are left alone") {
  if (!offers()) return skip(not_offered);
  const Attrs attrs = contraction(0, 0);
  const auto offered = [&](DType dtype, const Shape& a, const Shape& b, std::size_t operands) {
    std::vector<ArrayType> types;
    for (std::size_t i = 0; i < operands; ++i) types.push_back({dtype, i % 2 == 0 ? a : b, {}});
    const ArrayType result{dtype, {a[1], b[1]}, {}};
    return onednn().make_kernel({"sum_of_products", attrs, types, {&result, 1}, {}}) != nullptr;
  };
  if (backend::usable_isa() == backend::Isa::avx512) CHECK(offered(float32, {8, 40}, {8, 60}, 4));
  CHECK_FALSE(offered(float32, {33, 40}, {33, 60}, 4));
  CHECK_FALSE(offered(bfloat16, {8, 40}, {8, 60}, 4));
  CHECK_FALSE(offered(float32, {8, 40}, {8, 60}, 6));
  CHECK_FALSE(offered(float32, {8, 1}, {8, 60}, 4));
  CHECK_FALSE(offered(float32, {0, 40}, {0, 60}, 4));
}

}  // namespace lockstep::tests
