#include <algorithm>

#include <lockstep/error.h>

#include "engine/core/lists.h"
#include "engine/ir/control_flow.h"
#include "engine/ops/control_flow/rules.h"
#include "engine/ops/control_flow/sub_functions.h"

// How scan, while_loop and cond fit operands that vary along more axes than their sub-functions were written for.
namespace lockstep::ops::control_flow {

namespace {

using ir::Builder;
using ir::Var;

/// Joins `more` to `axes`; whether that changed it.
bool join_axes(AxisSet& axes, const AxisSet& more) {
  if (axes.contains(more)) return false;
  axes = axes.joined(more);
  return true;
}

/// Whether dtypes and shapes fit; `leading` operands at the end have one more dimension.
bool fits(const Builder& builder, std::span<const Var> operands, const ir::Function& f, std::size_t leading = 0) {
  if (operands.size() != f.inputs().size()) return false;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const ArrayType& given = builder.type(operands[i]);
    const ArrayType& wanted = f.type(f.inputs()[i]);
    const bool whole = i + leading >= operands.size();
    if (given.dtype != wanted.dtype || (whole && given.shape.rank() == 0)) return false;
    if (!((whole ? given.shape.erase(0) : given.shape) == wanted.shape)) return false;
  }
  return f.axes() == builder.axes();
}

bool same_shapes(std::span<const ArrayType> a, std::span<const ArrayType> b) {
  return std::ranges::equal(
      a, b, [](const ArrayType& x, const ArrayType& y) { return x.dtype == y.dtype && x.shape == y.shape; });
}

/// Where inputs go when those in `supplied` (behind the first `before`) join the groups they come from and what is unused
/// goes. A group is a run of inputs: consts, carries, xs.
struct Regrouped {
  Places order;                     ///< Of the function's inputs.
  std::vector<std::size_t> counts;  ///< Per group.
};
Regrouped regroup(const Hoisted& hoisted, std::span<const std::size_t> counts, std::size_t kept_group) {
  const std::vector<bool> used = used_inputs(*hoisted.function);
  Regrouped result;
  std::size_t first = 0, before = 0;
  for (const std::size_t count : counts) before += count;
  for (std::size_t g = 0; g < counts.size(); ++g) {
    const std::size_t start = result.order.size();
    for (std::size_t i = first; i < first + counts[g]; ++i) {
      if (used[i] || g == kept_group) result.order.push_back(i);
    }
    for (std::size_t k = 0; k < hoisted.supplied.size(); ++k) {
      const std::size_t source = hoisted.supplied[k].input;
      if (source >= first && source < first + counts[g] && used[before + k]) result.order.push_back(before + k);
    }
    result.counts.push_back(result.order.size() - start);
    first += counts[g];
  }
  return result;
}

/// The operands followed by those the hoisted function is to be supplied with.
std::vector<Var> with_supplied(Builder& builder, std::span<const Var> operands, const Hoisted& hoisted,
                               std::size_t first = 0) {
  std::vector<Var> all(operands.begin(), operands.end());
  for (const Supplied& s : hoisted.supplied) all.push_back(supply(builder, operands[first + s.input], s));
  return all;
}

}  // namespace

ir::Aligned align_scan(Builder& builder, std::span<const Var> operands, const Attrs& attrs) {
  ir::Scan scan = ir::Scan::of(attrs);
  const ir::Function& given = *scan.body;
  const std::vector<ArrayType> types = given.input_types();
  const std::vector<ArrayType> outputs = given.output_types();
  if (!fits(builder, operands, given, scan.xs()) ||
      !same_shapes(std::span(types).subspan(scan.consts, scan.carries), std::span(outputs).first(scan.carries))) {
    return {{operands.begin(), operands.end()}, attrs};
  }
  std::vector<AxisSet> axes = varying_of(types);
  for (std::size_t i = 0; i < axes.size(); ++i) join_axes(axes[i], builder.type(operands[i]).varying);
  for (bool changed = true; changed;) {
    scan.body = with_varying_inputs(scan.body, axes);
    changed = false;
    for (std::size_t i = 0; i < scan.carries; ++i) {
      changed |= join_axes(axes[scan.consts + i], scan.body->type(scan.body->outputs()[i]).varying);
    }
  }
  std::vector<AxisSet> results = varying_of(scan.body->output_types());
  for (std::size_t i = 0; i < scan.carries; ++i) join_axes(results[i], axes[scan.consts + i]);
  scan.body = with_varying_outputs(scan.body, results);
  std::vector<bool> outer(types.size(), true);
  for (std::size_t i = 0; i < scan.carries; ++i) outer[scan.consts + i] = false;
  const Hoisted hoisted = hoist_pvary(scan.body, outer);
  std::vector<Var> all = pvaried(builder, operands, varying_of(scan.body->input_types()));
  if (hoisted.supplied.empty()) return {all, scan.attrs()};
  all = with_supplied(builder, all, hoisted);
  const std::vector<std::size_t> counts = {scan.consts, scan.carries, scan.xs()};
  const Regrouped groups = regroup(hoisted, counts, 1);
  scan.consts = groups.counts[0];
  scan.body = pick(*hoisted.function, groups.order, places(0, outputs.size()));
  return {at(std::span<const Var>(all), groups.order), scan.attrs()};
}

namespace {

/// Cond and body of a while_loop, with the axes that each of its operands varies along.
struct WhileAxes {
  ir::WhileLoop& loop;
  std::vector<AxisSet> axes;  ///< Per operand.

  /// The entries for the consts of one function, then those of the carries.
  std::vector<AxisSet> inputs_of(bool body) const {
    const std::size_t first = body ? loop.cond_consts : 0;
    const std::size_t count = body ? loop.body_consts : loop.cond_consts;
    std::vector<AxisSet> result(axes.begin() + static_cast<std::ptrdiff_t>(first),
                                axes.begin() + static_cast<std::ptrdiff_t>(first + count));
    result.insert(result.end(), axes.begin() + static_cast<std::ptrdiff_t>(loop.cond_consts + loop.body_consts),
                  axes.end());
    return result;
  }

  void settle() {
    const std::size_t first = loop.cond_consts + loop.body_consts;
    for (bool changed = true; changed;) {
      loop.cond = with_varying_inputs(loop.cond, inputs_of(false));
      loop.body = with_varying_inputs(loop.body, inputs_of(true));
      const AxisSet predicate = loop.cond->type(loop.cond->outputs()[0]).varying;
      changed = false;
      for (std::size_t i = 0; i < loop.carries(); ++i) {
        changed |= join_axes(axes[first + i], loop.body->type(loop.body->outputs()[i]).varying);
        changed |= join_axes(axes[first + i], predicate);
      }
    }
    loop.body = with_varying_outputs(loop.body, {axes.begin() + static_cast<std::ptrdiff_t>(first), axes.end()});
  }
};

std::vector<Var> inputs_of_while(const ir::WhileLoop& loop, std::span<const Var> operands, bool body) {
  const std::size_t first = body ? loop.cond_consts : 0;
  const Places own = places(first, body ? loop.body_consts : loop.cond_consts);
  return at(operands, joined(own, places(loop.cond_consts + loop.body_consts, loop.carries())));
}

/// One of the two functions without pvary of its consts, and the consts it then has.
struct Rewritten {
  FunctionPtr function;
  std::vector<Var> consts;
};
Rewritten without_pvary(Builder& builder, const FunctionPtr& f, std::span<const Var> consts, std::size_t carries) {
  std::vector<bool> outer(consts.size() + carries);
  std::fill_n(outer.begin(), consts.size(), true);
  const Hoisted hoisted = hoist_pvary(f, outer);
  if (hoisted.supplied.empty()) return {f, {consts.begin(), consts.end()}};
  const std::vector<std::size_t> counts = {consts.size(), carries};
  const Regrouped groups = regroup(hoisted, counts, 1);
  std::vector<Var> all(consts.begin(), consts.end());
  all.resize(outer.size());
  for (const Supplied& s : hoisted.supplied) all.push_back(supply(builder, consts[s.input], s));
  std::vector<Var> kept = at(std::span<const Var>(all), groups.order);
  kept.resize(groups.counts[0]);
  return {pick(*hoisted.function, groups.order, places(0, f->outputs().size())), kept};
}

}  // namespace

ir::Aligned align_while_loop(Builder& builder, std::span<const Var> operands, const Attrs& attrs) {
  ir::WhileLoop loop = ir::WhileLoop::of(attrs);
  const std::size_t first = loop.cond_consts + loop.body_consts;
  const std::vector<ArrayType> outputs = loop.body->output_types();
  const std::vector<ArrayType> types = loop.body->input_types();
  if (operands.size() != first + loop.carries() || loop.cond->outputs().size() != 1 ||
      types.size() != loop.body_consts + loop.carries() ||
      !same_shapes(std::span(types).subspan(loop.body_consts), outputs) ||
      !fits(builder, inputs_of_while(loop, operands, false), *loop.cond) ||
      !fits(builder, inputs_of_while(loop, operands, true), *loop.body)) {
    return {{operands.begin(), operands.end()}, attrs};
  }
  WhileAxes varying{loop, {}};
  for (const Var v : operands) varying.axes.push_back(builder.type(v).varying);
  for (std::size_t i = 0; i < loop.carries(); ++i) {
    join_axes(varying.axes[first + i], types[loop.body_consts + i].varying);
    join_axes(varying.axes[first + i], loop.cond->type(loop.cond->inputs()[loop.cond_consts + i]).varying);
  }
  for (std::size_t i = 0; i < first; ++i) {
    const ir::Function& f = i < loop.cond_consts ? *loop.cond : *loop.body;
    join_axes(varying.axes[i], f.type(f.inputs()[i < loop.cond_consts ? i : i - loop.cond_consts]).varying);
  }
  varying.settle();
  std::vector<Var> all;
  for (std::size_t i = 0; i < operands.size(); ++i) all.push_back(builder.pvary(operands[i], varying.axes[i]));
  const std::span<const Var> span(all);
  Rewritten cond = without_pvary(builder, loop.cond, span.first(loop.cond_consts), loop.carries());
  Rewritten body = without_pvary(builder, loop.body, span.subspan(loop.cond_consts, loop.body_consts), loop.carries());
  std::vector<Var> result = cond.consts;
  result.insert(result.end(), body.consts.begin(), body.consts.end());
  result.insert(result.end(), span.begin() + static_cast<std::ptrdiff_t>(first), span.end());
  return {result, ir::WhileLoop{cond.function, body.function, cond.consts.size(), body.consts.size()}.attrs()};
}

namespace {

/// Branches without pvary of their arguments: every branch gets what any of them is to be supplied with.
void hoist_from_branches(Builder& builder, std::vector<FunctionPtr>& branches, std::vector<Var>& arguments) {
  const std::vector<bool> outer(arguments.size(), true);
  std::vector<Hoisted> hoisted;
  std::vector<Supplied> supplied;
  for (const FunctionPtr& branch : branches) {
    hoisted.push_back(hoist_pvary(branch, outer));
    for (const Supplied& s : hoisted.back().supplied) {
      if (std::ranges::find(supplied, s) == supplied.end()) supplied.push_back(s);
    }
  }
  if (supplied.empty()) return;
  std::vector<ArrayType> types;
  for (const Var v : arguments) types.push_back(builder.type(v));
  for (const Supplied& s : supplied) {
    arguments.push_back(supply(builder, arguments[s.input], s));
    types.push_back(builder.type(arguments.back()));
  }
  for (std::size_t b = 0; b < branches.size(); ++b) {
    Places taken = places(0, outer.size());
    for (const Supplied& s : hoisted[b].supplied) {
      taken.push_back(outer.size() + place_in(supplied, s));
    }
    branches[b] = write(builder.axes(), types, [&](Builder& inner, std::span<const Value> inputs) {
      return call(inner, *hoisted[b].function, at(inputs, taken));
    });
  }
  std::vector<bool> used(arguments.size());
  for (const FunctionPtr& branch : branches) {
    const std::vector<bool> own = used_inputs(*branch);
    for (std::size_t i = 0; i < used.size(); ++i) used[i] = used[i] || own[i];
  }
  const Places kept = places_of(used, true);
  arguments = at(std::span<const Var>(arguments), kept);
  for (FunctionPtr& branch : branches) branch = pick(*branch, kept, places(0, branch->outputs().size()));
}

}  // namespace

ir::Aligned align_cond(Builder& builder, std::span<const Var> operands, const Attrs& attrs) {
  ir::Cond cond = ir::Cond::of(attrs);
  const ir::Function& first = *cond.branches[0];
  for (const FunctionPtr& branch : cond.branches) {
    if (operands.empty() || !fits(builder, operands.subspan(1), *branch) ||
        !same_shapes(branch->output_types(), first.output_types())) {
      return {{operands.begin(), operands.end()}, attrs};
    }
  }
  const AxisSet index = builder.type(operands[0]).varying;
  std::vector<AxisSet> inputs(operands.size() - 1, index), outputs(first.outputs().size(), index);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    join_axes(inputs[i], builder.type(operands[i + 1]).varying);
    for (const FunctionPtr& branch : cond.branches) join_axes(inputs[i], branch->type(branch->inputs()[i]).varying);
  }
  for (FunctionPtr& branch : cond.branches) {
    branch = with_varying_inputs(branch, inputs);
    for (std::size_t i = 0; i < outputs.size(); ++i) join_axes(outputs[i], branch->type(branch->outputs()[i]).varying);
  }
  for (FunctionPtr& branch : cond.branches) branch = with_varying_outputs(branch, outputs);
  std::vector<Var> arguments;
  for (std::size_t i = 0; i < inputs.size(); ++i) arguments.push_back(builder.pvary(operands[i + 1], inputs[i]));
  hoist_from_branches(builder, cond.branches, arguments);
  arguments.insert(arguments.begin(), operands[0]);
  return {std::move(arguments), cond.attrs()};
}

}  // namespace lockstep::ops::control_flow
