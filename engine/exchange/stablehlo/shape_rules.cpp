#include <string>
#include <variant>

#include "engine/exchange/stablehlo/exporter.h"
#include "engine/ops/primitives.h"

namespace lockstep::exchange {
namespace {

namespace primitives = ops::primitives;

Terms constant(const Lowering& l) {
  const AttrValue& value = l.attrs().at("value");
  if (const auto* truth = std::get_if<bool>(&value)) return {l.out.splat_integer(l.type(), *truth ? 1 : 0)};
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return {l.out.splat_integer(l.type(), *whole)};
  return {l.out.splat(l.type(), l.attrs().get<double>("value"))};
}
Terms counting(const Lowering& l) { return {l.out.iota(l.type(), l.attrs().get<std::int64_t>("dim"))}; }
Terms reshaped(const Lowering& l) { return {l.out.reshape(l.x(), l.type().shape.to_vector())}; }
Terms transposed(const Lowering& l) { return {l.out.transpose(l.x(), l.attrs().get<Integers>("permutation"))}; }
Terms broadcasted(const Lowering& l) {
  return {l.out.broadcast(l.x(), l.type().shape, l.attrs().get<Integers>("dims"))};
}

Term slice_of(Exporter& out, const Term& x, const Integers& start, const Integers& limit, const Integers& strides,
              const ArrayType& type) {
  return out.op("stablehlo.slice", {x}, type,
                "limit_indices = " + array_attribute(limit) + ", start_indices = " + array_attribute(start) +
                    ", strides = " + array_attribute(strides));
}
Terms sliced(const Lowering& l) {
  return {slice_of(l.out, l.x(), l.attrs().get<Integers>("start"), l.attrs().get<Integers>("limit"),
                   l.attrs().get<Integers>("strides"), l.type())};
}
Terms parts(const Lowering& l) {
  const auto dim = static_cast<std::size_t>(l.attrs().get<std::int64_t>("dim"));
  Integers start(static_cast<std::size_t>(l.x().type.shape.rank()), 0);
  Terms results;
  for (const ArrayType& type : l.types) {
    Integers limit = l.x().type.shape.to_vector();
    limit[dim] = start[dim] + type.shape[static_cast<int>(dim)];
    results.push_back(slice_of(l.out, l.x(), start, limit, Integers(start.size(), 1), type));
    start[dim] = limit[dim];
  }
  return results;
}

Terms dynamic_cut(const Lowering& l) {
  return {l.out.op("stablehlo.dynamic_slice", l.operands, l.type(),
                   "slice_sizes = " + array_attribute(l.attrs().get<Integers>("sizes")))};
}
Terms dynamic_update(const Lowering& l) { return {l.out.op("stablehlo.dynamic_update_slice", l.operands, l.type())}; }
Terms padded(const Lowering& l) {
  return {l.out.op("stablehlo.pad", l.operands, l.type(),
                   "edge_padding_high = " + array_attribute(l.attrs().get<Integers>("high")) +
                       ", edge_padding_low = " + array_attribute(l.attrs().get<Integers>("low")) +
                       ", interior_padding = " + array_attribute(l.attrs().get<Integers>("interior")))};
}
Terms joined_along(const Lowering& l) {
  return {l.out.op("stablehlo.concatenate", l.operands, l.type(),
                   "dimension = " + std::to_string(l.attrs().get<std::int64_t>("dim")) + " : i64")};
}
Terms reversed(const Lowering& l) {
  return {l.out.op("stablehlo.reverse", {l.x()}, l.type(),
                   "dimensions = " + array_attribute(l.attrs().get<Integers>("dims")))};
}

}  // namespace

LoweringRule shape_rule(const ir::Primitive& primitive) {
  static const std::map<const ir::Primitive*, LoweringRule> rules = {
      {&primitives::full(), constant},
      {&primitives::iota(), counting},
      {&primitives::reshape(), reshaped},
      {&primitives::transpose(), transposed},
      {&primitives::broadcast_in_dim(), broadcasted},
      {&primitives::slice(), sliced},
      {&primitives::split(), parts},
      {&primitives::dynamic_slice(), dynamic_cut},
      {&primitives::dynamic_update_slice(), dynamic_update},
      {&primitives::pad(), padded},
      {&primitives::concatenate(), joined_along},
      {&primitives::reverse(), reversed},
  };
  const auto found = rules.find(&primitive);
  return found == rules.end() ? nullptr : found->second;
}

}  // namespace lockstep::exchange
