#include <optional>
#include <utility>
#include <vector>

#include "engine/ir/primitive.h"
#include "engine/ops/primitives.h"
#include "engine/passes/draft.h"
#include "engine/passes/pass.h"

namespace lockstep::passes {
namespace {

using ir::Equation;
using ir::FunctionPtr;
using ir::Var;

/// The function while it is simplified: what is defined so far, and by which equation.
struct State {
  explicit State(const ir::Function& function) : draft(function), definition(draft.types.size(), nullptr) {}

  const ArrayType& type(Var v) const { return draft.type(v); }
  const Equation* defined_by(Var v) const { return v.id < definition.size() ? definition[v.id] : nullptr; }

  Draft draft;
  std::vector<const Equation*> definition;
};

/// The equation of one number for all elements that `v` is, moved or not; null where it is none.
const Equation* constant(const State& state, Var v) {
  const Equation* e = state.defined_by(v);
  while (e != nullptr && ir::moves_one(e->primitive->traits)) e = state.defined_by(e->inputs[0]);
  return e != nullptr && e->primitive == &ops::primitives::full() ? e : nullptr;
}

/// Another value that is equal to the equation's result wherever the types are, if there is one.
std::optional<Var> equal_value(const State& state, const Equation& e) {
  if (e.primitive->traits.moves == ir::Moves::in_place) return e.inputs[0];
  if (!e.primitive->equal_to) return std::nullopt;
  return e.primitive->equal_to({e.attrs, e.inputs,
                                [&](Var v) {
                                  const Equation* full = constant(state, v);
                                  return full == nullptr ? nullptr : full->attrs.find("value");
                                },
                                [&](Var v) { return state.defined_by(v); }});
}

/// One equation for a chain of two of an op.
void compose_with_operand(const State& state, Equation& e) {
  if (!e.primitive->compose) return;
  const Equation* inner = state.defined_by(e.inputs[0]);
  if (inner == nullptr || inner->primitive != e.primitive) return;
  e.attrs = e.primitive->compose(e.attrs, inner->attrs);
  e.inputs = inner->inputs;
}

/// A constant moved about is the constant of the new shape.
void move_constant(const State& state, Equation& e) {
  const ArrayType& type = state.type(e.outputs[0]);
  if (!ir::moves_one(e.primitive->traits) || !type.varying.empty()) return;
  const Equation* full = state.defined_by(e.inputs[0]);
  if (full == nullptr || full->primitive != &ops::primitives::full()) return;
  e.primitive = full->primitive;
  e.attrs = full->attrs.with("shape", type.shape.to_vector());
  e.inputs.clear();
}

}  // namespace

FunctionPtr simplify(const FunctionPtr& function) {
  State state(*function);
  Substitution substitution;
  std::vector<Equation> kept;
  kept.reserve(state.draft.equations.size());  // `definition` points into it
  for (const Equation& original : state.draft.equations) {
    Equation e = map_sub_functions(original, simplify);
    substitution.apply(e.inputs);
    if (e.outputs.size() == 1 && !e.inputs.empty()) {
      compose_with_operand(state, e);
      const std::optional<Var> other = equal_value(state, e);
      if (other && state.type(*other) == state.type(e.outputs[0])) {
        substitution.replace(e.outputs[0], *other);
        continue;
      }
      move_constant(state, e);
    }
    kept.push_back(std::move(e));
    for (Var v : kept.back().outputs) state.definition[v.id] = &kept.back();
  }
  state.draft.equations = std::move(kept);
  substitution.apply(state.draft.outputs);
  return state.draft.finish();
}

}  // namespace lockstep::passes
