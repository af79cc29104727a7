#include <cstdint>
#include <optional>
#include <vector>

#include "engine/core/lists.h"
#include "engine/ir/primitive.h"
#include "engine/ops/primitives.h"
#include "engine/passes/draft.h"
#include "engine/passes/pass.h"

namespace lockstep::passes {
namespace {

using ir::Equation;
using ir::Var;
using Dims = std::vector<std::int64_t>;

/// A part that is a slice can be read where it lies, or left out.
std::vector<Var> slices(ir::Builder& builder, const Equation& split, Var x) {
  const auto dim = static_cast<std::size_t>(split.attrs.get<std::int64_t>("dim"));
  const Shape& shape = builder.type(x).shape;
  Dims start = repeated(shape.rank());
  Dims limit = shape.to_vector();
  const Dims strides(start.size(), 1);
  std::vector<Var> parts;
  for (const std::int64_t size : split.attrs.get<Dims>("sizes")) {
    limit[dim] = start[dim] + size;
    const Attrs attrs{{"start", start}, {"limit", limit}, {"strides", strides}};
    parts.push_back(builder.apply(ops::primitives::slice(), {{x}}, attrs)[0]);
    start[dim] = limit[dim];
  }
  return parts;
}

}  // namespace

ir::FunctionPtr decompose(const ir::FunctionPtr& function) {
  return rewrite_each(function, ops::primitives::split(), [](auto& builder, const Equation& split, auto inputs) {
    return std::optional(slices(builder, split, inputs[0]));
  });
}

}  // namespace lockstep::passes
