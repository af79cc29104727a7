#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "engine/ir/primitive.h"
#include "engine/passes/draft.h"
#include "engine/passes/pass.h"

namespace lockstep::passes {
namespace {

using ir::Equation;
using ir::FunctionPtr;
using ir::Var;
using Dims = std::vector<std::int64_t>;

/// The function while it is simplified: what is defined so far, and by which equation.
struct State {
  explicit State(const ir::Function& function) : draft(function), definition(draft.types.size(), nullptr) {}

  const ArrayType& type(Var v) const { return draft.type(v); }
  /// The equation that defines `v` if it is the op `name`.
  const Equation* defined_by(Var v, std::string_view name) const {
    const Equation* e = v.id < definition.size() ? definition[v.id] : nullptr;
    return e != nullptr && e->primitive->name == name ? e : nullptr;
  }

  Draft draft;
  std::vector<const Equation*> definition;
};

/// The value all elements of `v` have, where that is a constant.
const AttrValue* constant_of(const State& state, Var v) {
  for (;;) {
    if (const Equation* full = state.defined_by(v, "full")) return full->attrs.find("value");
    const Equation* through = nullptr;
    for (std::string_view name : {"pvary", "broadcast_in_dim", "reshape", "transpose", "stop_gradient"}) {
      if (through == nullptr) through = state.defined_by(v, name);
    }
    if (through == nullptr) return nullptr;
    v = through->inputs[0];
  }
}

bool is_one(const AttrValue* value) {
  if (value == nullptr) return false;
  if (const auto* real = std::get_if<double>(value)) return *real == 1.0;
  if (const auto* integer = std::get_if<std::int64_t>(value)) return *integer == 1;
  return false;
}

bool is_identity(const Dims& permutation) {
  for (std::size_t i = 0; i < permutation.size(); ++i) {
    if (permutation[i] != static_cast<std::int64_t>(i)) return false;
  }
  return true;
}

bool all_equal(const Dims& dims, std::int64_t value) {
  return std::all_of(dims.begin(), dims.end(), [=](std::int64_t d) { return d == value; });
}

Dims composed(const Dims& outer, const Dims& inner) {
  Dims result;
  for (std::int64_t d : inner) result.push_back(outer[static_cast<std::size_t>(d)]);
  return result;
}

/// Whether the op gives its first operand back unchanged.
bool is_copy_of_operand(const State& state, const Equation& e) {
  const std::string& op = e.primitive->name;
  if (op == "convert" || op == "reshape") return true;  // the types are compared by the caller
  if (op == "stop_gradient" || op == "checkpoint_name") return true;
  if (op == "pvary") return e.attrs.get<std::vector<std::string>>("axes").empty();
  if (op == "transpose") return is_identity(e.attrs.get<Dims>("permutation"));
  if (op == "broadcast_in_dim") return is_identity(e.attrs.get<Dims>("dims"));
  if (op == "slice") return all_equal(e.attrs.get<Dims>("start"), 0) && all_equal(e.attrs.get<Dims>("strides"), 1);
  if (op == "pad") {
    return all_equal(e.attrs.get<Dims>("low"), 0) && all_equal(e.attrs.get<Dims>("high"), 0) &&
           all_equal(e.attrs.get<Dims>("interior"), 0);
  }
  if (op == "concatenate") return e.inputs.size() == 1;
  if (op == "reverse") return e.attrs.get<Dims>("dims").empty();
  if (op == "mul" || op == "div") return is_one(constant_of(state, e.inputs[1]));
  return false;
}

/// Another value that is equal to the equation's result, if there is one.
std::optional<Var> equal_value(const State& state, const Equation& e) {
  const std::string& op = e.primitive->name;
  if (e.inputs.empty() || e.outputs.size() != 1) return std::nullopt;
  if (is_copy_of_operand(state, e)) return e.inputs[0];
  if (op == "mul" && is_one(constant_of(state, e.inputs[0]))) return e.inputs[1];
  if (op == "neg") {
    if (const Equation* inner = state.defined_by(e.inputs[0], "neg")) return inner->inputs[0];
  }
  if (op == "select") {
    if (e.inputs[1] == e.inputs[2]) return e.inputs[1];
    const AttrValue* predicate = constant_of(state, e.inputs[0]);
    const auto* truth = predicate == nullptr ? nullptr : std::get_if<bool>(predicate);
    if (truth != nullptr) return *truth ? e.inputs[1] : e.inputs[2];
  }
  return std::nullopt;
}

/// The equation with a chain of two moves joined to one.
void join_with_operand(const State& state, Equation& e) {
  const std::string& op = e.primitive->name;
  if (e.inputs.size() != 1) return;
  const Equation* inner = state.defined_by(e.inputs[0], op);
  if (inner == nullptr) return;
  if (op == "reshape") {
    e.inputs = inner->inputs;
  } else if (op == "transpose") {
    e.attrs =
        e.attrs.with("permutation", composed(inner->attrs.get<Dims>("permutation"), e.attrs.get<Dims>("permutation")));
    e.inputs = inner->inputs;
  } else if (op == "broadcast_in_dim") {
    e.attrs = e.attrs.with("dims", composed(e.attrs.get<Dims>("dims"), inner->attrs.get<Dims>("dims")));
    e.inputs = inner->inputs;
  } else if (op == "pvary") {
    AxisSet axes(e.attrs.get<std::vector<std::string>>("axes"));
    axes = axes.joined(AxisSet(inner->attrs.get<std::vector<std::string>>("axes")));
    e.attrs = e.attrs.with("axes", axes.names());
    e.inputs = inner->inputs;
  }
}

/// A constant moved about is the constant of the new shape.
void move_constant(const State& state, Equation& e) {
  const std::string& op = e.primitive->name;
  if (op != "reshape" && op != "transpose" && op != "broadcast_in_dim" && op != "slice" && op != "reverse") return;
  const Equation* full = state.defined_by(e.inputs[0], "full");
  if (full == nullptr) return;
  e.primitive = full->primitive;
  e.attrs = full->attrs.with("shape", state.type(e.outputs[0]).shape.to_vector());
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
      join_with_operand(state, e);
      move_constant(state, e);
      const std::optional<Var> other = equal_value(state, e);
      if (other && state.type(*other) == state.type(e.outputs[0])) {
        substitution.replace(e.outputs[0], *other);
        continue;
      }
    }
    kept.push_back(std::move(e));
    for (Var v : kept.back().outputs) state.definition[v.id] = &kept.back();
  }
  state.draft.equations = std::move(kept);
  substitution.apply(state.draft.outputs);
  return state.draft.finish();
}

}  // namespace lockstep::passes
