#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/products/product_plan.h"

namespace lockstep::backend::cpu {

/// Whether a call of oneDNN would cost more than the product itself.
bool is_small(const ProductPlan& plan);

std::size_t small_product_scratch(const ProductPlan& plan);

/// Adds up the products one after the other, each rounded, from +0: the same bits whatever the vector width and however
/// the operands lie.
void small_product(const ProductPlan& plan, const float* a, const float* b, float* result, float* scratch);

}  // namespace lockstep::backend::cpu
