#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/core/stable_hash.h"
#include "engine/ir/primitive.h"
#include "engine/passes/draft.h"
#include "engine/passes/pass.h"

namespace lockstep::passes {
namespace {

using ir::Equation;
using ir::FunctionPtr;
using ir::Var;

std::uint64_t hash_of(const Equation& equation) {
  StableHash hash;
  hash.add(equation.primitive->name);
  hash.add(equation.attrs.hash());
  for (Var v : equation.inputs) hash.add(std::uint64_t{v.id});
  return hash.value();
}

bool same(const Equation& a, const Equation& b) {
  return a.primitive == b.primitive && a.inputs == b.inputs && a.attrs == b.attrs;
}

}  // namespace

// Every op but those with effects is pure, random bits and collectives included: equal operands and attributes mean an
// equal value.
FunctionPtr cse(const FunctionPtr& function) {
  Draft draft(*function);
  Substitution substitution;
  std::unordered_multimap<std::uint64_t, std::size_t> seen;
  std::vector<Equation> kept;
  for (Equation& original : draft.equations) {
    Equation equation = map_sub_functions(original, cse);
    substitution.apply(equation.inputs);
    if (ir::has_effects(equation)) {
      kept.push_back(std::move(equation));
      continue;
    }
    const std::uint64_t key = hash_of(equation);
    const Equation* twin = nullptr;
    for (auto [it, end] = seen.equal_range(key); it != end; ++it) {
      if (same(kept[it->second], equation)) twin = &kept[it->second];
    }
    if (twin != nullptr) {
      for (std::size_t i = 0; i < equation.outputs.size(); ++i) {
        substitution.replace(equation.outputs[i], twin->outputs[i]);
      }
      continue;
    }
    seen.emplace(key, kept.size());
    kept.push_back(std::move(equation));
  }
  draft.equations = std::move(kept);
  substitution.apply(draft.outputs);
  return draft.finish();
}

}  // namespace lockstep::passes
