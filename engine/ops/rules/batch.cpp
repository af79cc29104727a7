#include "engine/ops/rules/batch.h"

#include <string>
#include <utility>

namespace lockstep::ops::batch {

Value batched(const BatchContext& context, std::size_t i) {
  return context.batched[i] ? context.inputs[i] : broadcast_leading(context.inputs[i], context.size);
}

std::vector<Value> all_batched(const BatchContext& context) {
  std::vector<Value> operands;
  operands.reserve(context.inputs.size());
  for (std::size_t i = 0; i < context.inputs.size(); ++i) operands.push_back(batched(context, i));
  return operands;
}

Dims shifted(const Dims& dims) {
  Dims result = dims;
  for (std::int64_t& dim : result) ++dim;
  return result;
}

Dims prepended(std::int64_t first, const Dims& rest) {
  Dims result{first};
  result.insert(result.end(), rest.begin(), rest.end());
  return result;
}

ir::BatchRule pointwise(PrimitiveGetter self) {
  return leading(self, [](const BatchContext& context) { return context.attrs; });
}

ir::BatchRule leading(PrimitiveGetter self, AttrsRule attrs) {
  return [self, attrs = std::move(attrs)](const BatchContext& context) {
    return apply(self(), all_batched(context), attrs(context));
  };
}

ir::BatchRule reducer(PrimitiveGetter self, std::string_view attribute) {
  return leading(self, [name = std::string(attribute)](const BatchContext& context) {
    return context.attrs.with(name, shifted(context.attrs.get<Dims>(name)));
  });
}

ir::BatchRule along(PrimitiveGetter self, std::string_view attribute) {
  return leading(self, [name = std::string(attribute)](const BatchContext& context) {
    return context.attrs.with(name, context.attrs.get<std::int64_t>(name) + 1);
  });
}

ir::BatchRule constant(PrimitiveGetter self) {
  return [self](const BatchContext& context) {
    std::vector<Value> results;
    for (const ir::Var var : context.builder.apply(self(), std::span<const ir::Var>{}, context.attrs)) {
      results.push_back(broadcast_leading(Value(context.builder, var), context.size));
    }
    return results;
  };
}

}  // namespace lockstep::ops::batch
