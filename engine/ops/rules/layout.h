#pragma once

#include <cstdint>
#include <vector>

#include "engine/ir/primitive.h"
#include "engine/ops/values.h"

// Families of layout rules: which dimensions of operands and results run together.
namespace lockstep::ops::layout {

using ir::BlockContext;
using ir::Factors;
using ir::LayoutContext;
using ir::LayoutRule;
using Kind = ir::Factor::Kind;

/// Element i of every result depends on element i of each operand. What ops of that trait have without saying so.
LayoutRule pointwise();
/// Likewise, but sums are reduced before it: it rounds them.
LayoutRule rounding();

/// The first dimensions of all operands and results run together, those from `rank - tail` of operand 0 on are whole.
LayoutRule leading(int tail);
/// The first and the last dimension of all operands and results run together, those between are whole.
LayoutRule ends();
/// All dimensions of all operands and results run together, but that of attribute `axis`, which is whole and which results
/// may lack.
LayoutRule along(const char* axis);
/// The dimensions of attribute `axes` are reduced.
LayoutRule reduction(Kind kind);
/// Nothing goes in, and any block of the result can be made alone.
LayoutRule constant();

/// Dimensions of one array, each a factor of its own.
ir::FactorDims own_dims(Factors& factors, const Shape& shape, Kind kind = Kind::sum);
/// The attributes with `name` replaced by the extents of result 0's block.
Attrs with_block_shape(const BlockContext& context, const char* name);
/// Where this shard's block of the factor begins, an int32 scalar. `factor` is one of the rule's.
Value block_start(const BlockContext& context, int factor, std::int64_t block_extent);
/// Which block of the factor is this shard's.
Value block_number(const BlockContext& context, int factor);
/// Indices into a dimension of `whole` elements as indices into this shard's block of it, and where they are in it.
struct LocalIndices {
  Value indices;  ///< Inside of the block, whatever they were.
  Value are_own;
};
LocalIndices local_indices(const BlockContext& context, const Value& indices, int factor, std::int64_t whole,
                           std::int64_t block);

}  // namespace lockstep::ops::layout
