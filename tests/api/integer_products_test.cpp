#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/convolution.h>
#include <lockstep/einsum.h>
#include <lockstep/elementwise.h>
#include <lockstep/indexing.h>
#include <lockstep/linalg.h>
#include <lockstep/manipulation.h>
#include <lockstep/ops.h>
#include <lockstep/reductions.h>
#include <lockstep/transforms.h>

#include "tests/support/array_values.h"

// Sums of products of integers are integers: float32, which has no odd number beyond 2^24, takes no part.
using namespace lockstep;

namespace {

struct Operands {
  Array matrix;  ///< [4,4]; products of two elements are about 2^24, odd ones among them.
  Array vector;  ///< [4]
  Array image;   ///< [2,5,5,4]
  Array kernel;  ///< [3,3,4,2]
  Array small;   ///< [4], 1, 2, 3, 4
};

Operands operands_of(DType dtype) {
  const auto from = [dtype](std::int64_t first, const Shape& shape) {
    return convert(reshape(rem(arange(shape.size(), int64), 7) + first, shape.to_vector()), dtype);
  };
  return {from(4095, {4, 4}), from(4093, {4}), from(4091, {2, 5, 5, 4}), from(4093, {3, 3, 4, 2}), from(1, {4})};
}

struct ProductRow {
  std::string what;
  std::function<Array(const Operands&)> function;
};

std::vector<ProductRow> products() {
  using O = const Operands&;
  return {
      {"matmul", [](O x) { return matmul(x.matrix, x.matrix); }},
      {"matmul of a vector", [](O x) { return matmul(x.matrix, x.vector); }},
      {"matmul of a batch", [](O x) { return matmul(x.image, x.matrix); }},
      {"dot_general",
       [](O x) {
         return dot_general(x.image, x.kernel, {{3}, {2}}, {});
       }},
      {"einsum",
       [](O x) {
         return einsum("ij,kj->ik", {x.matrix, x.matrix});
       }},
      {"einsum to a scalar",
       [](O x) {
         return einsum("ij,ij->", {x.matrix, x.matrix});
       }},
      {"einsum along a diagonal",
       [](O x) {
         return einsum("ii,i->i", {x.matrix, x.vector});
       }},
      {"inner", [](O x) { return linalg::inner(x.matrix, x.vector); }},
      {"outer", [](O x) { return linalg::outer(x.vector, x.vector); }},
      {"vdot", [](O x) { return linalg::vdot(x.vector, x.vector); }},
      {"tensordot", [](O x) { return linalg::tensordot(x.matrix, x.matrix, 1); }},
      {"kron", [](O x) { return linalg::kron(x.matrix, x.vector); }},
      {"matrix_power", [](O x) { return linalg::matrix_power(x.matrix, 2); }},
      {"multi_dot",
       [](O x) {
         return linalg::multi_dot(std::vector<Array>{x.vector, x.matrix, x.small});
       }},
      {"trace", [](O x) { return linalg::trace(x.matrix * x.matrix); }},
      {"sum",
       [](O x) {
         return sum(x.image * x.image, Axes{1, 2});
       }},
      {"prod", [](O x) { return prod(slice_in_dim(x.matrix, 0, 2, 1), Axes{1}); }},
      {"cumsum", [](O x) { return cumsum(x.matrix * x.matrix, 1); }},
      {"cumprod", [](O x) { return cumprod(slice_in_dim(x.matrix, 0, 2, 1), 1); }},
      {"power", [](O x) { return power(x.vector, 2); }},
      {"polyval", [](O x) { return polyval(x.vector * x.vector, x.small); }},
      {"segment_sum",
       [](O x) {
         return segment_sum(x.vector * x.vector, array({0, 1, 0, 1}), 2);
       }},
      {"sum_pool",
       [](O x) {
         return sum_pool(x.image * x.image, {.window = {2, 2}, .strides = {1, 1}});
       }},
      {"reduce_window_sum",
       [](O x) {
         return reduce_window_sum(x.matrix * x.matrix, {.window = {2, 2}});
       }},
      {"convolve", [](O x) { return convolve(x.vector, x.vector); }},
      {"correlate", [](O x) { return correlate(x.vector, x.vector, "full"); }},
      {"conv",
       [](O x) {
         return conv(x.image, x.kernel, {.strides = {2, 1}, .padding = {{1, 0}, {0, 2}}});
       }},
      {"conv in groups",
       [](O x) {
         return conv(x.image, slice_in_dim(x.kernel, 0, 2, 2), {.dilation = {2, 1}, .groups = 2});
       }},
      {"conv_general_dilated",
       [](O x) {
         return conv_general_dilated(x.image, x.kernel, {.padding = "SAME", .lhs_dilation = {2, 3}});
       }},
      {"conv_general_dilated in groups of the batch",
       [](O x) {
         return conv_general_dilated(x.image, x.kernel, {.strides = {2, 2}, .batch_group_count = 2});
       }},
      {"conv_transpose",
       [](O x) {
         return conv_transpose(x.image, x.kernel, {.strides = {2, 2}});
       }},
      {"depthwise_conv",
       [](O x) {
         return depthwise_conv(x.image, slice_in_dim(reshape(x.kernel, {3, 3, 1, 8}), 0, 4, 3));
       }},
      {"conv over a batch",
       [](O x) {
         const auto f = [](const Array& a, const Array& k) { return conv(a, k); };
         return vmap(f)(stack(std::vector<Array>{x.image, x.image + x.small[0]}, 0),
                        stack(std::vector<Array>{x.kernel, x.kernel}, 0));
       }},
      {"conv over a batch of kernels",
       [](O x) {
         const auto f = [&](const Array& k) { return conv(x.image, k); };
         return vmap(f)(stack(std::vector<Array>{x.kernel, x.kernel + x.small[1]}, 0));
       }},
  };
}

}  // namespace

TEST_CASE("products and convolutions of integers are exact") {
  const Operands exact = operands_of(float64);
  for (const DType dtype : {int32, uint32, int64, uint64}) {
    for (const ProductRow& row : products()) {
      CAPTURE(row.what);
      CAPTURE(name(dtype));
      const Array given = row.function(operands_of(dtype));
      CHECK(given.dtype() == dtype);
      CHECK(tests::values(given) == tests::values(row.function(exact)));
    }
  }
}

TEST_CASE("a convolution leaves integers what they are, whatever their size") {
  const Array one = full({1, 1, 1, 1}, 1, int32);
  CHECK(conv(full({1, 2, 2, 1}, 16777217, int32), one).to_vector<std::int32_t>() ==
        std::vector<std::int32_t>(4, 16777217));
  const std::int64_t large = (std::int64_t{1} << 60) + 1;
  CHECK(conv(full({1, 2, 2, 1}, large, int64), full({2, 2, 1, 1}, 3, int64)).item<std::int64_t>() ==
        static_cast<std::int64_t>(12 * static_cast<std::uint64_t>(large)));
}

TEST_CASE("sums of products beyond a dtype's range wrap around, as all arithmetic on integers") {
  const Array x = full({1, 2, 1}, 100, int8), kernel = full({2, 1, 1}, 3, int8);
  CHECK(conv(x, kernel).to_vector<std::int8_t>() == std::vector<std::int8_t>{600 - 512});
  const Array y = full({1, 2, 1}, 65535, uint16), all = full({2, 1, 1}, 65535, uint16);
  CHECK(conv(y, all).to_vector<std::uint16_t>() == std::vector<std::uint16_t>{2});
}

TEST_CASE("means of a window in narrow dtypes are added up in float32") {
  const Array x = full({1, 2, 2, 1}, 60000.0, float16);
  CHECK(avg_pool(x, {.window = {2, 2}}).astype(float32).item<float>() == 60000);
  CHECK(avg_pool(x, {.window = {2, 2}}).dtype() == float16);
  CHECK(window_mean(x, {.window = {2, 2}}).astype(float32).item<float>() == 60000);
}
