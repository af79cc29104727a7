#include <lockstep/batch_invariant.h>

#include "engine/api/transforms/runtime.h"
#include "engine/api/trees/tree_trace.h"
#include "engine/ir/rewrite.h"
#include "engine/ops/primitives.h"

namespace lockstep::detail {

namespace {

std::optional<std::vector<ir::Var>> in_order(ir::Builder& builder, const ir::Equation& equation,
                                             std::span<const ir::Var> inputs) {
  if (equation.attrs.has("sum_blocks") || !is_float(builder.type(inputs[0]).dtype)) return std::nullopt;
  return builder.apply(*equation.primitive, inputs, equation.attrs.with("sum_blocks", std::int64_t{1}));
}

}  // namespace

Tree batch_invariant(const TreeFunction& function, const std::vector<Tree>& arguments) {
  const api::FlatArguments flat(arguments);
  const api::TracedTree traced = api::trace_tree(function, flat, flat.types());
  const ir::FunctionPtr ordered = ir::rewrite_each(traced.function, ops::primitives::dot_general(), in_order);
  return traced.received(api::call(ordered, api::joined(flat.leaves(), traced.captured)));
}

}  // namespace lockstep::detail
