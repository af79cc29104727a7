#include "backends/cpu/products/gemv.h"

#include <algorithm>
#include <cstdint>

#include <lockstep/backend/isa.h>

#include "backends/cpu/blocks.h"
#include "backends/cpu/products/gemv_blocks.h"

namespace lockstep::backend::cpu {

namespace {

/// So few rows take no longer than it takes to read a large b; and each has the bits that it has alone.
constexpr std::int64_t most_streamed_rows = 8;

}  // namespace

bool has_few_rows(const ProductPlan& plan) {
#if defined(__x86_64__)
  const std::int64_t rows = plan.rows.extent;
  const std::int64_t depth = plan.depth.extent;
  const bool by_columns = plan.columns.operand[1] == 1;
  const bool by_depth = plan.depth.operand[0] == 1 && plan.depth.operand[1] == 1;
  if (rows == 1) return by_columns || by_depth;
  // All measured. Where a call of oneDNN costs more than what it does better:
  if (by_columns) {
    constexpr std::int64_t most_products = std::int64_t{1} << 16;
    // Rows of b so far apart share few lines of a cache: then oneDNN copies them.
    constexpr std::int64_t copied_step = 512;
    constexpr std::int64_t most_rows = 48;
    return plan.size() <= most_products || rows <= most_streamed_rows ||
           (rows <= most_rows && plan.depth.operand[1] % copied_step == 0);
  }
  if (!by_depth) return false;
  constexpr std::int64_t most_products = std::int64_t{1} << 14;
  constexpr std::int64_t least_depth = 32;
  constexpr std::int64_t most_rows = 32;
  return (plan.size() <= most_products && depth >= least_depth) || rows <= std::min(most_rows, depth / lanes);
#else
  static_cast<void>(plan);
  return false;
#endif
}

std::int64_t few_rows_parts(const ProductPlan& plan) {
  constexpr std::int64_t least_elements = std::int64_t{1} << 16, least_columns = 192;
  const bool is_large = plan.depth.extent * plan.columns.extent >= 2 * least_elements;
  if (plan.rows.extent > most_streamed_rows || plan.columns.operand[1] != 1 || !plan.is_matrix() || !is_large) return 0;
  return std::clamp<std::int64_t>(plan.columns.extent / least_columns, 1, most_parts);
}

void gemv_product(const ProductPlan& plan, const float* a, const float* b, float* result) {
#if defined(__x86_64__)
  static const auto widest = usable_isa() == Isa::avx512 ? multiply_gemv_avx512 : multiply_gemv_avx2;
  widest({.a = a,
          .b = b,
          .result = result,
          .rows = plan.rows.extent,
          .columns = plan.columns.extent,
          .depth = plan.depth.extent,
          .a_row = plan.rows.operand[0],
          .a_depth = plan.depth.operand[0],
          .b_depth = plan.depth.operand[1],
          .b_column = plan.columns.operand[1],
          .result_row = plan.rows.result});
#else
  static_cast<void>(plan), static_cast<void>(a), static_cast<void>(b), static_cast<void>(result);
#endif
}

}  // namespace lockstep::backend::cpu
