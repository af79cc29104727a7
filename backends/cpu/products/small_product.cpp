#include "backends/cpu/products/small_product.h"

#include <algorithm>
#include <cstring>

#include <lockstep/backend/round_up.h>

#include "backends/cpu/vector_variants.h"

namespace lockstep::backend::cpu {

namespace {

constexpr std::int64_t panel_width = 16;
constexpr std::int64_t rows_of_panel = 4;

/// The compiler splits it where registers are narrower.
using Vector = float __attribute__((vector_size(panel_width * sizeof(float))));

std::int64_t panels(const ProductPlan& plan) { return ceil_div<std::int64_t>(plan.columns.extent, panel_width); }

/// b in panels of `panel_width` columns, each [depth, panel_width]; missing columns are zero.
void pack(const ProductPlan& plan, const float* b, float* packed) {
  const std::int64_t depth = plan.depth.extent;
  for (std::int64_t first = 0; first < plan.columns.extent; first += panel_width) {
    const std::int64_t columns = std::min(panel_width, plan.columns.extent - first);
    for (std::int64_t k = 0; k < depth; ++k, packed += panel_width) {
      const float* from = b + k * plan.depth.operand[1] + first * plan.columns.operand[1];
      for (std::int64_t j = 0; j < panel_width; ++j) packed[j] = j < columns ? from[j * plan.columns.operand[1]] : 0.0F;
    }
  }
}

template <std::int64_t rows>
void multiply_panel_rows(const ProductPlan& plan, const float* a, const float* packed, float* result,
                         std::int64_t columns) {
  Vector sums[rows] = {};
  for (std::int64_t k = 0; k < plan.depth.extent; ++k) {
    Vector b;
    std::memcpy(&b, packed + k * panel_width, sizeof(b));
    for (std::int64_t i = 0; i < rows; ++i) {
      sums[i] += a[i * plan.rows.operand[0] + k * plan.depth.operand[0]] * b;
    }
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    std::memcpy(result + i * plan.rows.result, &sums[i], static_cast<std::size_t>(columns) * sizeof(float));
  }
}

void multiply(const ProductPlan& plan, const float* a, const float* b, float* result, float* packed) {
  pack(plan, b, packed);
  for (std::int64_t first = 0; first < plan.columns.extent;
       first += panel_width, packed += plan.depth.extent * panel_width) {
    const std::int64_t columns = std::min(panel_width, plan.columns.extent - first);
    std::int64_t i = 0;
    for (; i + rows_of_panel <= plan.rows.extent; i += rows_of_panel) {
      multiply_panel_rows<rows_of_panel>(plan, a + i * plan.rows.operand[0], packed,
                                         result + i * plan.rows.result + first, columns);
    }
    for (; i < plan.rows.extent; ++i) {
      multiply_panel_rows<1>(plan, a + i * plan.rows.operand[0], packed, result + i * plan.rows.result + first,
                             columns);
    }
  }
}

}  // namespace

bool is_small(const ProductPlan& plan) {
  // Measured: beyond this a call of oneDNN, half a microsecond, is soon won back.
  constexpr std::int64_t most_products = 16 * 16 * 16;
  constexpr std::int64_t most_depth = 64;  // each sum is one chain of additions
  return plan.depth.extent <= most_depth &&
         plan.rows.extent * panels(plan) * panel_width * plan.depth.extent <= most_products;
}

std::size_t small_product_scratch(const ProductPlan& plan) {
  return static_cast<std::size_t>(panels(plan) * panel_width * plan.depth.extent) * sizeof(float);
}

void small_product(const ProductPlan& plan, const float* a, const float* b, float* result, float* scratch) {
  static const auto widest = VectorVariants<multiply>::chosen();
  widest(plan, a, b, result, scratch);
}

}  // namespace lockstep::backend::cpu
