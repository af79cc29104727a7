#include <algorithm>
#include <utility>
#include <vector>

#include "engine/core/lists.h"
#include "engine/ir/primitive.h"
#include "engine/ops/primitives.h"
#include "engine/passes/draft.h"
#include "engine/passes/pass.h"

namespace lockstep::passes {
namespace {

using ir::Equation;
using ir::FunctionPtr;
using ir::Var;

bool can_be_split(const Equation& equation) { return ir::communicates(equation.primitive->collective.exchange); }

/// Writes the equations in a new order: a start right behind its operand's definition, a wait right before its first
/// use, everything else as it stood.
class Scheduler {
 public:
  explicit Scheduler(const ir::Function& function)
      : draft_(function), started_by_(draft_.types.size()), pending_(draft_.types.size(), -1) {}

  FunctionPtr run() {
    original_ = std::move(draft_.equations);
    draft_.equations.clear();
    state_.assign(original_.size(), Progress::untouched);
    for (std::size_t i = 0; i < original_.size(); ++i) {
      if (!can_be_split(original_[i])) continue;
      started_by_[original_[i].inputs[0].id].push_back(i);
      pending_[original_[i].outputs[0].id] = static_cast<std::ptrdiff_t>(i);
    }
    start_.resize(original_.size());
    for (Var v : draft_.inputs) defined(v);
    for (std::size_t i = 0; i < original_.size(); ++i) place(i);
    for (Var v : draft_.outputs) require(v);
    return draft_.finish();
  }

 private:
  enum class Progress { untouched, started, done };

  void place(std::size_t i) {
    if (can_be_split(original_[i])) {
      require(original_[i].inputs[0]);
      start(i);
      return;
    }
    if (original_[i].primitive == &ops::primitives::pvary() && is_awaited(original_[i].inputs[0])) {
      pending_[original_[i].outputs[0].id] = static_cast<std::ptrdiff_t>(i);
      return;
    }
    for (Var v : original_[i].inputs) require(v);
    draft_.equations.push_back(original_[i]);
    for (Var v : original_[i].outputs) defined(v);
  }

  void start(std::size_t i) {
    if (state_[i] != Progress::untouched) return;
    state_[i] = Progress::started;
    const Equation& e = original_[i];
    start_[i] = draft_.new_var(draft_.type(e.inputs[0]));
    draft_.equations.push_back({&ops::primitives::collective_start(), {}, {e.inputs[0]}, {start_[i]}, e.provenance});
  }

  bool is_awaited(Var v) const {
    const std::ptrdiff_t pending = pending_[v.id];
    return pending >= 0 && nth(state_, pending) != Progress::done;
  }

  /// Makes `v` available: waits for the collective that computes it.
  void require(Var v) {
    if (!is_awaited(v)) return;
    const auto i = static_cast<std::size_t>(pending_[v.id]);
    const Equation& e = original_[i];
    require(e.inputs[0]);
    if (!can_be_split(e)) {
      state_[i] = Progress::done;
      draft_.equations.push_back(e);
      defined(v);
      return;
    }
    start(i);
    state_[i] = Progress::done;
    draft_.equations.push_back({&ops::primitives::collective_wait(),
                                e.attrs.with("op", e.primitive->name),
                                {start_[i]},
                                e.outputs,
                                e.provenance});
    defined(v);
  }

  void defined(Var v) {
    for (std::size_t i : started_by_[v.id]) start(i);
  }

  Draft draft_;
  std::vector<Equation> original_;
  std::vector<std::vector<std::size_t>> started_by_;  // by operand
  std::vector<std::ptrdiff_t> pending_;               // by result: the collective or the pvary of one, or -1
  std::vector<Progress> state_;
  std::vector<Var> start_;
};

}  // namespace

FunctionPtr schedule_collectives(const FunctionPtr& function) {
  const FunctionPtr inner = map_sub_functions(function, schedule_collectives);
  return std::ranges::none_of(inner->equations(), can_be_split) ? inner : Scheduler(*inner).run();
}

}  // namespace lockstep::passes
