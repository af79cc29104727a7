#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/ops.h>

#include "engine/ir/primitive.h"

namespace lockstep::exchange {

/// An op that both know: as StableHLO (or CHLO) calls it, as a primitive, and as what stages it.
struct SharedOp {
  std::string_view name;
  const ir::Primitive& (*primitive)();
  std::vector<Array> (*stage)(const ArrayOperands&, const Attrs&);
};

/// Those that take and give arrays of one shape, without attributes.
std::span<const SharedOp> element_wise_ops();
/// Comparisons, by direction: "LT".
std::span<const SharedOp> comparisons();
/// Reductions by the op that their region has: "stablehlo.add" is reduce_sum[axes].
std::span<const SharedOp> reductions();
/// Sums and the like of all elements up to one, likewise: "stablehlo.add" is cumsum[axis, reverse].
std::span<const SharedOp> cumulative_ops();
/// Scatters, likewise; "" is that which overwrites.
std::span<const SharedOp> scatters();

/// The name of the op that computes it on this dtype: on i1 add and maximum are "stablehlo.or", multiply and minimum
/// "stablehlo.and"; any other op is itself.
std::string logical_name(std::string_view name, DType dtype);
/// Null where there is none.
const SharedOp* find_shared(std::span<const SharedOp> ops, std::string_view name);
const SharedOp* find_shared(std::span<const SharedOp> ops, const ir::Primitive& primitive);

}  // namespace lockstep::exchange
