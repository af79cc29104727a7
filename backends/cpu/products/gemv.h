#pragma once

#include "backends/cpu/products/product_plan.h"

namespace lockstep::backend::cpu {

/// Whether our loops, which read b where it lies, are faster than oneDNN, which copies it to a layout of its own in
/// each call. Decided by shapes alone.
bool has_few_rows(const ProductPlan& plan);

/// Into how many parts of its columns a product of so few rows is cut that memory bounds it, for threads to share the
/// reading of b; 0: it is no such product. Its bits are those of the whole, however it is cut.
std::int64_t few_rows_parts(const ProductPlan& plan);

/// gemv, and gemm of few rows. Each element of the result is added up from +0 by fused multiply-adds, in ascending
/// order where b's columns lie side by side; else in 16 parts, depth k in part k mod 16, parts number i and i + 8
/// being added, then those number i and i + 4, and so on to one. The same bits whatever the vector width.
void gemv_product(const ProductPlan& plan, const float* a, const float* b, float* result);

}  // namespace lockstep::backend::cpu
