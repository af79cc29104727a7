#include "engine/ir/exchange.h"

#include "engine/ir/primitive.h"

namespace lockstep::ir {

const Primitive& exchanged_by(const Primitive& primitive, const Attrs& attrs) {
  return primitive.collective.completes == nullptr ? primitive : primitive.collective.completes(attrs);
}

DType accumulation_dtype(DType dtype) {
  return dtype == DType::float16 || dtype == DType::bfloat16 ? DType::float32 : dtype;
}

AllToAll AllToAll::of(const Attrs& attrs) {
  return {attrs.get<std::string>("axis"), attrs.get<std::int64_t>("split"), attrs.get<std::int64_t>("concat")};
}

Attrs AllToAll::attrs() const { return {{"axis", axis}, {"split", split}, {"concat", concat}}; }

}  // namespace lockstep::ir
