#include "engine/ir/primitive.h"

namespace lockstep::ir {

double flops_of(const Primitive& primitive, const CostContext& context) {
  if (primitive.flops) return primitive.flops(context);
  if (!primitive.traits.pointwise || primitive.traits.moves == Moves::in_place) return 0;
  double elements = 0;
  for (const ArrayType& type : context.outputs) elements += static_cast<double>(type.size());
  return elements;
}

}  // namespace lockstep::ir
