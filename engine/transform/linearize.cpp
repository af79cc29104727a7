#include <algorithm>

#include "engine/ops/primitives.h"
#include "engine/transform/replay.h"
#include "engine/transform/reverse.h"
#include "engine/transform/transforms.h"

namespace lockstep::transform {

namespace {

using ir::Builder;
using ir::Equation;
using ir::Function;
using ir::Var;

/// Constants cheap enough to be made again rather than kept as residuals: `full`, and what linear ops make of it.
std::vector<bool> constants(const Function& f) {
  std::vector<bool> constant(f.types().size());
  for (const Equation& equation : f.equations()) {
    const bool made = equation.primitive == &ops::primitives::full();
    const bool moved = equation.primitive->derivative.kind == ir::Derivative::Kind::linear &&
                       !equation.inputs.empty() &&
                       std::ranges::all_of(equation.inputs, [&](Var v) { return constant[v.id]; });
    if (!made && !moved) continue;
    for (const Var v : equation.outputs) constant[v.id] = true;
  }
  return constant;
}

/// Cuts a function made by `jvp` into what depends on the tangents and what does not.
class Split {
 public:
  Split(const Function& both, std::size_t primal_inputs, std::size_t primal_outputs)
      : both_(both),
        primal_inputs_(primal_inputs),
        primal_outputs_(primal_outputs),
        linear_(dependent()),
        constant_(constants(both)) {}

  Linearized run(const std::vector<bool>& wanted) {
    for (std::size_t i = primal_outputs_; i < both_.outputs().size(); ++i) {
      if (wanted[i - primal_outputs_]) tangents_.push_back(both_.outputs()[i]);
    }
    find_residuals();
    return {forward(), linear(), static_cast<int>(residuals_.size())};
  }

 private:
  std::vector<bool> dependent() const {
    std::vector<bool> marked(both_.types().size());
    for (std::size_t i = primal_inputs_; i < both_.inputs().size(); ++i) marked[both_.inputs()[i].id] = true;
    return depends_on(both_, std::move(marked));
  }

  /// An equation goes to `linear` where it depends on the tangents or is a constant.
  bool goes_to_linear(const Equation& equation) const {
    return std::ranges::any_of(equation.outputs, [&](Var v) { return linear_[v.id] || constant_[v.id]; });
  }

  void find_residuals() {
    in_linear_ = needed_for(both_, tangents_);
    std::vector<bool> seen(both_.types().size());
    const auto need = [&](Var v) {
      if (linear_[v.id] || constant_[v.id] || seen[v.id]) return;
      seen[v.id] = true;
      residuals_.push_back(v);
    };
    for (std::size_t i = 0; i < in_linear_.size(); ++i) {
      const Equation& equation = both_.equations()[i];
      in_linear_[i] = in_linear_[i] && goes_to_linear(equation);
      if (in_linear_[i]) std::ranges::for_each(equation.inputs, need);
    }
    std::ranges::for_each(tangents_, need);
    drop_unused_constants();
  }

  /// Constants that only feed what went to `forward`.
  void drop_unused_constants() {
    std::vector<bool> used(both_.types().size());
    for (const Var v : tangents_) used[v.id] = true;
    for (std::size_t i = in_linear_.size(); i-- > 0;) {
      const Equation& equation = both_.equations()[i];
      in_linear_[i] = in_linear_[i] && std::ranges::any_of(equation.outputs, [&](Var v) { return used[v.id]; });
      if (!in_linear_[i]) continue;
      for (const Var v : equation.inputs) used[v.id] = true;
    }
  }

  FunctionPtr forward() const {
    Builder builder(both_.axes());
    VarMap map(both_);
    for (std::size_t i = 0; i < primal_inputs_; ++i) {
      map.set(both_.inputs()[i], builder.input(both_.type(both_.inputs()[i])));
    }
    std::vector<Var> outputs(both_.outputs().begin(),
                             both_.outputs().begin() + static_cast<std::ptrdiff_t>(primal_outputs_));
    outputs.insert(outputs.end(), residuals_.begin(), residuals_.end());
    emit_marked(builder, both_, needed_for(both_, outputs), map);
    return builder.finish(map.at(outputs));
  }

  FunctionPtr linear() const {
    Builder builder(both_.axes());
    VarMap map(both_);
    for (const Var v : residuals_) map.set(v, builder.input(both_.type(v)));
    for (std::size_t i = primal_inputs_; i < both_.inputs().size(); ++i) {
      map.set(both_.inputs()[i], builder.input(both_.type(both_.inputs()[i])));
    }
    emit_marked(builder, both_, in_linear_, map);
    return builder.finish(map.at(tangents_));
  }

  const Function& both_;
  std::size_t primal_inputs_;
  std::size_t primal_outputs_;
  std::vector<bool> linear_;    // per var: depends on the tangents
  std::vector<bool> constant_;  // per var
  std::vector<Var> tangents_;
  std::vector<Var> residuals_;
  std::vector<bool> in_linear_;  // per equation
};

}  // namespace

Linearized linearize_wanted(const FunctionPtr& f, const std::vector<bool>& active, const std::vector<bool>& wanted) {
  const FunctionPtr both = jvp(f, active);
  return Split(*both, f->inputs().size(), f->outputs().size()).run(wanted);
}

Linearized linearize(const FunctionPtr& f, const std::vector<bool>& active) {
  const FunctionPtr both = jvp(f, active);
  const std::vector<bool> wanted(both->outputs().size() - f->outputs().size(), true);
  return Split(*both, f->inputs().size(), f->outputs().size()).run(wanted);
}

}  // namespace lockstep::transform
