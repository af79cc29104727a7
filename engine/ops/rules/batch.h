#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "engine/ir/primitive.h"
#include "engine/ops/primitives.h"
#include "engine/ops/values.h"

// Families of batching rules. `self` is the op's own getter, called when the rule runs.
namespace lockstep::ops::batch {

using ir::BatchContext;

/// Operand `i` with the batch as dimension 0, broadcast where it is not batched.
Value batched(const BatchContext& context, std::size_t i);
/// All operands so.
std::vector<Value> all_batched(const BatchContext& context);
/// Dimensions counted with a batch in front.
Dims shifted(const Dims& dims);
/// `first` and then `rest`.
Dims prepended(std::int64_t first, const Dims& rest);

/// Element by element: unbatched operands are broadcast, attributes stay.
ir::BatchRule pointwise(PrimitiveGetter self);
/// As pointwise, with attributes rewritten by `attrs`.
using AttrsRule = std::function<Attrs(const BatchContext&)>;
ir::BatchRule leading(PrimitiveGetter self, AttrsRule attrs);
/// As pointwise, with the attribute `axes` (or another list of dimensions) shifted.
ir::BatchRule reducer(PrimitiveGetter self, std::string_view attribute = "axes");
/// As pointwise, with one dimension attribute shifted.
ir::BatchRule along(PrimitiveGetter self, std::string_view attribute);
/// No operands: the result, repeated.
ir::BatchRule constant(PrimitiveGetter self);

}  // namespace lockstep::ops::batch
