#include "engine/ir/primitive.h"

namespace lockstep::ir {

std::vector<ArrayType> infer_types(const Primitive& primitive, std::span<const ArrayType> inputs, const Attrs& attrs,
                                   const AxisSizes& axes) {
  std::vector<ArrayType> types = primitive.infer({primitive.name, inputs, attrs, axes});
  if (primitive.traits.typed_axes) return types;
  AxisSet varying;
  for (const ArrayType& input : inputs) varying = varying.joined(input.varying);
  for (ArrayType& type : types) type.varying = varying;
  return types;
}

}  // namespace lockstep::ir
