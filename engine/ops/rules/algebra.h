#pragma once

#include <cstdint>
#include <vector>

#include "engine/ir/primitive.h"
#include "engine/ops/primitives.h"

// What simplification may take an op's result for.
namespace lockstep::ops::algebra {

/// Operand 0, wherever it has the result's type.
ir::EqualTo operand();
/// Likewise, where the attributes say so.
ir::EqualTo operand_where(bool (*holds)(const Attrs&));
/// The other operand of two, where one of those in `sides` is `number` throughout.
ir::EqualTo neutral(std::int64_t number, std::vector<std::size_t> sides);
/// What its own operand was made of, for an op that undoes itself.
ir::EqualTo involution(PrimitiveGetter self);

bool all_equal(const std::vector<std::int64_t>& numbers, std::int64_t number);
/// outer[inner[i]]
std::vector<std::int64_t> composed(const std::vector<std::int64_t>& outer, const std::vector<std::int64_t>& inner);

}  // namespace lockstep::ops::algebra
