#include "engine/ops/call/checkpoint_policy.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <lockstep/error.h>

#include "engine/ir/primitive.h"
#include "engine/ops/primitives.h"

namespace lockstep::ops::call {

namespace {

constexpr std::array<std::string_view, 6> policies = {"nothing_saveable",      "everything_saveable",
                                                      "dots_saveable",         "dots_with_no_batch_dims_saveable",
                                                      "save_only_these_names", "save_anything_except_these_names"};

bool communicates(const ir::Equation& equation) {
  return ir::any_equation(equation, [](const ir::Equation& e) {
    return e.primitive->traits.collective && e.primitive != &primitives::pmap();
  });
}

}  // namespace

SavePolicy SavePolicy::of(const Attrs& attrs) {
  const auto& name = attrs.get<std::string>("policy");
  const auto place = std::ranges::find(policies, name);
  if (place == policies.end()) {
    std::string known;
    for (const std::string_view policy : policies) known += (known.empty() ? "" : ", ") + std::string(policy);
    throw ValueError("checkpoint given policy " + name + "; expected one of " + known);
  }
  SavePolicy policy;
  policy.kind_ = static_cast<Kind>(place - policies.begin());
  policy.names_ = attrs.get<std::vector<std::string>>("names");
  return policy;
}

bool SavePolicy::names(const ir::Equation& equation) const {
  return equation.primitive == &primitives::checkpoint_name() &&
         std::ranges::find(names_, equation.attrs.get<std::string>("name")) != names_.end();
}

bool SavePolicy::keeps(const ir::Equation& equation) const {
  const bool dot = equation.primitive == &primitives::dot_general();
  switch (kind_) {
    case Kind::nothing:
      return false;
    case Kind::everything:
      return true;
    case Kind::dots:
      return dot;
    case Kind::dots_with_no_batch_dims:
      return dot && equation.attrs.get<std::vector<std::vector<std::int64_t>>>("batch").front().empty();
    case Kind::only_names:
      return names(equation);
    case Kind::all_but_names:
      return !names(equation);
  }
  return false;
}

std::vector<bool> SavePolicy::kept(const ir::Function& f) const {
  std::vector<bool> kept(f.types().size());
  for (const ir::Equation& equation : f.equations()) {
    const bool keep = communicates(equation) || (!equation.inputs.empty() && keeps(equation));
    for (const ir::Var v : equation.outputs) kept[v.id] = keep;
    // A value that must not be kept under its name must not be kept without it either.
    if (kind_ == Kind::all_but_names && names(equation)) kept[equation.inputs[0].id] = false;
  }
  return kept;
}

}  // namespace lockstep::ops::call
