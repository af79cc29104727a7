#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "engine/ir/control_flow.h"
#include "engine/ir/primitive.h"
#include "engine/ops/primitives.h"
#include "engine/passes/draft.h"
#include "engine/passes/element_groups.h"
#include "engine/passes/pass.h"

// Rematerialisation over scans (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost", decided by a cost
// for each row instead of by hand). What one scan stacks for another lies in memory once an iteration: of a forward
// pass all that its derivative reads, of which much is quickly computed from the rest.
namespace lockstep::passes {
namespace {

using ir::Equation;
using ir::FunctionPtr;
using ir::Scan;
using ir::Var;

bool is_scan(const Equation& equation) { return equation.primitive == &ops::primitives::scan(); }

/// Rows that a body gives twice are stacked once: who reads the second stack reads the first.
void join_twins(Draft& draft) {
  Substitution first;
  for (Equation& equation : draft.equations) {
    first.apply(equation.inputs);
    if (!is_scan(equation)) continue;
    const Scan scan = Scan::of(equation.attrs);
    std::map<Var, Var> stack_of;
    for (std::size_t y = scan.carries; y < equation.outputs.size(); ++y) {
      const auto [it, is_new] = stack_of.try_emplace(scan.body->outputs()[y], equation.outputs[y]);
      if (!is_new) first.replace(equation.outputs[y], it->second);
    }
  }
  first.apply(draft.outputs);
}

/// A stack as the scan that writes it knows it.
struct Stacked {
  std::size_t writer;  ///< Which equation.
  Var row;             ///< In the writer's body.
};

/// Rows of one writer in the body of one reader: which are read, and which computed from those.
class ComputedRows {
 public:
  ComputedRows(const Equation& writer, Draft& reader) : writer_(Scan::of(writer.attrs).body), reader_(reader) {
    for (const Equation& equation : writer_->equations()) {
      for (const Var v : equation.outputs) definition_[v] = &equation;
    }
  }

  void add(Var row, Var x) { xs_.emplace(row, x); }

  /// What stands for a row's operand; equations that the body then needs in front are in `equations`.
  Var value_of(Var v) {
    if (const auto it = values_.find(v); it != values_.end()) return it->second;
    const auto x = xs_.find(v);
    return values_[v] = x != xs_.end() && !pays(v) ? x->second : compute(v);
  }

  const std::vector<Equation>& equations() const { return equations_; }

 private:
  /// Whether computing a row again takes at most a step of a loop for each byte that is then not written and read.
  bool pays(Var row) const {
    int steps = 2 * static_cast<int>(size_of(writer_->type(row).dtype));
    return can_compute(row, steps);
  }

  /// Whether quick ops lead from other rows to `v`, in as many steps as there are; takes them off.
  bool can_compute(Var v, int& steps) const {
    const auto it = definition_.find(v);
    if (it == definition_.end() || !is_quick(*it->second)) return false;
    if (it->second->primitive->traits.pointwise && steps-- == 0) return false;
    return std::ranges::all_of(it->second->inputs,
                               [&](Var input) { return xs_.contains(input) || can_compute(input, steps); });
  }

  bool is_quick(const Equation& equation) const {
    const ir::Traits& traits = equation.primitive->traits;
    return equation.primitive == &ops::primitives::full() || traits.moves == ir::Moves::in_place ||
           (traits.pointwise && steps_of(*equation.primitive, writer_->type(equation.outputs[0]).dtype) <= 1);
  }

  Var compute(Var v) {
    Equation equation = *definition_.at(v);
    for (Var& input : equation.inputs) input = value_of(input);
    for (Var& output : equation.outputs) output = reader_.new_var(writer_->type(output));
    equations_.push_back(equation);
    return equation.outputs[0];
  }

  FunctionPtr writer_;
  Draft& reader_;
  std::map<Var, const Equation*> definition_;
  std::map<Var, Var> xs_;
  std::map<Var, Var> values_;
  std::vector<Equation> equations_;
};

/// The scan with rows of other scans that can be computed again computed; its operands stay as they are, read or not.
Equation without_rematerialize_scans(const Draft& draft, const Equation& equation,
                                     const std::map<Var, Stacked>& stacks) {
  Scan scan = Scan::of(equation.attrs);
  Draft body(*scan.body);
  std::map<std::size_t, ComputedRows> rows;
  std::vector<std::pair<Var, Stacked>> read;
  for (std::size_t i = scan.consts + scan.carries; i < equation.inputs.size(); ++i) {
    if (const auto it = stacks.find(equation.inputs[i]); it != stacks.end()) {
      read.emplace_back(body.inputs[i], it->second);
      rows.try_emplace(it->second.writer, draft.equations[it->second.writer], body)
          .first->second.add(it->second.row, body.inputs[i]);
    }
  }
  Substitution values;
  for (const auto& [x, stacked] : read) values.replace(x, rows.at(stacked.writer).value_of(stacked.row));
  for (Equation& e : body.equations) values.apply(e.inputs);
  values.apply(body.outputs);
  for (const auto& [writer, again] : rows) {
    body.equations.insert(body.equations.begin(), again.equations().begin(), again.equations().end());
  }
  scan.body = body.finish();
  Equation changed = equation;
  changed.attrs = scan.attrs();
  return changed;
}

}  // namespace

FunctionPtr rematerialize_scans(const FunctionPtr& function) {
  const FunctionPtr inner = map_sub_functions(function, rematerialize_scans);
  if (std::ranges::none_of(inner->equations(), is_scan)) return inner;
  Draft draft(*inner);
  join_twins(draft);
  std::map<Var, Stacked> stacks;
  for (std::size_t i = 0; i < draft.equations.size(); ++i) {
    Equation& equation = draft.equations[i];
    if (!is_scan(equation)) continue;
    equation = without_rematerialize_scans(draft, equation, stacks);
    const Scan scan = Scan::of(equation.attrs);
    for (std::size_t y = scan.carries; y < equation.outputs.size(); ++y) {
      stacks[equation.outputs[y]] = {i, scan.body->outputs()[y]};
    }
  }
  return draft.finish();
}

}  // namespace lockstep::passes
