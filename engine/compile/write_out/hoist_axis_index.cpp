#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "engine/compile/write_out/writer.h"
#include "engine/ir/primitive.h"
#include "engine/ops/primitives.h"
#include "engine/passes/draft.h"

// A loop's body is lowered without a map around it, as a kernel that knows no shards. What it needs of its shard, the
// coordinates, becomes operands.
namespace lockstep::compile {
namespace {

using ir::Equation;
using ir::FunctionPtr;
using ir::Var;
using passes::Draft;
using AxisNames = std::vector<std::string>;

void collect_axes(const Equation& equation, AxisNames& axes) {
  for (const FunctionPtr& f : ir::sub_functions(equation.attrs)) {
    ir::for_each_equation(*f, [&](const Equation& inner) {
      if (inner.primitive != &ops::primitives::axis_index()) return;
      const auto& axis = inner.attrs.get<std::string>("axis");
      if (std::find(axes.begin(), axes.end(), axis) == axes.end()) axes.push_back(axis);
    });
  }
}

ArrayType index_type(const std::string& axis) { return {DType::int32, Shape{}, {axis}}; }

using IndexOf = std::function<Var(const std::string&)>;
Equation with_operands(const Equation& equation, const AxisNames& axes, const IndexOf& index_of);

/// The function with inputs for the coordinates along `axes`, from input `at` on, instead of axis_index equations.
FunctionPtr with_inputs(const ir::Function& function, const AxisNames& axes, std::size_t at) {
  Draft draft(function);
  passes::Substitution substitution;
  std::vector<Var> indices;
  for (const std::string& axis : axes) indices.push_back(draft.new_var(index_type(axis)));
  const IndexOf index_of = [&](const std::string& axis) {
    return indices[static_cast<std::size_t>(std::find(axes.begin(), axes.end(), axis) - axes.begin())];
  };
  std::vector<Equation> kept;
  for (Equation& equation : draft.equations) {
    substitution.apply(equation.inputs);
    if (equation.primitive == &ops::primitives::axis_index()) {
      substitution.replace(equation.outputs[0], index_of(equation.attrs.get<std::string>("axis")));
      continue;
    }
    AxisNames inner;
    collect_axes(equation, inner);
    kept.push_back(inner.empty() ? std::move(equation) : with_operands(equation, inner, index_of));
  }
  draft.equations = std::move(kept);
  substitution.apply(draft.outputs);
  draft.inputs.insert(draft.inputs.begin() + static_cast<std::ptrdiff_t>(at), indices.begin(), indices.end());
  return draft.finish();
}

/// An equation with sub-functions, given the coordinates as operands more.
Equation with_operands(const Equation& equation, const AxisNames& axes, const IndexOf& index_of) {
  std::vector<Var> indices;
  for (const std::string& axis : axes) indices.push_back(index_of(axis));
  const ir::Extend extend = [&](const ir::Function& f, std::size_t at) { return with_inputs(f, axes, at); };
  if (const ir::CaptureRule capture = equation.primitive->sub_functions.capture) {
    return capture(equation, indices, extend);
  }
  Equation changed =
      ir::map_sub_functions(equation, [&](const FunctionPtr& f) { return extend(*f, f->inputs().size()); });
  changed.inputs.insert(changed.inputs.end(), indices.begin(), indices.end());
  return changed;
}

}  // namespace

Hoisted hoist_axis_indices(const ir::Function& function, const Equation& equation) {
  Hoisted hoisted{equation, {}, Var{static_cast<std::uint32_t>(function.types().size())}};
  collect_axes(equation, hoisted.axes);
  if (hoisted.axes.empty()) return hoisted;
  hoisted.equation = with_operands(equation, hoisted.axes, [&](const std::string& axis) {
    const auto at = std::find(hoisted.axes.begin(), hoisted.axes.end(), axis) - hoisted.axes.begin();
    return Var{hoisted.first_index.id + static_cast<std::uint32_t>(at)};
  });
  return hoisted;
}

}  // namespace lockstep::compile
