#include "engine/ir/exchange.h"

#include "engine/ir/function.h"
#include "engine/ir/primitive.h"

namespace lockstep::ir {

const Primitive& exchanged_by(const Primitive& primitive, const Attrs& attrs) {
  return primitive.collective.completes == nullptr ? primitive : primitive.collective.completes(attrs);
}

AxisSet named_axes(const Equation& equation) {
  const Attrs& attrs = equation.attrs;
  if (!equation.primitive->traits.typed_axes || equation.primitive->traits.loop) return {};
  if (attrs.has("axis")) return {attrs.get<std::string>("axis")};
  if (attrs.has("axes")) return AxisSet(attrs.get<std::vector<std::string>>("axes"));
  return {};
}

DType accumulation_dtype(DType dtype) { return is_narrow_float(dtype) ? DType::float32 : dtype; }

AllToAll AllToAll::of(const Attrs& attrs) {
  return {attrs.get<std::string>("axis"), attrs.get<std::int64_t>("split"), attrs.get<std::int64_t>("concat")};
}

Attrs AllToAll::attrs() const { return {{"axis", axis}, {"split", split}, {"concat", concat}}; }

}  // namespace lockstep::ir
