#pragma once

#include <cstdint>

#include "engine/ops/rules/infer.h"
#include "engine/ops/rules/reference.h"
#include "engine/ops/values.h"

// What the ops that take indices share: an index outside its range means the nearest one inside.
namespace lockstep::ops {

/// `index` as int64 in [0, count - 1].
Value clamped_index(const Value& index, std::int64_t count);
/// Element `i` of an index array, in [0, count - 1].
std::int64_t clamped_element(const ir::ReferenceArray& indices, std::int64_t i, std::int64_t count);
/// 0, 1, ..., size - 1 as int64, broadcast over `rank - 1` more dimensions of extent 1.
Value batch_numbers(ir::Builder& builder, std::int64_t size, int rank);
/// Operands from `first` on are integers of one dtype and rank 0, one for each of `rank` dimensions.
void expect_scalar_indices(const ir::InferContext& context, std::size_t first, int rank);
/// A sample's indices, beyond both ends of what they point into.
ir::SampleInput index_input(DType dtype, const Shape& shape);

}  // namespace lockstep::ops
