#include <algorithm>

#include <lockstep/error.h>

#include "engine/ops/primitives.h"
#include "engine/transform/replay.h"
#include "engine/transform/transforms.h"

namespace lockstep::transform {

namespace {

using ir::Builder;
using ir::Equation;
using ir::Function;
using ir::Value;
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

std::vector<bool> mark_inputs(const Function& f, const std::vector<bool>& unknown) {
  std::vector<bool> marked(f.types().size());
  for (std::size_t i = 0; i < unknown.size(); ++i) marked[f.inputs()[i].id] = unknown[i];
  return marked;
}

/// Replays a function with every equation that has sub-functions and an unknown operand cut in two by its rule.
class EquationSplitter {
 public:
  explicit EquationSplitter(const Function& f) : f_(f), builder_(f.axes()), map_(f) {}

  FunctionPtr run(const std::vector<bool>& unknown) {
    unknown_ = mark_inputs(f_, unknown);
    for (const Var v : f_.inputs()) map_.set(v, builder_.input(f_.type(v)));
    for (const Equation& equation : f_.equations()) replay(equation);
    builder_.set_provenance({});
    return builder_.finish(map_.at(f_.outputs()));
  }

 private:
  void replay(const Equation& equation) {
    builder_.set_provenance(equation.provenance);
    const bool any = std::ranges::any_of(equation.inputs, [&](Var v) { return unknown_[v.id]; });
    if (any && equation.primitive->split) return split(equation);
    map_.set(equation.outputs, builder_.apply(*equation.primitive, map_.at(equation.inputs), equation.attrs));
    for (const Var v : equation.outputs) unknown_[v.id] = any;
  }

  void split(const Equation& equation) {
    std::vector<Value> inputs;
    std::vector<bool> unknown;
    for (const Var v : equation.inputs) {
      inputs.emplace_back(builder_, map_.at(v));
      unknown.push_back(unknown_[v.id]);
    }
    const ir::SplitResult result =
        equation.primitive->split({builder_, equation.attrs, inputs, std::move(unknown), &transforms()});
    if (result.outputs.size() != equation.outputs.size() || result.unknown.size() != equation.outputs.size()) {
      throw IrError("linearize: the rule of " + describe(equation) + " gave " + std::to_string(result.outputs.size()) +
                    " values for " + std::to_string(equation.outputs.size()) + " results");
    }
    for (std::size_t i = 0; i < result.outputs.size(); ++i) {
      const Var v = equation.outputs[i];
      map_.set(v, as_type(builder_, result.outputs[i].var(), f_.type(v), describe(equation)));
      unknown_[v.id] = result.unknown[i];
    }
  }

  const Function& f_;
  Builder builder_;
  VarMap map_;
  std::vector<bool> unknown_;  // per var of f
};

bool has_split_rules(const Function& f) {
  return std::ranges::any_of(f.equations(), [](const Equation& e) { return static_cast<bool>(e.primitive->split); });
}

/// Cuts a function whose equations each stand on one side.
class Partition {
 public:
  Partition(const Function& f, const std::vector<bool>& unknown_inputs, const std::vector<bool>& forced)
      : f_(f),
        unknown_inputs_(unknown_inputs),
        unknown_(depends_on(f, mark_inputs(f, unknown_inputs))),
        constant_(constants(f)) {
    for (std::size_t i = 0; i < f.outputs().size(); ++i) {
      const Var v = f.outputs()[i];
      unknown_outputs_.push_back(unknown_[v.id] || forced[i]);
      (unknown_outputs_[i] ? late_ : early_).push_back(v);
    }
  }

  ir::Partitioned run() {
    find_residuals();
    return {known(), unknown(), static_cast<int>(residuals_.size()), unknown_outputs_};
  }

 private:
  bool goes_late(const Equation& equation) const {
    return std::ranges::any_of(equation.outputs, [&](Var v) { return unknown_[v.id] || constant_[v.id]; });
  }

  void find_residuals() {
    in_late_ = needed_for(f_, late_);
    std::vector<bool> seen(f_.types().size());
    const auto need = [&](Var v) {
      if (unknown_[v.id] || constant_[v.id] || seen[v.id]) return;
      seen[v.id] = true;
      residuals_.push_back(v);
    };
    for (std::size_t i = 0; i < in_late_.size(); ++i) {
      const Equation& equation = f_.equations()[i];
      in_late_[i] = in_late_[i] && goes_late(equation);
      if (in_late_[i]) std::ranges::for_each(equation.inputs, need);
    }
    std::ranges::for_each(late_, need);
    drop_unused_constants();
  }

  /// Constants that only feed what is known.
  void drop_unused_constants() {
    std::vector<bool> used(f_.types().size());
    for (const Var v : late_) used[v.id] = true;
    for (std::size_t i = in_late_.size(); i-- > 0;) {
      const Equation& equation = f_.equations()[i];
      in_late_[i] = in_late_[i] && std::ranges::any_of(equation.outputs, [&](Var v) { return used[v.id]; });
      if (!in_late_[i]) continue;
      for (const Var v : equation.inputs) used[v.id] = true;
    }
  }

  void add_inputs(Builder& builder, VarMap& map, bool unknown) const {
    for (std::size_t i = 0; i < unknown_inputs_.size(); ++i) {
      const Var v = f_.inputs()[i];
      if (unknown_inputs_[i] == unknown) map.set(v, builder.input(f_.type(v)));
    }
  }

  FunctionPtr known() const {
    Builder builder(f_.axes());
    VarMap map(f_);
    add_inputs(builder, map, false);
    std::vector<Var> outputs = early_;
    outputs.insert(outputs.end(), residuals_.begin(), residuals_.end());
    emit_marked(builder, f_, needed_for(f_, outputs), map);
    return builder.finish(map.at(outputs));
  }

  FunctionPtr unknown() const {
    Builder builder(f_.axes());
    VarMap map(f_);
    for (const Var v : residuals_) map.set(v, builder.input(f_.type(v)));
    add_inputs(builder, map, true);
    emit_marked(builder, f_, in_late_, map);
    return builder.finish(map.at(late_));
  }

  const Function& f_;
  const std::vector<bool>& unknown_inputs_;
  std::vector<bool> unknown_;   // per var: depends on an unknown input
  std::vector<bool> constant_;  // per var
  std::vector<bool> unknown_outputs_;
  std::vector<Var> early_;  // known outputs
  std::vector<Var> late_;   // unknown outputs
  std::vector<Var> residuals_;
  std::vector<bool> in_late_;  // per equation
};

}  // namespace

ir::Partitioned partition(const FunctionPtr& f, const std::vector<bool>& unknown, const std::vector<bool>& forced) {
  const FunctionPtr split = has_split_rules(*f) ? EquationSplitter(*f).run(unknown) : f;
  return Partition(*split, unknown, forced).run();
}

}  // namespace lockstep::transform
