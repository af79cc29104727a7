#include "engine/trace/key_reuse.h"

#include <algorithm>
#include <utility>

#include <lockstep/error.h>

#include "engine/ir/primitive.h"

namespace lockstep::tracing {

namespace {

using ir::Equation;
using ir::Function;
using ir::Var;

std::string describe(const Equation& equation) {
  const auto& scope = equation.provenance.scope;
  return equation.primitive->name + (scope && !scope->empty() ? " (in layer '" + *scope + "')" : "");
}

/// Ops that only move the elements of operands that are all keys, by attributes alone.
bool moves_keys(const Function& f, const Equation& equation) {
  return equation.primitive->traits.moves != ir::Moves::none &&
         std::ranges::all_of(equation.inputs, [&](Var v) { return f.type(v).dtype == DType::key; });
}

class Follower {
 public:
  explicit Follower(const Function& f) : f_(f), keys_(f.types().size()) {}

  std::vector<KeyElements> run(std::span<const KeyElements> inputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i) keys_[f_.inputs()[i].id] = inputs[i];
    for (const Equation& equation : f_.equations()) follow(equation);
    std::vector<KeyElements> outputs;
    for (const Var v : f_.outputs()) outputs.push_back(keys_[v.id]);
    return outputs;
  }

 private:
  KeyElements& of(Var v) { return keys_[v.id]; }
  std::vector<KeyElements> operands(const Equation& equation) {
    std::vector<KeyElements> list;
    for (const Var v : equation.inputs) list.push_back(of(v));
    return list;
  }

  void set_outputs(const Equation& equation, std::vector<KeyElements> keys) {
    for (std::size_t i = 0; i < equation.outputs.size(); ++i) of(equation.outputs[i]) = std::move(keys[i]);
  }

  void follow(const Equation& equation) {
    const ir::Primitive& primitive = *equation.primitive;
    for (const Var v : equation.outputs) of(v) = ir::new_keys(f_.type(v));
    // A backward pass repeats the draws of its forward pass, directly or in the body of a checkpoint or a loop.
    if (equation.provenance.backward && primitive.traits.moves == ir::Moves::none) return;
    if (primitive.traits.draws) {
      ir::use_keys(of(equation.inputs[0]), describe(equation));
    } else if (primitive.traits.moves == ir::Moves::in_place) {
      of(equation.outputs[0]) = of(equation.inputs[0]);
    } else if (primitive.sub_functions.follow_keys != nullptr) {
      set_outputs(equation, primitive.sub_functions.follow_keys({f_, equation, operands(equation), follow_keys}));
    } else if (primitive.traits.call) {
      set_outputs(equation, follow_keys(*ir::sub_function(equation.attrs, "body"), operands(equation)));
    } else if (moves_keys(f_, equation)) {
      move(equation);
    }
  }

  /// The op's own reference moves the elements' numbers.
  void move(const Equation& equation) {
    KeyElements all;
    std::vector<ir::ReferenceArray> inputs;
    for (const Var v : equation.inputs) {
      const KeyElements& keys = of(v);
      if (static_cast<std::int64_t>(keys.size()) != f_.type(v).size()) return;  // not followed
      inputs.push_back(ir::reference_zeros({DType::key, f_.type(v).shape, {}}));
      for (std::size_t i = 0; i < keys.size(); ++i) {
        inputs.back().integers()[i] = static_cast<std::int64_t>(all.size());
        all.push_back(keys[i]);
      }
    }
    std::vector<ir::ReferenceArray> outputs;
    for (const Var result : equation.outputs) {
      if (f_.type(result).size() > ir::most_keys) return;
      outputs.push_back(ir::reference_zeros({DType::key, f_.type(result).shape, {}}));
    }
    equation.primitive->reference({inputs, equation.attrs, outputs});
    for (std::size_t r = 0; r < outputs.size(); ++r) {
      KeyElements moved;
      for (const std::int64_t i : outputs[r].integers()) moved.push_back(all[static_cast<std::size_t>(i)]);
      of(equation.outputs[r]) = std::move(moved);
    }
  }

  const Function& f_;
  std::vector<KeyElements> keys_;  // per var
};

}  // namespace

std::vector<KeyElements> follow_keys(const Function& function, std::span<const KeyElements> inputs) {
  return Follower(function).run(inputs);
}

void check_key_reuse(const Function& function) {
  std::vector<KeyElements> inputs;
  for (const ArrayType& type : function.input_types()) inputs.push_back(ir::new_keys(type));
  follow_keys(function, inputs);
}

}  // namespace lockstep::tracing
